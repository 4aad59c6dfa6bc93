"""How much was used in each window, counted while it happens. The protocol; its twins are
`memory_counters`, of one server, and `redis_counters`, of several.

Called by `QuotaService` only. `take` is one step: of any number of callers at once exactly as many get through as a limit allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from app.usage.limits import Window


class Counters(Protocol):
    """Counts by window. One that nobody has seeded counts nothing: what was used before it was looked at is not known yet."""

    async def unseeded(self, windows: Iterable[Window]) -> list[Window]:
        """Those of these windows that have to be seeded before anything is taken from them."""

    async def seed(self, window: Window, used: int) -> None:
        """Begin to count with what was used already; the first one who says so counts."""

    async def take(self, limits: Mapping[Window, int], amount: int) -> tuple[Window, int] | None:
        """Add `amount` to every window, unless one has reached its limit: then add nothing, and say which and its count."""

    async def add(self, windows: Mapping[Window, int], amount: int) -> None:
        """Add to every window that is counted, or with a negative amount give back, whatever the limits are."""

    async def used(self, window: Window) -> int:
        """The count of a window."""
