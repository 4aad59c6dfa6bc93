"""Writes answers to SQL: their growing text now and then, and their end for certain.

Called by the dispatcher. An end that cannot be written is tried again until it can: until then the text is in memory and in
the journal, and nobody has been told that it ended. No unit of work is open while tokens are computed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from app.database import Database, DatabaseAway
from app.responses import queries
from app.responses.queries import Ending, Growth, Stored

logger = structlog.stdlib.get_logger(__name__)

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


class AnswerStorage:
    """Owns no state but the database's pool."""

    def __init__(self, database: Database, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._database = database
        self._sleep = sleep

    async def end(self, ending: Ending) -> Stored:
        """Store the end of an answer, however long that takes."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                async with self._database.write() as session:
                    return await queries.write_ending(session, ending)
            except Exception as problem:
                # Whatever it is, giving up would lose the answer: the database may be restarting, or its disk be full.
                logger.error(
                    "answer_not_stored", response_id=ending.response_id, error=str(problem), again_in_s=pause_s
                )
            await self._sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def stored_log(self, response_id: str) -> bytes | None:
        """The log of an answer that another server has ended, however long reading it takes; None when it was deleted."""
        while True:
            try:
                async with self._database.read() as session:
                    return await queries.stored_log(session, response_id)
            except DatabaseAway as away:
                await self._sleep(away.retry_after_s)

    async def grow(self, growths: Sequence[Growth]) -> bool:
        """Store how far running answers have come, in one transaction. False when that failed: there will be a next time."""
        try:
            async with self._database.write() as session:
                for growth in growths:
                    await queries.write_growth(session, growth)
        except Exception as problem:
            logger.warning("growth_not_stored", answers=len(growths), error=str(problem))
            return False
        return True
