"""Finds stop strings in a text that arrives piece by piece.

One `StopStrings` per answer, used by `engine.core`. It shows text as early as it can: held back is only the longest suffix
that is a true prefix of a stop string. Where a stop string ends first, the text ends before it begins; of several that end
at the same character the longest counts. Pure: no torch, no clock.
"""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """The state of the search. Cutting the text elsewhere never changes the outcome."""

    __slots__ = ("_held", "_patterns", "stopped")

    def __init__(self, stops: Sequence[str]) -> None:
        self._patterns = [_Pattern(stop) for stop in stops]
        self._held = ""
        self.stopped = False
        """Whether a stop string was found; nothing is shown after it."""

    @property
    def held(self) -> str:
        """Text that is not shown yet, because it may be the beginning of a stop string."""
        return self._held

    def push(self, text: str) -> str:
        """Take more text and return what may be shown now."""
        if not self._patterns:
            return text
        if self.stopped:
            return ""
        buffer = self._held + text
        for end, char in enumerate(text, start=len(self._held) + 1):
            found = 0
            for pattern in self._patterns:
                if pattern.advance(char):
                    found = max(found, pattern.length)
            if found:
                self.stopped = True
                self._held = ""
                return buffer[: end - found]
        shown = len(buffer) - max(pattern.matched for pattern in self._patterns)
        self._held = buffer[shown:]
        return buffer[:shown]

    def flush(self) -> str:
        """The answer has ended: return the text still held back."""
        held, self._held = self._held, ""
        return held


class _Pattern:
    """One stop string as the automaton of Knuth, Morris and Pratt: `matched` characters of it end the text so far."""

    __slots__ = ("_fallback", "_text", "length", "matched")

    def __init__(self, text: str) -> None:
        if not text:
            raise ValueError("a stop string must not be empty")
        self._text = text
        self.length = len(text)
        self.matched = 0
        self._fallback = [0] * len(text)
        border = 0
        for index in range(1, len(text)):
            while border and text[index] != text[border]:
                border = self._fallback[border - 1]
            if text[index] == text[border]:
                border += 1
            self._fallback[index] = border

    def advance(self, char: str) -> bool:
        """Take one character; true when the whole pattern ends here."""
        while self.matched and self._text[self.matched] != char:
            self.matched = self._fallback[self.matched - 1]
        if self._text[self.matched] == char:
            self.matched += 1
        return self.matched == self.length
