"""Shared logs as Redis streams: one task writes for all answers, one reads for all that are followed.

What has come since the last write goes into one round trip, at most one per GATHER_S, except that the first frames of an answer
do not wait. The frames of running answers are kept here until their end, so that a Redis that was away, or was restarted
without anything, gets all of them again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import structlog
from redis.exceptions import NoScriptError

from app.clock import Monotonic
from app.replicas.ending import ended
from app.replicas.redis_link import AWAY, FIRST_PAUSE_S, RedisLink, longer
from app.replicas.redis_log_reader import RedisLogReader
from app.replicas.redis_log_script import ADD, ADD_SHA, DEPOSED, ENDED_MS, RUNNING_MS, log_key
from app.replicas.shared_logs import Done, Reader, SharedLogsAway

logger = structlog.stdlib.get_logger(__name__)

GATHER_S = 0.05
"""At most twenty writes a second, however many answers run."""

URGENT_FRAMES = 4
"""Frames of an answer that do not wait: its begin, its progress, and its first text, which somebody is waiting for."""

SEND_S = 2.0


@dataclass(slots=True)
class _Held:
    """The log of a running answer, and how much of it Redis has."""

    frames: list[bytes] = field(default_factory=list)
    shared_seq: int = 0
    is_deposed: bool = False
    is_ended: bool = False


class RedisSharedLogs:
    """One server's end. Lives on the event loop."""

    def __init__(self, link: RedisLink, owner: str, monotonic: Monotonic, *, gather_s: float = GATHER_S) -> None:
        self._link = link
        self._monotonic = monotonic
        self._gather_s = gather_s
        self._reader = RedisLogReader(link, owner, pause_s=gather_s)
        self._held: dict[str, _Held] = {}
        self._waiting: list[tuple[str, Done]] = []
        self._has_waiting = asyncio.Event()
        self._is_urgent = asyncio.Event()
        self._is_away = False
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """See `SharedLogs`."""
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._come_back())]
        self._reader.open()

    def append(self, response_id: str, first_seq: int, frames: Sequence[bytes], done: Done) -> None:
        """See `SharedLogs`."""
        held = self._held.setdefault(response_id, _Held())
        if frames and len(held.frames) != first_seq - 1:
            raise RuntimeError(f"response {response_id} shares {len(held.frames)} frames, and now came {first_seq}")
        held.frames += frames
        self._waiting.append((response_id, done))
        if len(held.frames) <= URGENT_FRAMES:
            self._is_urgent.set()
        self._has_waiting.set()

    def end(self, response_id: str, terminal: bytes | None) -> None:
        """See `SharedLogs`."""
        held = self._held.get(response_id)
        if held is None or held.is_ended:
            return
        if terminal is None:
            del self._held[response_id]
            return
        held.frames.append(terminal)
        held.is_ended = True
        self._waiting.append((response_id, lambda _: None))
        self._has_waiting.set()

    async def complete(self, response_id: str, frames: Sequence[bytes]) -> None:
        """See `SharedLogs`."""
        held = _Held(list(frames), is_ended=True)
        try:
            await self._share({response_id: held})
        except AWAY as problem:
            # Who follows it looks into SQL, too.
            self._link.failed(problem)

    async def read(self, response_id: str) -> list[bytes]:
        """See `SharedLogs`."""
        try:
            return await self._reader.read(response_id)
        except AWAY as problem:
            self._link.failed(problem)
            raise SharedLogsAway(str(problem)) from None

    def follow(self, response_id: str, after: int, reader: Reader) -> None:
        """See `SharedLogs`."""
        self._reader.follow(response_id, after, reader)

    def leave(self, response_id: str) -> None:
        """See `SharedLogs`."""
        self._reader.leave(response_id)

    def sizes(self) -> dict[str, int]:
        """See `SharedLogs`."""
        return {"shared_logs": len(self._held), "followed_logs": len(self._reader)}

    async def close(self) -> None:
        """See `SharedLogs`. What waits is written first: others may be reading the ends of answers."""
        if self._waiting and not self._is_away:
            with contextlib.suppress(*AWAY):
                await self._share({response_id: self._held[response_id] for response_id in self._named()})
        tasks, self._tasks = self._tasks, []
        await ended(tasks)
        await self._reader.close()
        self._tell(self._take_waiting())

    # --- writing -----------------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        not_before_s = self._monotonic()
        while True:
            await self._has_waiting.wait()
            if (pause_s := not_before_s - self._monotonic()) > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._is_urgent.wait()
            not_before_s = self._monotonic() + self._gather_s
            self._has_waiting.clear()
            self._is_urgent.clear()
            named, waiting = self._named(), self._take_waiting()
            if not self._is_away:
                try:
                    await self._share({response_id: self._held[response_id] for response_id in named})
                except AWAY as problem:
                    # From here on the journal is what keeps them, and it has these frames already.
                    self._link.failed(problem)
                    self._is_away = True
            self._tell(waiting)

    def _named(self) -> dict[str, None]:
        return {response_id: None for response_id, _ in self._waiting if response_id in self._held}

    def _take_waiting(self) -> list[tuple[str, Done]]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def _tell(self, waiting: Iterable[tuple[str, Done]]) -> None:
        for response_id, done in waiting:
            held = self._held.get(response_id)
            done(held is None or not held.is_deposed)
            if held is not None and held.is_ended and self._is_over(held):
                del self._held[response_id]

    def _is_over(self, held: _Held) -> bool:
        """Whether Redis has all of an ended log, or has to do without: SQL has it."""
        return self._is_away or held.is_deposed or held.shared_seq >= len(held.frames)

    async def _share(self, logs: dict[str, _Held]) -> None:
        """Add what Redis lacks of these now; what comes meanwhile is for the next time. Raises what is in AWAY."""
        until = {response_id: len(held.frames) for response_id, held in logs.items()}
        is_repeated = False
        while behind := {
            response_id: held
            for response_id, held in logs.items()
            if held.shared_seq < until[response_id] and not held.is_deposed
        }:
            if is_repeated:
                # Redis has less than it had: it was restarted, or somebody emptied it.
                logger.info("logs_shared_again", logs=len(behind))
            for response_id, last_seq in (await self._add(behind)).items():
                behind[response_id].is_deposed = last_seq == DEPOSED
                behind[response_id].shared_seq = max(last_seq, 0)
            is_repeated = True

    async def _add(self, logs: dict[str, _Held]) -> dict[str, int]:
        """One round trip for all of them: the last frame that each has there."""
        self._link.round_trips += 1
        async with asyncio.timeout(SEND_S), self._link.commands.pipeline(transaction=False) as pipeline:
            for response_id, held in logs.items():
                kept_ms = ENDED_MS if held.is_ended else RUNNING_MS
                frames = held.frames[held.shared_seq :]
                pipeline.evalsha(ADD_SHA, 1, log_key(response_id), held.shared_seq + 1, kept_ms, *frames)
            answers = await pipeline.execute(raise_on_error=False)
        if any(isinstance(answer, NoScriptError) for answer in answers):
            await self._link.commands.script_load(ADD)
            return await self._add(logs)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return {response_id: int(answer) for response_id, answer in zip(logs, answers, strict=True)}

    async def _come_back(self) -> None:
        """While Redis is away, ask again and again; when it is there, give it everything it lacks."""
        pause_s = FIRST_PAUSE_S
        while True:
            await asyncio.sleep(pause_s)
            pause_s = longer(pause_s) if self._is_away else FIRST_PAUSE_S
            if self._is_away:
                try:
                    await self._share(dict(self._held))
                    await self._link.commands.ping()
                except AWAY as problem:
                    self._link.failed(problem)
                else:
                    self._is_away = False
                    self._link.answered()
                    self._write_rest()

    def _write_rest(self) -> None:
        """Have written what came while the others were on their way. Not in a loop until there is none: on a busy server more
        comes in every round trip, and an answer that ends while Redis counts as away does not get its end there."""
        for response_id, held in self._held.items():
            if held.shared_seq < len(held.frames) and not held.is_deposed:
                self._waiting.append((response_id, lambda _: None))
                self._has_waiting.set()
