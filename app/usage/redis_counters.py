"""Counts that several servers share: a number per window in Redis that goes with it, changed by one script at a time.

See `counters` for what is promised. While Redis is away each server counts for itself, beginning with what the database says;
what was counted meanwhile is added when Redis is back, so a day's limit is exceeded once, by what the servers used apart, and
not for the rest of the day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from app.replicas.redis_link import AWAY, PREFIX, RedisLink
from app.usage.limits import Window
from app.usage.memory_counters import MemoryCounters

COUNT_KEY = f"{PREFIX}used:"
KEPT_MS = 60_000
"""After the window: clocks of two servers may differ by less."""

TAKE = """
for i, key in ipairs(KEYS) do
  local used = tonumber(redis.call('GET', key) or '0')
  if used >= tonumber(ARGV[i + 1]) then return {i, used} end
end
for i, key in ipairs(KEYS) do
  redis.call('INCRBY', key, ARGV[1])
  redis.call('PEXPIREAT', key, ARGV[#KEYS + i + 1])
end
return false
"""

ADD = """
for _, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 1 then redis.call('INCRBY', key, ARGV[1]) end
end
return false
"""


class RedisCounters:
    """Owns the twin that counts while Redis is away, and what that has counted."""

    def __init__(self, link: RedisLink, alone: MemoryCounters) -> None:
        self._link = link
        self._alone = alone
        self._missed: Counter[Window] = Counter()
        self._take = link.commands.register_script(TAKE)
        self._add = link.commands.register_script(ADD)

    async def unseeded(self, windows: Iterable[Window]) -> list[Window]:
        """See `Counters`."""
        windows = list(windows)
        if not windows:
            return []
        try:
            await self._catch_up()
            found = await self._link.commands.mget([_key(window) for window in windows])
        except AWAY as problem:
            self._link.failed(problem)
            return await self._alone.unseeded(windows)
        return [window for window, count in zip(windows, found, strict=True) if count is None]

    async def seed(self, window: Window, used: int) -> None:
        """See `Counters`."""
        try:
            await self._link.commands.set(_key(window), used, nx=True, pxat=_ends_ms(window))
        except AWAY as problem:
            self._link.failed(problem)
            await self._alone.seed(window, used)

    async def take(self, limits: Mapping[Window, int], amount: int) -> tuple[Window, int] | None:
        """See `Counters`."""
        if not limits:
            return None
        windows = list(limits)
        try:
            await self._catch_up()
            ends = [_ends_ms(window) for window in windows]
            full = await self._take([_key(window) for window in windows], [amount, *limits.values(), *ends])
        except AWAY as problem:
            self._link.failed(problem)
            refusal = await self._alone.take(limits, amount)
            if refusal is None:
                self._missed.update(dict.fromkeys(limits, amount))
            return refusal
        return None if full is None else (windows[int(full[0]) - 1], int(full[1]))

    async def add(self, windows: Mapping[Window, int], amount: int) -> None:
        """See `Counters`."""
        if not windows:
            return
        try:
            await self._catch_up()
            await self._add([_key(window) for window in windows], [amount])
        except AWAY as problem:
            self._link.failed(problem)
            await self._alone.add(windows, amount)
            self._missed.update(dict.fromkeys(windows, amount))

    async def used(self, window: Window) -> int:
        """See `Counters`."""
        try:
            await self._catch_up()
            return int(await self._link.commands.get(_key(window)) or 0)
        except AWAY as problem:
            self._link.failed(problem)
            return await self._alone.used(window)

    async def _catch_up(self) -> None:
        """Add what was counted apart. A window that Redis does not know any more is seeded from the database, which has it."""
        while self._missed:
            window, amount = self._missed.popitem()
            try:
                await self._add([_key(window)], [amount])
            except AWAY:
                self._missed[window] += amount
                raise


def _key(window: Window) -> str:
    subject = window.subject
    begins = window.begins_at.strftime("%Y%m%dT%H%M")
    return f"{COUNT_KEY}{subject.kind}:{subject.id}:{window.unit}:{window.span}:{begins}"


def _ends_ms(window: Window) -> int:
    return round(window.ends_at.timestamp() * 1000) + KEPT_MS
