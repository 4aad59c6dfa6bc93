"""Several servers of one deployment, without the servers: what the twins of `app.replicas` share, in memory and over Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from app.replicas.bus import Bus
from app.replicas.leases import Leases
from app.replicas.memory_bus import MemoryBroker, MemoryBus
from app.replicas.memory_leases import LeaseBoard, MemoryLeases
from app.replicas.memory_rate_limits import MemoryRateLimits
from app.replicas.memory_shared_logs import LogShelf, MemorySharedLogs
from app.replicas.rate_limits import RateLimits
from app.replicas.redis_bus import RedisBus
from app.replicas.redis_leases import RedisLeases
from app.replicas.redis_link import RedisLink
from app.replicas.redis_rate_limits import RedisRateLimits
from app.replicas.redis_shared_logs import RedisSharedLogs
from app.replicas.shared_logs import SharedLogs
from tests.support.clock import SteppedClock


@dataclass
class Member:
    """One server's twins."""

    name: str
    bus: Bus
    leases: Leases
    limits: RateLimits
    logs: SharedLogs
    link: RedisLink | None = None


class Deployment(Protocol):
    """Something that servers can join."""

    def member(self, name: str) -> Member: ...


class MemoryDeployment:
    def __init__(self) -> None:
        self._broker, self._board, self._shelf = MemoryBroker(), LeaseBoard(), LogShelf()
        self._limits = MemoryRateLimits(SteppedClock().monotonic)

    def member(self, name: str) -> Member:
        bus, leases = MemoryBus(self._broker), MemoryLeases(self._board, name)
        return Member(name, bus, leases, self._limits, MemorySharedLogs(self._shelf))


class RedisDeployment:
    def __init__(self, url: str) -> None:
        self._url = url

    def member(self, name: str) -> Member:
        link, clock = RedisLink(self._url), SteppedClock()
        return Member(
            name,
            RedisBus(link, name),
            RedisLeases(link, name, lease_s=5, renew_s=0.1),
            RedisRateLimits(link, MemoryRateLimits(clock.monotonic)),
            RedisSharedLogs(link, name, clock.monotonic),
            link,
        )


@asynccontextmanager
async def joined(deployment: Deployment, *names: str) -> AsyncIterator[list[Member]]:
    """Members whose twins are open for the length of the block."""
    async with AsyncExitStack() as stack:
        members = []
        for name in names:
            member = deployment.member(name)
            if member.link is not None:
                stack.push_async_callback(member.link.close)
            for part in (member.logs, member.bus, member.leases):
                await part.open()
                stack.push_async_callback(part.close)
            members.append(member)
        yield members
