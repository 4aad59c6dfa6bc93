"""Takes back what `export` has written, as a conversation of its own.

Called by its route. The body goes to a file first, because nobody else could write while a slow client sends; then messages are
stored a few hundred at a time, in units of work of their own. Until the last one the conversation is temporary: nobody sees it,
and one whose import was cut off is removed like any other temporary one.
"""

from __future__ import annotations

import asyncio
import hmac
import mmap
import secrets
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, timedelta
from itertools import islice
from pathlib import Path
from typing import IO

import msgspec
from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.clock import Now
from app.conversations import tree
from app.conversations.external_ids import free_until_written, require_free
from app.conversations.import_file import (
    ImportedConversation,
    ImportedFeedback,
    ImportedMessage,
    ImportFile,
    ImportFormat,
)
from app.conversations.models import Conversation, Message, MessageStatus, TitleSource
from app.conversations.schemas import ConversationBody
from app.conversations.search_index import index_texts, index_title
from app.conversations.tags import write_tags
from app.database import Database, chunks
from app.errors import InvalidInput, PayloadTooLarge
from app.feedback.models import Feedback
from app.idempotency import Fingerprint, Idempotency, IdempotentRequest
from app.identifiers import UserId, new_id
from app.personas.lookup import current_version_id
from app.service.states import ConversationState
from app.service.transcript import take_over_changes
from app.webhooks.event_types import EventType
from app.webhooks.outbox import record_event

AT_ONCE = 200
"""Messages in one unit of work: it takes some ten milliseconds, and others write in between."""

UNFINISHED_LIFETIME = timedelta(hours=1)
"""No import takes as long; what is left of one that was cut off goes after it."""

IMPORTS_AT_ONCE = 2
"""More wait: each may take as much of the disk as one file may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """What came: the body in pieces, and the key under which it is done once."""

    user_id: UserId
    kind: ImportFormat
    body: AsyncIterator[bytes]
    path: str
    idempotency_key: str | None


class Importing:
    """Owns the files while they are read. `folder` is where they lie meanwhile, without a name."""

    def __init__(
        self,
        database: Database,
        idempotency: Idempotency,
        folder: Path,
        *,
        max_bytes: int,
        max_messages: int,
        temporary_lifetime: timedelta,
        now: Now,
    ) -> None:
        self._database = database
        self._idempotency = idempotency
        self._folder = folder
        self._max_bytes = max_bytes
        self._max_messages = max_messages
        self._temporary_lifetime = temporary_lifetime
        self._now = now
        self._slots = asyncio.Semaphore(IMPORTS_AT_ONCE)

    async def run(self, request: ImportRequest) -> tuple[ConversationBody, bool]:
        """The new conversation, and whether it had been made before under the same key.

        Raises PayloadTooLarge, InvalidInput for what is not an export, and Conflict for an external_id that is taken.
        """
        async with self._slots, self._received(request) as (file, mark):
            idempotent = None
            if request.idempotency_key is not None:
                idempotent = IdempotentRequest(request.user_id, request.idempotency_key, str(mark))
            whole_head = await asyncio.to_thread(file.head)
            head = whole_head.conversation
            conversation_id = await self._begin(request.user_id, head)
            try:
                await self._add_messages(request.user_id, conversation_id, head.persona, file, ids := _Ids())
                async with self._database.write() as session:
                    await take_over_changes(session, conversation_id, whole_head.state_changes)
                return await self._finish(request.user_id, conversation_id, head, ids, idempotent)
            except Exception:
                await self._discard(conversation_id)
                raise

    @asynccontextmanager
    async def _received(self, request: ImportRequest) -> AsyncIterator[tuple[ImportFile, Fingerprint]]:
        """The whole body as a file."""
        mark = Fingerprint("POST", request.path)
        await asyncio.to_thread(self._folder.mkdir, parents=True, exist_ok=True)
        with await asyncio.to_thread(_nameless_file, self._folder) as spool:
            size = 0
            async for piece in request.body:
                size += len(piece)
                if size > self._max_bytes:
                    raise PayloadTooLarge(
                        f"the file has more than {self._max_bytes} bytes", members={"limit_bytes": self._max_bytes}
                    )
                mark.add(piece)
                await asyncio.to_thread(spool.write, piece)
            if size == 0:
                raise InvalidInput("expected a file, got an empty body", code="import_invalid")
            await asyncio.to_thread(spool.flush)
            yield ImportFile(mmap.mmap(spool.fileno(), 0, access=mmap.ACCESS_READ), request.kind), mark

    async def _begin(self, user_id: UserId, head: ImportedConversation) -> str:
        """A conversation that nobody sees yet."""
        async with self._database.write() as session:
            await require_free(session, user_id, head.external_id)
            version_id = None if head.persona is None else await current_version_id(session, head.persona)
            now = self._now()
            title = " ".join(head.title.split())
            conversation = Conversation(
                id=new_id(),
                user_id=user_id,
                title=title,
                title_source=TitleSource.PERSON if title else TitleSource.MESSAGE,
                state=ConversationState.BOT,
                archived=head.archived,
                tags=list(dict.fromkeys(head.tags)),
                extra=head.metadata,
                external_id=None,
                persona=head.persona,
                persona_version_id=version_id,
                leaf_id=None,
                last_ordinal=0,
                version=1,
                created_at=head.created_at,
                updated_at=now,
                expires_at=now + UNFINISHED_LIFETIME,
            )
            session.add(conversation)
            await session.flush()
            await write_tags(session, conversation)
            await index_title(session, conversation)
        return conversation.id

    async def _add_messages(
        self, user_id: UserId, conversation_id: str, persona: str | None, file: ImportFile, ids: _Ids
    ) -> None:
        messages = file.messages()
        count = 0
        while batch := await asyncio.to_thread(_next, messages):
            if count + len(batch) > self._max_messages:
                raise PayloadTooLarge(
                    f"the file has more than {self._max_messages} messages",
                    code="too_many_messages",
                    members={"limit_messages": self._max_messages},
                )
            async with self._database.write() as session:
                conversation = await tree.owned_conversation(session, user_id, conversation_id, for_update=True)
                await _require_tree(session, conversation_id, batch, ids, first=count + 1)
                rows = [_row(message, conversation_id, ids, count + place) for place, message in enumerate(batch, 1)]
                await session.execute(insert(Message), rows)
                ratings = [
                    _feedback_row(message.feedback, message, user_id, conversation_id, persona, ids)
                    for message in batch
                    if message.feedback is not None
                ]
                if ratings:
                    await session.execute(insert(Feedback), ratings)
                await index_texts(
                    session, user_id, conversation_id, [(ids.new(message.id), message.content) for message in batch]
                )
                count += len(batch)
                conversation.last_ordinal, conversation.leaf_id = count, ids.new(batch[-1].id)

    async def _finish(
        self,
        user_id: UserId,
        conversation_id: str,
        head: ImportedConversation,
        ids: _Ids,
        idempotent: IdempotentRequest | None,
    ) -> tuple[ConversationBody, bool]:
        """Now it is one of theirs."""
        async with self._database.write() as session:
            if (kept := await self._idempotency.claim(session, idempotent)) is not None:
                await session.execute(delete(Conversation).where(Conversation.id == conversation_id))
                return msgspec.json.decode(kept.body, type=ConversationBody), True
            conversation = await tree.owned_conversation(session, user_id, conversation_id, for_update=True)
            await require_free(session, user_id, head.external_id)
            if head.leaf_id is not None:
                conversation.leaf_id = await _leaf(session, conversation_id, ids.new(head.leaf_id))
            conversation.external_id = head.external_id
            conversation.expires_at = self._now() + self._temporary_lifetime if head.temporary else None
            with free_until_written():
                await session.flush()
            await record_event(session, EventType.CONVERSATION_CREATED, conversation, {}, now=self._now())
            body = ConversationBody.of(conversation)
            await self._idempotency.keep(session, idempotent, 201, msgspec.json.encode(body), conversation_id)
        return body, False

    async def _discard(self, conversation_id: str) -> None:
        async with self._database.write() as session:
            await session.execute(delete(Conversation).where(Conversation.id == conversation_id))


class _Ids:
    """The new ids: each follows from the one in the file and a secret of this import, so nothing has to be remembered."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def new(self, old: str) -> str:
        return str(uuid.UUID(bytes=hmac.digest(self._key, old.encode(), "sha256")[:16], version=4))


