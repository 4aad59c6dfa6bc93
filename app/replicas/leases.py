"""Who is alive, as a contract: a server renews its lease, and one whose lease has run out has died or cannot be reached.

Twins: `memory_leases` and `redis_leases`. A missing lease is a suspicion: whoever acts on it takes the work over in SQL, where
only one can, and what the other writes after that is refused.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

LEASE_S = 6.0
"""How long a server that says nothing counts as alive. With the patience of who looks, an answer is ended within 15 seconds."""

RENEW_S = 1.5
"""Four tries, and then it has run out."""


class Leases(Protocol):
    """One server's lease, and a look at those of others."""

    async def open(self) -> None:
        """Take this server's lease, and renew it from now on."""

    async def alive(self, owners: Collection[str]) -> set[str] | None:
        """Those of these servers whose lease holds; None when nobody can say now."""

    async def close(self) -> None:
        """Give the lease back: this server makes nothing any more. Idempotent."""
