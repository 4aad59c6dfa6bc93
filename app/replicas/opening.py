"""Chooses the twins and puts them together for one server: Redis where one is set, memory where none is.

Opened by the context before anything uses it, and closed after everything that did.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.clock import Monotonic
from app.replicas.bus import Bus
from app.replicas.leases import Leases
from app.replicas.memory_bus import MemoryBroker, MemoryBus
from app.replicas.memory_leases import LeaseBoard, MemoryLeases
from app.replicas.memory_rate_limits import MemoryRateLimits
from app.replicas.memory_shared_logs import LogShelf, MemorySharedLogs
from app.replicas.rate_limits import RateLimits
from app.replicas.shared_logs import SharedLogs

if TYPE_CHECKING:
    from app.replicas.redis_link import RedisLink


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """What this server shares with the others. `owner` is its name among them, new at every start.

    `problem` says why Redis is away; None when it answers, and when there is none to answer. `link` is the way to Redis, for
    twins that belong to a domain; None where there is none.
    """

    owner: str
    is_alone: bool
    bus: Bus
    leases: Leases
    limits: RateLimits
    logs: SharedLogs
    problem: Callable[[], str | None]
    link: RedisLink | None = None


@asynccontextmanager
async def open_replicas(redis_url: str, owner: str, monotonic: Monotonic) -> AsyncIterator[Replicas]:
    """Join the others for the length of the block. A Redis that is away keeps nobody from starting."""
    async with AsyncExitStack() as stack:
        replicas = _over_redis(redis_url, owner, monotonic, stack) if redis_url else _alone(owner, monotonic)
        for part in (replicas.leases, replicas.bus, replicas.logs):
            stack.push_async_callback(part.close)
            await part.open()
        yield replicas


def _alone(owner: str, monotonic: Monotonic) -> Replicas:
    return Replicas(
        owner=owner,
        is_alone=True,
        bus=MemoryBus(MemoryBroker()),
        leases=MemoryLeases(LeaseBoard(), owner),
        limits=MemoryRateLimits(monotonic),
        logs=MemorySharedLogs(LogShelf()),
        problem=lambda: None,
    )


def _over_redis(url: str, owner: str, monotonic: Monotonic, stack: AsyncExitStack) -> Replicas:
    # Imported by who has a Redis: it takes a tenth of a second of every start.
    from app.replicas.redis_bus import RedisBus
    from app.replicas.redis_leases import RedisLeases
    from app.replicas.redis_link import RedisLink
    from app.replicas.redis_rate_limits import RedisRateLimits
    from app.replicas.redis_shared_logs import RedisSharedLogs

    link = RedisLink(url)
    stack.push_async_callback(link.close)
    return Replicas(
        owner=owner,
        is_alone=False,
        bus=RedisBus(link, owner),
        leases=RedisLeases(link, owner),
        limits=RedisRateLimits(link, MemoryRateLimits(monotonic)),
        logs=RedisSharedLogs(link, owner, monotonic),
        problem=lambda: link.problem,
        link=link,
    )
