"""Counts of one server process, in its memory. See `counters` for what is promised; pure, and on the event loop only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from app.usage.limits import Window


class MemoryCounters:
    """For one server process. Windows that are over are forgotten when a later one is opened."""

    def __init__(self) -> None:
        self._counts: dict[Window, int] = {}
        self._swept_at: datetime | None = None

    def __len__(self) -> int:
        return len(self._counts)

    async def unseeded(self, windows: Iterable[Window]) -> list[Window]:
        return [window for window in windows if window not in self._counts]

    async def seed(self, window: Window, used: int) -> None:
        if self._swept_at is None or window.begins_at > self._swept_at:
            self._swept_at = window.begins_at
            self._counts = {kept: count for kept, count in self._counts.items() if kept.ends_at > window.begins_at}
        self._counts.setdefault(window, used)

    async def take(self, limits: Mapping[Window, int], amount: int) -> tuple[Window, int] | None:
        for window, limit in limits.items():
            if (used := self._counts.get(window, 0)) >= limit:
                return window, used
        for window in limits:
            # A window that has begun since the caller looked has no past.
            self._counts[window] = self._counts.get(window, 0) + amount
        return None

    async def add(self, windows: Mapping[Window, int], amount: int) -> None:
        for window in windows:
            if window in self._counts:
                self._counts[window] += amount

    async def used(self, window: Window) -> int:
        return self._counts.get(window, 0)
