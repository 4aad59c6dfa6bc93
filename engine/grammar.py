"""The grammar of one answer while it is sampled: which tokens may come next, and whether anything may.

Made by `engine.grammars`, moved on by `engine.answer`, in the engine thread. It depends on the answer's own tokens alone. This
and `engine.grammars` are the only modules that know the grammar library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher

from engine.errors import EngineError
from engine.number_bound import NumberBound

Mask = npt.NDArray[np.uint32]
"""One bit for each token of the vocabulary, 32 in a word, the lowest first: whether it may come next."""

MOST_SECONDS: Final = 5.0
"""What the masks of one answer may take together. Ordinary ones take 20 µs each; one that takes so long holds all others up."""


_PLACE: Final = re.compile(r"^at \d+\(\d+\): (?:failed to compile JSON schema: )?")


class GrammarFailed(EngineError):
    """The grammar of an answer cannot be followed any further; the message is for whoever sent it."""


@dataclass(frozen=True, slots=True)
class GrammarVocabulary:
    """What all grammars of a model share: the bytes of its tokens, which of them end an answer, which begin with more digits than
    the place in the list says, and which have a large exponent of their own."""

    token_bytes: Sequence[bytes]
    ends: Mask
    digits: Sequence[Mask]
    exponents: Mask


class TokenGrammar:
    """Owns the state of one answer."""

    def __init__(
        self,
        matcher: LLMatcher,
        vocabulary: GrammarVocabulary,
        clock: Callable[[], float],
        *,
        bounds_numbers: bool,
    ) -> None:
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._clock = clock
        self._numbers = NumberBound() if bounds_numbers else None
        self._seconds = 0.0

    @property
    def is_complete(self) -> bool:
        """Whether the answer is whole and nothing can follow it."""
        return self._matcher.is_stopped() and self._matcher.is_accepting()

    def failure(self) -> GrammarFailed | None:
        """Why no token can come next, where the grammar is the reason."""
        if self._seconds > MOST_SECONDS:
            return GrammarFailed(f"the schema is too complex: following it took more than {MOST_SECONDS:g} seconds")
        if self._matcher.is_error():
            return GrammarFailed(
                f"the schema could not be followed any further: {first_line(self._matcher.get_error())}"
            )
        if self._matcher.is_stopped() and not self._matcher.is_accepting():
            return GrammarFailed("the schema could not be followed any further: nothing can follow what was said")
        return None

    def append(self, token_id: int) -> None:
        """The next token was sampled. Raises GrammarFailed."""
        self._matcher.consume_token(token_id)
        if (failure := self.failure()) is not None:
            raise failure
        if self._numbers is not None:
            self._numbers.follow(self._vocabulary.token_bytes[token_id])

    def num_allowed(self, draft: Sequence[int]) -> int:
        """How many of these tokens may come one after the other."""
        return self._matcher.validate_tokens([*draft])

    def masks(self, draft: Sequence[int], may_end: Sequence[bool]) -> list[Mask]:
        """What may come next, and then behind each token of the draft; there is nothing behind one that may not come.

        An end token may come only where `may_end` says so, or where nothing else can.
        """
        begun = self._clock()
        numbers = self._numbers.copy() if self._numbers is not None else None
        masks = [self._mask(may_end[0], numbers)]
        num_taken = 0
        for token_id, may_end_behind in zip(draft, may_end[1:], strict=True):
            if num_taken == len(masks) - 1 and self._matcher.try_consume_tokens([token_id]):
                num_taken += 1
                if numbers is not None:
                    numbers.follow(self._vocabulary.token_bytes[token_id])
                masks.append(self._mask(may_end_behind, numbers))
            else:
                masks.append(np.zeros_like(masks[0]))
        if num_taken:
            self._matcher.rollback(num_taken)
        self._seconds += self._clock() - begun
        return masks

    def _mask(self, may_end: bool, numbers: NumberBound | None) -> Mask:
        mask = np.zeros_like(self._vocabulary.ends)
        if self.failure() is not None:
            return mask
        self._matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
        if self.failure() is not None:
            return np.zeros_like(mask)
        if not may_end:
            mask = _without(mask, self._vocabulary.ends)
        if numbers is not None and numbers.is_in_number:
            mask = _without(mask, self._vocabulary.exponents)
            if numbers.most_digits < len(self._vocabulary.digits):
                mask = _without(mask, self._vocabulary.digits[numbers.most_digits])
        return mask


def first_line(message: str) -> str:
    """Of what the library says, without its places in a text that nobody has seen, and without its own insides behind it."""
    line = _PLACE.sub("", message.strip().partition("\n")[0])
    return line or "no reason is known"


def _without(mask: Mask, others: Mask) -> Mask:
    """The same less the others, unless nothing would be left."""
    rest: Mask = mask & ~others
    return rest if rest.any() else mask
