"""Reads the shared logs that somebody here follows: one connection and one blocking read for all of them.

A log that is followed anew wakes the read that waits, through a stream of this server's own. Between two reads there is a pause,
so that what is written in small pieces is fetched in larger ones. After a Redis that was away it goes on where each log was.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from app.replicas.ending import ended
from app.replicas.redis_link import AWAY, BLOCK_S, FIRST_PAUSE_S, PREFIX, RedisLink, longer
from app.replicas.redis_log_script import FIELD, entry_id, log_key, response_of, seq_of
from app.replicas.shared_logs import NumberedFrame, Reader

ENTRIES_PER_READ = 1000
WAKE_MS = 60_000


@dataclass(slots=True)
class _Followed:
    last_seq: int
    reader: Reader


class RedisLogReader:
    """Owns who follows what."""

    def __init__(self, link: RedisLink, owner: str, *, pause_s: float) -> None:
        self._link = link
        self._pause_s = pause_s
        self._wake_key = f"{PREFIX}wake:{owner}"
        self._wake_id = "0-0"
        self._followed: dict[str, _Followed] = {}
        self._is_followed = asyncio.Event()
        self._is_waiting = False
        self._reading: asyncio.Task[None] | None = None
        self._waking: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._followed)

    def open(self) -> None:
        """Begin."""
        self._reading = asyncio.create_task(self._run())

    async def read(self, response_id: str) -> list[bytes]:
        """All frames of a log. Raises what is in AWAY."""
        entries: Any = await self._link.commands.xrange(log_key(response_id))
        return [fields[FIELD] for _, fields in entries]

    def follow(self, response_id: str, after: int, reader: Reader) -> None:
        """See `SharedLogs`."""
        self._followed[response_id] = _Followed(after, reader)
        self._is_followed.set()
        if self._is_waiting:
            task = asyncio.create_task(self._wake())
            self._waking.add(task)
            task.add_done_callback(self._waking.discard)

    def leave(self, response_id: str) -> None:
        """See `SharedLogs`."""
        self._followed.pop(response_id, None)
        if not self._followed:
            self._is_followed.clear()

    async def close(self) -> None:
        """End the read that waits."""
        self._followed.clear()
        tasks = [*self._waking, *([self._reading] if self._reading else [])]
        self._reading = None
        await ended(tasks)

    async def _wake(self) -> None:
        try:
            async with self._link.commands.pipeline(transaction=False) as pipeline:
                pipeline.xadd(self._wake_key, {"w": ""}, maxlen=1, approximate=False)
                pipeline.pexpire(self._wake_key, WAKE_MS)
                await pipeline.execute()
        except AWAY as problem:
            # The read fails as well, and then begins with everything that is followed.
            self._link.failed(problem)

    async def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            await self._is_followed.wait()
            try:
                answer = await self._read_some()
            except AWAY as problem:
                self._link.failed(problem)
                await asyncio.sleep(pause_s)
                pause_s = longer(pause_s)
                continue
            pause_s = FIRST_PAUSE_S
            for key, entries in answer:
                self._deliver(key, entries)
            await asyncio.sleep(self._pause_s)

    async def _read_some(self) -> list[Any]:
        places: dict[Any, Any] = {log_key(name): entry_id(each.last_seq) for name, each in self._followed.items()}
        places[self._wake_key] = self._wake_id
        self._is_waiting = True
        self._link.round_trips += 1
        try:
            answer = await self._link.blocking.xread(places, count=ENTRIES_PER_READ, block=round(BLOCK_S * 1000))
        finally:
            self._is_waiting = False
        return list(answer or [])

    def _deliver(self, key: bytes, entries: list[tuple[bytes, dict[bytes, bytes]]]) -> None:
        if key == self._wake_key.encode():
            self._wake_id = entries[-1][0].decode()
            return
        followed = self._followed.get(response_of(key))
        if followed is None:
            return
        frames: list[NumberedFrame] = []
        for entry, fields in entries:
            if (seq := seq_of(entry)) == followed.last_seq + 1:
                followed.last_seq = seq
                frames.append((seq, fields[FIELD]))
        if frames:
            followed.reader(frames)
