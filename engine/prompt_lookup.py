"""What a sequence may say next: what followed when it last had the same two tokens in a row, as when it quotes its own prompt.

Used by `engine.speculation`, in the engine thread. One for each sequence, of its own tokens only: nothing of anybody else's is
ever proposed, and how often proposals come true tells nothing of others. Pure.

    tokens   [ … the old light house was … in the old | light house was … ]
                         source ↑                        what is expected

A token costs one entry in a dictionary and one look into it. The expectation is compared with every token that comes, whether it
was used or not; so whoever has stopped using it sees at no cost when it comes true again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

REMEMBERED_PAIRS: Final = 4096
"""Pairs of tokens after which the older ones are forgotten by the next so many: 1 MB at most, and 1 ms for a long prompt."""

FORGETTING: Final = 0.9
"""Weight of a token after each later one in the chance: the last ten or so decide."""

FIRST_CHANCE: Final = 0.3
FIRST_WEIGHT: Final = 4.0
"""Before anything came true or not: what it is in ordinary chat, and as good as so many tokens."""

_SHIFT: Final = 32
"""Token ids have fewer bits."""


class PromptLookup:
    """Owns the index of one sequence, and the place in it that its latest tokens are a repetition of."""

    __slots__ = ("_hits", "_num_seen", "_older", "_pairs", "_source", "_tries")

    def __init__(self) -> None:
        self._pairs: dict[int, int] = {}
        self._older: dict[int, int] = {}
        """Where the token after a pair is, the latest time it was there."""
        self._num_seen = 0
        self._source: int | None = None
        """The place of the token that is expected next."""
        self._tries = FIRST_WEIGHT
        self._hits = FIRST_WEIGHT * FIRST_CHANCE

    @property
    def chance(self) -> float:
        """How likely the next token is the expected one, by those before; 0 where none is expected."""
        return 0.0 if self._source is None else self._hits / self._tries

    def follow(self, tokens: Sequence[int]) -> None:
        """Take note of the tokens that have come since the last time. `tokens` only ever grows."""
        if not self._num_seen:
            # A prompt was not written by the model: it says nothing of how often the model repeats.
            first = max(1, len(tokens) - REMEMBERED_PAIRS)
            for place in range(first, len(tokens) - 1):
                self._pairs[tokens[place - 1] << _SHIFT | tokens[place]] = place + 1
            self._num_seen = len(tokens) - 1
        for place in range(self._num_seen, len(tokens)):
            self._compare(tokens, place)
            if place:
                self._note(tokens[place - 1] << _SHIFT | tokens[place], place + 1)
        self._num_seen = len(tokens)

    def draft(self, tokens: Sequence[int], most: int) -> tuple[int, ...]:
        """The next `most` tokens, should what is expected come true. `tokens` are those of the last `follow`."""
        if self._source is None:
            return ()
        repeated = tokens[self._source : self._source + most]
        # Where the source reaches the end, what it repeats is being repeated: it goes on in circles.
        return tuple(repeated[place % len(repeated)] for place in range(most))

    def _compare(self, tokens: Sequence[int], place: int) -> None:
        if self._source is None:
            return
        is_hit = tokens[self._source] == tokens[place]
        self._tries = FORGETTING * self._tries + 1.0
        self._hits = FORGETTING * self._hits + is_hit
        self._source = self._source + 1 if is_hit else None

    def _note(self, pair: int, following: int) -> None:
        if self._source is None:
            found = self._pairs.get(pair)
            self._source = self._older.get(pair) if found is None else found
        if len(self._pairs) >= REMEMBERED_PAIRS:
            self._pairs, self._older = {}, self._pairs
        self._pairs[pair] = following
