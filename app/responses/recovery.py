"""After a crash: answers that a former life of this server left unfinished become `interrupted`.

Runs once at start, before requests are served. What a process had shown is in its journal; a journal that is locked belongs to
a process that lives, and its answers are left alone. Those of other servers are the reaper's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import structlog

from app.database import Database
from app.realtime.journal_recovery import abandoned_journal, journal_folders
from app.replicas.opening import Replicas
from app.replicas.shared_logs import SharedLogsAway
from app.responses import queries
from app.responses.interruption import Interruption
from app.responses.models import Response

logger = structlog.stdlib.get_logger(__name__)


class Recovery:
    """Reads journals, ends answers. Raises whatever keeps the database from answering: then the server must not start."""

    def __init__(self, database: Database, interruption: Interruption, journals: Path, replicas: Replicas) -> None:
        self._database = database
        self._interruption = interruption
        self._journals = journals
        self._replicas = replicas

    async def run(self) -> int:
        """Finish what dead processes left; how many answers that were."""
        interrupted = 0
        alive = {self._replicas.owner}
        for folder in await asyncio.to_thread(journal_folders, self._journals):
            with abandoned_journal(folder) as journal:
                if journal is None:
                    alive.add(folder.name)
                    continue
                frames = await asyncio.to_thread(journal.frames)
                for response in await self._unfinished(folder.name):
                    interrupted += await self._interrupt(response, frames.get(response.id, []))
                await asyncio.to_thread(journal.remove)
        for response in await self._unfinished(None) if self._replicas.is_alone else []:
            if response.owner not in alive:
                # Its journal is gone: what SQL has is all there is.
                interrupted += await self._interrupt(response, [])
        if interrupted:
            logger.warning("answers_interrupted", answers=interrupted)
        return interrupted

    async def _unfinished(self, owner: str | None) -> Sequence[Response]:
        async with self._database.read() as session:
            return await queries.unfinished(session, owner=owner)

    async def _interrupt(self, response: Response, journaled: list[bytes]) -> bool:
        """A journal has every frame that was shared, unless a power cut has taken its end."""
        try:
            shared = await self._replicas.logs.read(response.id)
        except SharedLogsAway:
            shared = []
        return await self._interruption.interrupt(response, max(journaled, shared, key=len))
