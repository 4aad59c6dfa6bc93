"""Turns sampled ids into text, one token at a time."""

from __future__ import annotations


class Detokenizer:
    """The text of one answer as it grows."""

    def push(self, token_id: int) -> str:
        """The text that this token makes certain; empty while a character is unfinished."""
        raise NotImplementedError

    def flush(self) -> str:
        """What is still held back, at the end of an answer."""
        raise NotImplementedError
