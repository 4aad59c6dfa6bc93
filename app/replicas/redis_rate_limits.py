"""Rate limits that all servers count together: a number per key that expires with its window, changed by one script at a time."""

from __future__ import annotations

from app.replicas.memory_rate_limits import MemoryRateLimits
from app.replicas.redis_link import AWAY, PREFIX, RedisLink

LIMIT_KEY = f"{PREFIX}limit:"

TAKE = """
local count = tonumber(redis.call('GET', KEYS[1]) or '0')
if count + tonumber(ARGV[1]) > tonumber(ARGV[2]) then
  return math.max(redis.call('PTTL', KEYS[1]), 0)
end
local total = redis.call('INCRBY', KEYS[1], ARGV[1])
if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return -1
"""

GIVE_BACK = """
local count = tonumber(redis.call('GET', KEYS[1]) or '0')
if count > 0 then redis.call('DECRBY', KEYS[1], math.min(count, tonumber(ARGV[1]))) end
return 0
"""


class RedisRateLimits:
    """Owns nothing but the twin that counts while Redis is away."""

    def __init__(self, link: RedisLink, alone: MemoryRateLimits) -> None:
        self._link = link
        self._alone = alone
        self._take = link.commands.register_script(TAKE)
        self._give_back = link.commands.register_script(GIVE_BACK)

    async def take(self, key: str, *, limit: int, window_s: float, amount: int = 1) -> float | None:
        """See `RateLimits`."""
        try:
            wait_ms = int(await self._take([LIMIT_KEY + key], [amount, limit, max(1, round(window_s * 1000))]))
        except AWAY as problem:
            self._link.failed(problem)
            return await self._alone.take(key, limit=limit, window_s=window_s, amount=amount)
        if wait_ms < 0:
            return None
        # Nothing was counted under this key yet, and yet it is too much at once.
        return wait_ms / 1000 if wait_ms else window_s

    async def give_back(self, key: str, amount: int = 1) -> None:
        """See `RateLimits`."""
        try:
            await self._give_back([LIMIT_KEY + key], [amount])
        except AWAY as problem:
            self._link.failed(problem)
            await self._alone.give_back(key, amount)

    async def forget(self, key: str) -> None:
        """See `RateLimits`."""
        try:
            await self._link.commands.delete(LIMIT_KEY + key)
        except AWAY as problem:
            self._link.failed(problem)
            await self._alone.forget(key)
