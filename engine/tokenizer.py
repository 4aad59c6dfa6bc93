"""Text to ids and back, for chats."""

from __future__ import annotations

from collections.abc import Sequence

from engine.detokenizer import Detokenizer
from engine.types import Turn


class ChatTokenizer:
    """Encodes turns with the model's chat template. Safe to call from several threads."""

    @property
    def end_token_ids(self) -> frozenset[int]:
        """Ids that end an answer."""
        raise NotImplementedError

    @property
    def vocabulary_size(self) -> int:
        """Ids are below this."""
        raise NotImplementedError

    def encode_turns(self, turns: Sequence[Turn]) -> list[int]:
        """Ids of the prompt, the opening of the answer included. Raises TemplateRefused."""
        raise NotImplementedError

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids, special tokens left out, ids that do not exist too."""
        raise NotImplementedError

    def detokenizer(self) -> Detokenizer:
        """A fresh one, for one answer."""
        raise NotImplementedError
