"""After a crash: answers that a dead process left unfinished become `interrupted`, with everything anybody had seen of them.

Runs once at start, before requests are served. What a process had shown is in its journal; a journal that is locked belongs to
a process that lives, and its answers are left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import structlog

from app.clock import Now
from app.conversations.models import MessageStatus
from app.database import Database
from app.realtime.event_log import EventLog, rebuilt_log
from app.realtime.journal_recovery import abandoned_journal, journal_folders
from app.responses import queries
from app.responses.answer import DELTA, AnswerIdentity
from app.responses.models import Response
from app.responses.outcome import stopped
from app.responses.queries import Ending
from app.responses.storage import AnswerStorage

logger = structlog.stdlib.get_logger(__name__)


class Recovery:
    """Reads journals, writes ends. Raises whatever keeps the database from answering: then the server must not start."""

    def __init__(self, database: Database, storage: AnswerStorage, journals: Path, *, owner: str, now: Now) -> None:
        self._database = database
        self._storage = storage
        self._journals = journals
        self._owner = owner
        self._now = now

    async def run(self) -> int:
        """Finish what dead processes left; how many answers that were."""
        interrupted = 0
        alive = {self._owner}
        for folder in await asyncio.to_thread(journal_folders, self._journals):
            with abandoned_journal(folder) as journal:
                if journal is None:
                    alive.add(folder.name)
                    continue
                frames = await asyncio.to_thread(journal.frames)
                for response in await self._unfinished(folder.name):
                    await self._interrupt(response, frames.get(response.id, []))
                    interrupted += 1
                await asyncio.to_thread(journal.remove)
        for response in await self._unfinished(None):
            if response.owner not in alive:
                # Its journal is gone: what SQL has is all there is.
                await self._interrupt(response, [])
                interrupted += 1
        if interrupted:
            logger.warning("answers_interrupted", answers=interrupted)
        return interrupted

    async def _unfinished(self, owner: str | None) -> Sequence[Response]:
        async with self._database.read() as session:
            return await queries.unfinished(session, owner=owner)

    async def _interrupt(self, response: Response, frames: Sequence[bytes]) -> None:
        log = rebuilt_log(response.conversation_id, response.id, frames)
        if log.last_seq == 0:
            log.show([log.stage(*_identity(response).created_frame)])
        await self._add_stored_text(response, log)
        outcome = stopped(MessageStatus.INTERRUPTED)
        terminal = log.stage(outcome.frame_type, outcome.frame_data(response.message_id))
        await self._storage.end(
            Ending(
                response_id=response.id,
                message_id=response.message_id,
                conversation_id=response.conversation_id,
                status=outcome.status,
                finish_reason=outcome.finish_reason,
                text=log.snapshot().text,
                token_ids=None,
                usage=outcome.usage_body,
                error=None,
                last_seq=terminal.seq,
                log=log.stored(terminal),
                started_at=response.started_at,
                ended_at=self._now(),
            )
        )

    async def _add_stored_text(self, response: Response, log: EventLog) -> None:
        """After a power cut the journal may have less than SQL: the rest of the text becomes one frame."""
        async with self._database.read() as session:
            text, _ = await queries.message_text(session, response.message_id)
        known = log.snapshot().text
        if len(text) > len(known) and text.startswith(known):
            log.show([log.stage(DELTA, {"text": text[len(known) :]})])


def _identity(response: Response) -> AnswerIdentity:
    return AnswerIdentity(
        response_id=response.id,
        message_id=response.message_id,
        conversation_id=response.conversation_id,
        parent_id=response.parent_id,
        params=response.params,
        created_at=response.created_at,
    )
