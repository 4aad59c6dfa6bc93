"""The text of one answer: token ids go in one by one, text that may be shown comes out.

Used by `engine.core`. It joins the incremental detokeniser and the stop strings, and knows at the end which ids make up exactly
the text that was shown. Pure: no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.detokenizer import Detokenizer
from engine.stop_strings import StopStrings


class AnswerText:
    """Everything `push` and `flush` return, joined, is what was shown.

    A stop string counts only where it begins after the first `min_tokens` ids, whose text is shown as it comes.
    """

    def __init__(
        self,
        detokenizer: Detokenizer,
        decode: Callable[[Sequence[int]], str],
        stops: Sequence[str],
        min_tokens: int = 0,
    ) -> None:
        self._detokenizer = detokenizer
        self._min_tokens = min_tokens
        self._decode = decode
        self._stops = StopStrings(stops)
        self._ids: list[int] = []
        self._ends: list[int] = []
        """Characters of the text after each id, shown or not."""
        self.num_chars = 0
        """Of the text so far, shown or not."""
        self.num_shown_chars = 0
        self._shown: list[str] = []

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found."""
        return self._stops.stopped

    def push(self, token_id: int) -> str:
        """Take the next id and return the text that may be shown now."""
        text = self._detokenizer.push(token_id)
        self._ids.append(token_id)
        self.num_chars += len(text)
        self._ends.append(self.num_chars)
        return self._show(text if len(self._ids) <= self._min_tokens else self._stops.push(text))

    def flush(self) -> str:
        """The answer has ended: the text still held back, unless a stop string ended it."""
        if self.stopped:
            return ""
        text = self._stops.push(self._detokenizer.flush())
        return self._show(text + self._stops.flush())

    @property
    def num_shown_tokens(self) -> int:
        """The first ids whose text was shown to its last character, so that the next prompt may well have them again."""
        return sum(end <= self.num_shown_chars for end in self._ends)

    def token_ids(self) -> tuple[int, ...] | None:
        """The ids whose decoding is the text shown; None where a stop string cut through a token."""
        shown = "".join(self._shown)
        count = len(self._ids)
        if self.stopped:
            count = next((count for count, end in enumerate(self._ends, start=1) if end >= len(shown)), 0)
            count = count if shown else 0
        ids = tuple(self._ids[:count])
        return ids if self._decode(ids) == shown else None

    def _show(self, text: str) -> str:
        if text:
            self._shown.append(text)
            self.num_shown_chars += len(text)
        return text
