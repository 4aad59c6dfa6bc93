"""Rate limits of one server. Bounded: the oldest windows go first, so that invented keys cannot fill the memory."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from app.clock import Monotonic

KEYS_MAX = 100_000


@dataclass(slots=True)
class _Window:
    ends_at_s: float
    count: int = 0


class MemoryRateLimits:
    """Owns the windows."""

    def __init__(self, monotonic: Monotonic, *, keys_max: int = KEYS_MAX) -> None:
        self._monotonic = monotonic
        self._keys_max = keys_max
        self._windows: OrderedDict[str, _Window] = OrderedDict()

    def __len__(self) -> int:
        return len(self._windows)

    async def take(self, key: str, *, limit: int, window_s: float, amount: int = 1) -> float | None:
        """See `RateLimits`."""
        now = self._monotonic()
        window = self._windows.get(key)
        if window is None or window.ends_at_s <= now:
            window = _Window(now + window_s)
        if window.count + amount > limit:
            return window.ends_at_s - now
        window.count += amount
        self._windows[key] = window
        while len(self._windows) > self._keys_max:
            self._windows.popitem(last=False)
        return None

    async def give_back(self, key: str, amount: int = 1) -> None:
        """See `RateLimits`."""
        if (window := self._windows.get(key)) is not None:
            window.count = max(0, window.count - amount)

    async def forget(self, key: str) -> None:
        """See `RateLimits`."""
        self._windows.pop(key, None)
