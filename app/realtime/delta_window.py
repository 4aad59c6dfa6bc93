"""Gathers an answer's text into frames: the first at once, then at most one per window.

Used by the answer before text gets its `seq`, so that every client sees the same frames however fast it reads. Pure: the
caller brings the time and asks again at `due_at`.
"""

from __future__ import annotations


class DeltaWindow:
    """The text of one answer that has no frame yet."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._held: list[str] = []
        self._open_until = float("-inf")

    @property
    def due_at(self) -> float | None:
        """When the held text has to go; None when there is none; long ago for the first."""
        return self._open_until if self._held else None

    def add(self, text: str) -> None:
        """More text of the answer."""
        self._held.append(text)

    def take_due(self, now: float) -> str:
        """The held text if its time has come, else nothing."""
        due_at = self.due_at
        return self.take(now) if due_at is not None and due_at <= now else ""

    def take(self, now: float) -> str:
        """All held text, now. The next window begins, if there was any."""
        text = "".join(self._held)
        if text:
            self._held.clear()
            self._open_until = now + self._window_s
        return text
