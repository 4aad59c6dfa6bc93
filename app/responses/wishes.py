"""What others want of the answers that are made here: told over the bus, and looked up in SQL, because news may be lost.

One task per server that has others beside it. An answer whose conversation another server has deleted, or that another server has
ended because it took this one for dead, is stopped here as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from app.conversations.models import MessageStatus
from app.database import Database, DatabaseAway
from app.responses import queries
from app.responses.dispatcher import Dispatcher

logger = structlog.stdlib.get_logger(__name__)

LOOK_S = 1.0


class Wishes:
    """Owns nothing; reads SQL, tells the dispatcher."""

    def __init__(
        self,
        database: Database,
        dispatcher: Dispatcher,
        *,
        owner: str,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._database = database
        self._dispatcher = dispatcher
        self._owner = owner
        self._sleep = sleep

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._sleep(LOOK_S)
            try:
                await self.look()
            except DatabaseAway:
                # It is looked up again in a second.
                continue
            except Exception:
                logger.exception("wishes_not_read")

    async def look(self) -> None:
        """Do what SQL says is wanted of the answers that are alive here."""
        answers = self._dispatcher.every_answer()
        if not answers:
            return
        async with self._database.read() as session:
            states = await queries.states(session, [answer.response_id for answer in answers])
        for answer in answers:
            state = states.get(answer.response_id)
            if state is None or state.wanted_status is MessageStatus.CANCELLED:
                answer.stop(MessageStatus.CANCELLED)
            elif state.owner != self._owner:
                answer.stop(MessageStatus.INTERRUPTED)
