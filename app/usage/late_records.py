"""Writes down what answers have cost that are stored nowhere else: many in one transaction, a moment after their end.

Used by `app.openai`. Limits are counted before and at the end of each answer, so nobody waits for these rows. While the database
is away they wait here; what a killed process had not written yet is not counted after its restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog

from app.conversations.models import MessageStatus
from app.database import Database, DatabaseAway
from app.usage.ledger import record_answer
from app.usage.limits import Spender

logger = structlog.stdlib.get_logger(__name__)

TOGETHER = 200
"""Records in one transaction."""

PAUSE_S = 1.0
LAST_WRITES_S = 1.0
"""What is left when the server ends gets this long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedAnswer:
    """One that has ended, however it did."""

    response_id: str
    spender: Spender
    model: str | None
    status: MessageStatus
    usage: dict[str, Any]
    ended_at: datetime


class LateRecords:
    """Owns what is not written yet, and the task that writes it."""

    def __init__(self, database: Database, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._database = database
        self._sleep = sleep
        self._waiting: list[EndedAnswer] = []
        self._arrived = asyncio.Event()
        self._written = asyncio.Event()
        self._written.set()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, ended: EndedAnswer) -> None:
        """It is written soon."""
        self._waiting.append(ended)
        self._written.clear()
        self._arrived.set()

    async def written(self) -> None:
        """Return when everything is."""
        await self._written.wait()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                try:
                    await self._write(self._waiting[:TOGETHER])
                except Exception as problem:
                    # Whatever it is, giving up would lose what was used: the database may be restarting.
                    if not isinstance(problem, DatabaseAway):
                        logger.exception("usage_not_stored", answers=len(self._waiting))
                    await self._sleep(PAUSE_S)
            self._written.set()

    async def close(self, task: asyncio.Task[None]) -> None:
        """Write what is left, and end the task that runs this."""
        if self._waiting:
            waiting = asyncio.ensure_future(self.written())
            await asyncio.wait([waiting, task], timeout=LAST_WRITES_S, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        task.cancel()
        await asyncio.wait([task])

    async def _write(self, some: list[EndedAnswer]) -> None:
        async with self._database.write() as session:
            for ended in some:
                await record_answer(
                    session,
                    ended.spender,
                    response_id=ended.response_id,
                    model=ended.model,
                    status=ended.status,
                    usage=ended.usage,
                    ended_at=ended.ended_at,
                )
        del self._waiting[: len(some)]
