"""A tokenizer whose every token says one character: an engine that has it makes no text, and tells of each token at once.

Made by `engine.bench.token_engine`, because the other engines are measured without detokenising too. Only what the engine's
thread asks of a tokenizer is there; it never encodes anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.detokenizer import Detokenizer
from engine.tokenizer import ChatTokenizer
from engine.types import Turn

SIGN: Final = "."


class CountingDetokenizer(Detokenizer):
    """One character a token."""

    def __init__(self) -> None:
        """Nothing of a vocabulary is needed."""

    def push(self, token_id: int) -> str:
        return SIGN

    def flush(self) -> str:
        return ""


class CountingTokenizer(ChatTokenizer):
    """Has the ids of another tokenizer, and none of its texts."""

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        self.end_token_ids = tokenizer.end_token_ids
        self.vocabulary_size = tokenizer.vocabulary_size

    def prefix_ids(self, turns: Sequence[Turn]) -> list[int]:
        return []

    def between_ids(self) -> list[int]:
        return []

    def decode(self, ids: Sequence[int]) -> str:
        return SIGN * len(ids)

    def detokenizer(self) -> Detokenizer:
        return CountingDetokenizer()
