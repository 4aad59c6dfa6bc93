"""The fake engine's tokenizer and chat template: a token is a word of a prompt, or a piece of a script."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import PromptTooLong
from engine.types import ContextPolicy, GenerationRequest, Role, Turn

Ids = tuple[int, ...]


class FakeVocabulary:
    """Gives every new piece the next id. A turn costs three tokens beside its words, a prompt two beside its turns."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._pieces: list[str] = []

    def id_of(self, piece: str) -> int:
        """The id of one piece."""
        if piece not in self._ids:
            self._ids[piece] = len(self._pieces)
            self._pieces.append(piece)
        return self._ids[piece]

    def ids_of(self, pieces: Sequence[str]) -> Ids:
        """The ids of several."""
        return tuple(self.id_of(piece) for piece in pieces)

    def decode(self, ids: Sequence[int]) -> str:
        """Their text."""
        return "".join(self._pieces[token] for token in ids)

    def ids_of_turns(self, turns: Sequence[Turn]) -> Ids:
        """What a prompt begins with that has these turns."""
        ids = [self.id_of("<begin>")]
        for turn in turns:
            said = self.ids_of(turn.text.split()) if turn.token_ids is None else turn.token_ids
            ids += [self.id_of(f"<{turn.role}>"), *said, self.id_of("<end>"), self.id_of("\n")]
        return tuple(ids)

    def prompt(self, request: GenerationRequest, context_tokens: int) -> tuple[Ids, int]:
        """The ids of a prompt that fits, and how many turns were left out for that. Raises PromptTooLong."""
        turns = list(request.turns)
        room = context_tokens - 1
        if request.context_policy is ContextPolicy.DROP_OLDEST_TURNS:
            quarter = context_tokens // 4
            room = context_tokens - min(request.sampling.max_tokens or quarter, quarter)
        while len(ids := self._prompt_of(turns)) > room:
            droppable = [index for index, turn in enumerate(turns[:-1]) if turn.role is not Role.SYSTEM]
            if request.context_policy is ContextPolicy.ERROR or not droppable:
                break
            del turns[droppable[0]]
        if len(ids) >= context_tokens:
            raise PromptTooLong(len(ids), context_tokens - 1)
        return ids, len(request.turns) - len(turns)

    def _prompt_of(self, turns: Sequence[Turn]) -> Ids:
        return (*self.ids_of_turns(turns), self.id_of(f"<{Role.ASSISTANT}>"))
