"""The way to Redis: how connections are made, and whether it answers, for everybody who uses it.

Used by the Redis twins only. No call waits long: what Redis gives can be done without for a while, and everything here is written
so that it is. It must never raise into somebody's turn because Redis is away.
"""

from __future__ import annotations

from typing import Any

import structlog
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

logger = structlog.stdlib.get_logger(__name__)

PREFIX = "kvasir:"
"""In front of every key, so that the same Redis may serve others too."""

CALL_S = 2.0
"""A Redis that does not answer within this is away: a working one takes less than a millisecond."""

BLOCK_S = 2.0
"""How long a read waits for news before it asks again."""

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 1.0

AWAY = (RedisError, OSError, TimeoutError)
"""What the client raises when it cannot get an answer."""


class RedisLink:
    """Owns the clients: one for commands, one for reads that block. `problem` says why Redis is away, None
    when it answers; `round_trips` counts what shared logs have cost."""

    def __init__(self, url: str) -> None:
        self.commands = _client(url, CALL_S)
        self.blocking = _client(url, BLOCK_S + CALL_S)
        self.problem: str | None = None
        self.round_trips = 0

    def failed(self, problem: BaseException) -> None:
        """A call got no answer."""
        if self.problem is None:
            logger.warning("redis_away", error=f"{type(problem).__name__}: {problem}")
        self.problem = str(problem) or type(problem).__name__

    def answered(self) -> None:
        """A call got one."""
        if self.problem is not None:
            logger.info("redis_back")
        self.problem = None

    async def close(self) -> None:
        """Give every connection back."""
        await self.commands.aclose()
        await self.blocking.aclose()


def _client(url: str, timeout_s: float) -> Redis:
    """Without the client's own retries: who calls knows better what to do meanwhile."""
    options: dict[str, Any] = {
        "socket_timeout": timeout_s,
        "socket_connect_timeout": CALL_S,
        "retry": Retry(NoBackoff(), 0),
    }
    return Redis.from_url(url, **options)


def require_redis_url(url: str) -> None:
    """Raises ValueError for what cannot be the address of a Redis."""
    _client(url, CALL_S)


def longer(pause_s: float) -> float:
    """The pause before the next try."""
    return min(pause_s * 2, LONGEST_PAUSE_S)
