"""One answer at a time per conversation, whichever servers make them: whoever was accepted first goes first.

Used by the dispatcher when it is an answer's turn on this server. The order is that of SQL, where turns were stored one after the
other, so no lock is needed that could be lost; an elder whose server has died is ended by the reaper.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from app.database import Database, DatabaseAway
from app.replicas.opening import Replicas
from app.responses import queries
from app.responses.answer import Answer

LOOK_S = 0.2
"""Only who really waits for another server asks again."""


class Elders:
    """Owns nothing."""

    def __init__(
        self, database: Database, replicas: Replicas, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._database = database
        self._replicas = replicas
        self._sleep = sleep

    async def gone(self, answer: Answer) -> None:
        """Return when no other server has an older answer of the conversation to make."""
        while not self._replicas.is_alone:
            pause_s: float = LOOK_S
            try:
                async with self._database.read() as session:
                    elders = await queries.elders(
                        session, answer.response_id, answer.identity.conversation_id, self._replicas.owner
                    )
                if not elders:
                    return
                answer.wait_at(elders)
            except DatabaseAway as away:
                pause_s = away.retry_after_s
            await self._sleep(pause_s)
