"""One look at a Redis, for `kvasir doctor`: whether it answers, and whether it keeps what it is given. Blocking."""

from __future__ import annotations

from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from app.replicas.redis_link import CALL_S

NEEDED_POLICY = "noeviction"


def redis_problem(url: str) -> str | None:
    """Why it cannot be used; None when it answers."""
    try:
        with Redis.from_url(url, socket_timeout=CALL_S, socket_connect_timeout=CALL_S) as client:
            client.ping()
    except (RedisError, OSError, ValueError) as problem:
        return str(problem) or type(problem).__name__
    return None


def evicting_policy(url: str) -> str | None:
    """The policy by which it throws away keys when it is full; None when it does not, and where it does not say."""
    try:
        with Redis.from_url(url, socket_timeout=CALL_S, socket_connect_timeout=CALL_S) as client:
            found: Any = client.config_get("maxmemory-policy")
    except (RedisError, OSError):
        # A Redis that is rented may forbid the question.
        return None
    policy = str(found.get("maxmemory-policy", NEEDED_POLICY))
    return None if policy == NEEDED_POLICY else policy