async def _require_tree(
    session: AsyncSession, conversation_id: str, batch: Sequence[ImportedMessage], ids: _Ids, *, first: int
) -> None:
    """Raises InvalidInput for an id that came before, or a parent that did not."""
    wanted = {ids.new(old) for message in batch for old in (message.id, message.parent_id) if old is not None}
    known: set[str] = set()
    for chunk in chunks(wanted):
        statement = select(Message.id).where(Message.conversation_id == conversation_id, Message.id.in_(chunk))
        known.update(await session.scalars(statement))
    for number, message in enumerate(batch, first):
        if (new := ids.new(message.id)) in known:
            raise _invalid(f"message {number} has the id of an earlier one", number)
        if message.parent_id is not None and ids.new(message.parent_id) not in known:
            raise _invalid(f"message {number} follows one that does not come before it", number)
        known.add(new)


async def _leaf(session: AsyncSession, conversation_id: str, leaf_id: str) -> str:
    statement = select(Message.id).where(Message.conversation_id == conversation_id, Message.id == leaf_id)
    if (found := await session.scalar(statement)) is None:
        raise InvalidInput("the file's leaf_id is none of its messages", code="import_invalid")
    return found


def _row(message: ImportedMessage, conversation_id: str, ids: _Ids, ordinal: int) -> dict[str, object]:
    # An answer that was being made when it was exported is not made any more.
    status = message.status if message.status.is_final else MessageStatus.INTERRUPTED
    return {
        "id": ids.new(message.id),
        "conversation_id": conversation_id,
        "parent_id": None if message.parent_id is None else ids.new(message.parent_id),
        "ordinal": ordinal,
        "role": message.role,
        "content": message.content,
        "status": status,
        "client_message_id": None,
        "response_id": None,
        "last_seq": 0,
        "token_ids": None,
        "author_id": None,
        "author_name": message.author and message.author.name,
        "usage": None if message.usage is None else msgspec.to_builtins(message.usage),
        "created_at": message.created_at,
    }


def _feedback_row(
    feedback: ImportedFeedback,
    message: ImportedMessage,
    user_id: str,
    conversation_id: str,
    persona: str | None,
    ids: _Ids,
) -> dict[str, object]:
    return {
        "message_id": ids.new(message.id),
        "user_id": user_id,
        "conversation_id": conversation_id,
        "scale": feedback.scale,
        "rating": feedback.rating,
        "comment": feedback.comment,
        "persona": persona,
        "day": message.created_at.astimezone(UTC).date(),
        "created_at": message.created_at,
        "updated_at": message.created_at,
    }


def _next(messages: Iterator[ImportedMessage]) -> list[ImportedMessage]:
    return list(islice(messages, AT_ONCE))


def _nameless_file(folder: Path) -> IO[bytes]:
    return tempfile.TemporaryFile(dir=folder)


def _invalid(detail: str, number: int) -> InvalidInput:
    return InvalidInput(detail, code="import_invalid", members={"message_number": number})
