"""Leases as keys that expire. Renewing them is also how a server notices that Redis is away, and that it is back."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from app.replicas.ending import ended
from app.replicas.leases import LEASE_S, RENEW_S
from app.replicas.redis_link import AWAY, PREFIX, RedisLink

LEASE_KEY = f"{PREFIX}replica:"


class RedisLeases:
    """One server's lease."""

    def __init__(self, link: RedisLink, owner: str, *, lease_s: float = LEASE_S, renew_s: float = RENEW_S) -> None:
        self._link = link
        self._owner = owner
        self._lease_ms = round(lease_s * 1000)
        self._renew_s = renew_s
        self._renewing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """See `Leases`."""
        await self._renew()
        self._renewing = asyncio.create_task(self._keep())

    async def alive(self, owners: Collection[str]) -> set[str] | None:
        """See `Leases`."""
        asked = list(owners)
        if not asked:
            return set()
        try:
            held = await self._link.commands.mget([LEASE_KEY + owner for owner in asked])
        except AWAY as problem:
            self._link.failed(problem)
            return None
        return {owner for owner, value in zip(asked, held, strict=True) if value is not None}

    async def close(self) -> None:
        """See `Leases`."""
        if self._renewing is None:
            return
        await ended([self._renewing])
        self._renewing = None
        try:
            await self._link.commands.delete(LEASE_KEY + self._owner)
        except AWAY as problem:
            self._link.failed(problem)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._renew_s)
            await self._renew()

    async def _renew(self) -> None:
        try:
            await self._link.commands.set(LEASE_KEY + self._owner, b"1", px=self._lease_ms)
        except AWAY as problem:
            self._link.failed(problem)
        else:
            self._link.answered()
