"""How an answer ends that a dead server left unfinished: as `interrupted`, with everything anybody had seen of it.

Called at the start for what a former life of this server left (`recovery`), and while it runs for what others leave (`reaper`).
The row is taken over in the unit of work that writes its end. So of several who find it exactly one ends it, and of one who dies
before that nothing remains: the row still names the journal and the shared log that have its frames.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from app.clock import Now
from app.conversations.models import MessageStatus
from app.database import Database
from app.realtime.event_log import EventLog, rebuilt_log
from app.realtime.protocol import ServerFrame
from app.replicas.shared_logs import SharedLogs
from app.responses import queries
from app.responses.answer import DELTA, AnswerIdentity
from app.responses.models import Response
from app.responses.outcome import stopped
from app.responses.queries import Ending, Stored
from app.responses.storage import AnswerStorage
from engine.types import Usage

_decoder = msgspec.json.Decoder(ServerFrame)


class Interruption:
    """Owns nothing; `owner` is who ends them."""

    def __init__(self, database: Database, storage: AnswerStorage, logs: SharedLogs, *, owner: str, now: Now) -> None:
        self._database = database
        self._storage = storage
        self._logs = logs
        self._owner = owner
        self._now = now

    async def interrupt(self, response: Response, frames: Sequence[bytes]) -> bool:
        """End it with these frames of its log. False when somebody else has done it, or it is gone."""
        log = rebuilt_log(response.conversation_id, response.id, frames)
        if log.last_seq == 0:
            log.show([log.stage(*_identity(response).created_frame)])
        await self._add_stored_text(response, log)
        outcome = stopped(MessageStatus.INTERRUPTED, _shown_usage(log))
        async with self._database.read() as session:
            spender = await queries.spender_of(session, response)
        terminal = log.stage(outcome.frame_type, outcome.frame_data(response.message_id))
        stored = await self._storage.end(
            Ending(
                response_id=response.id,
                owner=self._owner,
                previous_owner=response.owner,
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
                spender=spender,
                model=None,
            )
        )
        if stored is not Stored.HERE:
            return False
        await self._logs.complete(response.id, [*log.frames_after(0, log.last_seq), terminal.encoded])
        return True

    async def _add_stored_text(self, response: Response, log: EventLog) -> None:
        """The frames may say less than SQL, after a power cut or a Redis that was away: the rest becomes one frame."""
        async with self._database.read() as session:
            text, _ = await queries.message_text(session, response.message_id)
        known = log.snapshot().text
        if len(text) > len(known) and text.startswith(known):
            log.show([log.stage(DELTA, {"text": text[len(known) :]})])


def _shown_usage(log: EventLog) -> Usage:
    """What its frames say it has cost, which is the least: each piece of text was at least one token."""
    frames = [_decoder.decode(frame) for frame in log.frames_after(0, log.last_seq)]
    progress = [frame.data for frame in frames if frame.type == "response.in_progress"]
    pieces = sum(frame.type == DELTA for frame in frames)
    if not progress:
        return Usage(output_tokens=pieces)
    return Usage(int(progress[-1]["done"]), int(progress[-1]["cached_tokens"]), pieces)


def _identity(response: Response) -> AnswerIdentity:
    return AnswerIdentity(
        response_id=response.id,
        message_id=response.message_id,
        conversation_id=response.conversation_id,
        parent_id=response.parent_id,
        params=response.params,
        created_at=response.created_at,
    )
