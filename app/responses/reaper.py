"""Ends the answers of servers that have died, so that nobody waits for them: found in SQL, judged by leases.

One task per server that has others beside it. An owner is dead when its lease is missing for PATIENCE_S on end, asked again and
again of a Redis that answers: one that was restarted has forgotten all leases, and everybody alive takes theirs again sooner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from app.clock import Monotonic
from app.database import Database, DatabaseAway
from app.replicas.opening import Replicas
from app.replicas.shared_logs import SharedLogsAway
from app.responses import queries
from app.responses.interruption import Interruption

logger = structlog.stdlib.get_logger(__name__)

LOOK_S = 1.0
PATIENCE_S = 5.0
"""With LEASE_S and LOOK_S: an answer is ended at most 12 seconds after its server has died."""


class Reaper:
    """Owns since when each owner has been missed."""

    def __init__(
        self,
        database: Database,
        replicas: Replicas,
        interruption: Interruption,
        *,
        monotonic: Monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._database = database
        self._replicas = replicas
        self._interruption = interruption
        self._monotonic = monotonic
        self._sleep = sleep
        self._missed_since_s: dict[str, float] = {}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._sleep(LOOK_S)
            try:
                await self.look()
            except (DatabaseAway, SharedLogsAway) as away:
                # Whoever has died stays dead until both can be asked.
                logger.info("reaper_waits", error=str(away))
            except Exception:
                logger.exception("reaper_failed")

    async def look(self) -> int:
        """End the answers of who has been missed for long enough; how many that were."""
        async with self._database.read() as session:
            owners = await queries.owners_of_unfinished(session) - {self._replicas.owner}
        alive = await self._replicas.leases.alive(owners)
        if alive is None:
            self._missed_since_s.clear()
            return 0
        now = self._monotonic()
        self._missed_since_s = {owner: self._missed_since_s.get(owner, now) for owner in owners - alive}
        interrupted = 0
        for owner, since_s in self._missed_since_s.items():
            if now - since_s >= PATIENCE_S:
                interrupted += await self._bury(owner)
        return interrupted

    async def _bury(self, owner: str) -> int:
        async with self._database.read() as session:
            left = await queries.unfinished(session, owner=owner)
        interrupted = 0
        for response in left:
            frames = await self._replicas.logs.read(response.id)
            interrupted += await self._interruption.interrupt(response, frames)
        logger.warning("answers_interrupted", answers=interrupted, owner=owner)
        return interrupted
