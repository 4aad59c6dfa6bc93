"""Logs of answers that other servers make, for readers of this one: opened by the first, closed behind the last.

Frames come from the shared log. How an answer ended is in SQL besides, where it is looked up when nothing has come for a while:
so a reader gets to the end, whatever becomes of Redis.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import msgspec
import structlog

from app.clock import Monotonic
from app.conversations.models import MessageStatus
from app.database import Database, DatabaseAway
from app.realtime.event_log import EventLog, decoded_frame, rest_of
from app.realtime.hub import Hub
from app.replicas.shared_logs import NumberedFrame, SharedLogs
from app.responses import queries
from app.responses.outcome import stopped

logger = structlog.stdlib.get_logger(__name__)

LOOK_S = 1.0
QUIET_S = 2.0
"""An answer that has said nothing for so long may have ended without being able to say so."""

UNREAD_S = 30.0
"""Whoever wanted to read it has gone before the first frame."""


@dataclass(slots=True)
class _Copy:
    log: EventLog
    opened_at_s: float
    heard_at_s: float


class Copies:
    """Owns the copies that somebody reads here. Lives on the event loop."""

    def __init__(
        self,
        hub: Hub,
        logs: SharedLogs,
        database: Database,
        *,
        monotonic: Monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._hub = hub
        self._logs = logs
        self._database = database
        self._monotonic = monotonic
        self._sleep = sleep
        self._copies: dict[str, _Copy] = {}

    def __len__(self) -> int:
        return len(self._copies)

    def open(self, conversation_id: str, response_id: str) -> EventLog:
        """The log of a response that runs elsewhere: whole a moment later, and growing. Whoever calls begins to read it."""
        if (log := self._hub.log(response_id)) is not None:
            return log
        log = EventLog(conversation_id, response_id)
        now = self._monotonic()
        self._copies[response_id] = _Copy(log, now, now)
        self._hub.open_copy(log, lambda: self._close(response_id))
        self._logs.follow(response_id, 0, lambda frames: self._take(response_id, frames))
        return log

    async def run(self) -> None:
        """Look into SQL for those that are quiet, until cancelled."""
        while True:
            await self._sleep(LOOK_S)
            try:
                await self.look()
            except DatabaseAway:
                # It is looked up again in a second.
                continue
            except Exception:
                logger.exception("copies_not_looked_up")

    async def look(self) -> None:
        """End the copies of answers that have ended, and those that nobody reads."""
        now = self._monotonic()
        for copy in list(self._copies.values()):
            if now - copy.opened_at_s >= UNREAD_S:
                self._hub.drop_unread_copy(copy.log)
        quiet = [name for name, copy in self._copies.items() if now - copy.heard_at_s >= QUIET_S]
        if not quiet:
            return
        async with self._database.read() as session:
            states = await queries.states(session, quiet)
        for response_id in quiet:
            state = states.get(response_id)
            if state is None or state.status.is_final:
                await self._end(response_id)

    def _take(self, response_id: str, frames: Sequence[NumberedFrame]) -> None:
        copy = self._copies.get(response_id)
        if copy is None:
            return
        copy.heard_at_s = self._monotonic()
        try:
            decoded = [decoded_frame(encoded) for seq, encoded in frames if seq > copy.log.last_seq]
        except msgspec.DecodeError as problem:
            # SQL has the end of it, whatever it was.
            logger.error("shared_log_unreadable", response_id=response_id, error=str(problem))
            return
        self._hub.show(copy.log, decoded)
        if copy.log.is_ended:
            self._close(response_id)

    async def _end(self, response_id: str) -> None:
        """SQL has the rest of it; or nothing at all, when it was deleted with its conversation."""
        async with self._database.read() as session:
            stored = await queries.stored_log(session, response_id)
        copy = self._copies.get(response_id)
        if copy is None or copy.log.is_ended:
            return
        if stored is None:
            outcome = stopped(MessageStatus.CANCELLED)
            copy.log.unstage()
            rest = [copy.log.stage(outcome.frame_type, outcome.frame_data(""))]
        else:
            rest = rest_of(copy.log, stored)
        self._hub.show(copy.log, rest)
        self._close(response_id)

    def _close(self, response_id: str) -> None:
        self._logs.leave(response_id)
        self._copies.pop(response_id, None)
