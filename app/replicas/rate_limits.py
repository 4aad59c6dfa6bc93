"""How often something may be done, counted together by all servers, as a contract: so many per window, for each key.

Twins: `memory_rate_limits` (each server counts for itself) and `redis_rate_limits`, which counts in memory while Redis is away:
then somebody may do a thing once per server, and nobody is locked out.
"""

from __future__ import annotations

from typing import Protocol


class RateLimits(Protocol):
    """Windows begin with the first that is counted, and end together with everything in them."""

    async def take(self, key: str, *, limit: int, window_s: float, amount: int = 1) -> float | None:
        """Count it. None where there was room; else nothing is counted, and it is the seconds until the window ends."""

    async def give_back(self, key: str, amount: int = 1) -> None:
        """What was counted should not have been."""

    async def forget(self, key: str) -> None:
        """Begin anew with this key."""
