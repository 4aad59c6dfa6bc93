"""What agents read: who waits, and what was said there. Called by routes.

An agent sees what waits for a person, what a person answers, and what was handed to them before; to anything else the answer is
that there is no such conversation. Before anything that was said is read, that it is read is in the audit log.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from app.accounts.identity import Identity
from app.audit.service import AuditLog
from app.clock import Now
from app.conversations.export import ConversationExport
from app.conversations.schemas import ExportFormat, MessageList
from app.conversations.service import ConversationService
from app.database import Database
from app.identifiers import UserId
from app.pagination import decode_cursor, encode_cursor
from app.service import queries
from app.service.schemas import InboxCounters, InboxCursor, InboxItem, InboxList, InboxState
from app.service.states import ConversationState
from app.text import require_storable

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Inbox:
    """Owns the rule of what agents may read. Does not own conversations."""

    def __init__(self, database: Database, conversations: ConversationService, audit: AuditLog, *, now: Now) -> None:
        self._database = database
        self._conversations = conversations
        self._audit = audit
        self._now = now

    async def page(
        self, caller: Identity, state: InboxState, *, only_mine: bool, limit: int, cursor: str | None
    ) -> InboxList:
        """A page of those in a state, whoever has been in it for longest first."""
        behind = None
        if cursor is not None:
            place = decode_cursor(cursor, InboxCursor)
            behind = (EPOCH + place.since_us * MICROSECOND, require_storable(place.id, "cursor"))
        async with self._database.read() as session:
            rows = await queries.inbox_page(
                session,
                state=ConversationState(state),
                agent_id=caller.user_id if only_mine else None,
                limit=limit + 1,
                behind=behind,
            )
            changes = await queries.last_changes(session, [row.conversation.id for row in rows[:limit]])
        next_cursor = None
        if len(rows) > limit:
            last = rows[limit - 1].conversation
            since = last.state_since or EPOCH
            next_cursor = encode_cursor(InboxCursor((since - EPOCH) // MICROSECOND, last.id))
        return InboxList([InboxItem.of(row, changes.get(row.conversation.id)) for row in rows[:limit]], next_cursor)

    async def counters(self, caller: Identity) -> InboxCounters:
        """How many wait, and for how long the first of them does."""
        async with self._database.read() as session:
            found = await queries.waiting(session, caller.user_id)
        waits = timedelta() if found.oldest is None else self._now() - found.oldest
        return InboxCounters(found.queued, max(0.0, waits.total_seconds()), found.human, found.mine)

    async def answered_by_people(self, conversation_ids: Collection[str]) -> set[str]:
        """Those of these conversations that a person answers. For the server itself."""
        async with self._database.read() as session:
            return await queries.answered_by_people(session, conversation_ids)

    async def get(self, caller: Identity, conversation_id: str) -> InboxItem:
        """One conversation, without what was said. Raises NotFound."""
        async with self._database.read() as session:
            row = await queries.seen_conversation(session, caller.user_id, conversation_id)
            changes = await queries.last_changes(session, [conversation_id])
        return InboxItem.of(row, changes.get(conversation_id))

    async def messages(
        self, caller: Identity, conversation_id: str, *, leaf_id: str | None, limit: int, cursor: str | None
    ) -> MessageList:
        """A page of a path to a leaf, the newest message first. Raises NotFound."""
        owner = await self._opened(caller, "conversation.read", conversation_id)
        return await self._conversations.messages(owner, conversation_id, leaf_id=leaf_id, limit=limit, cursor=cursor)

    async def export(self, caller: Identity, conversation_id: str, export_format: ExportFormat) -> ConversationExport:
        """The transcript. Raises NotFound."""
        owner = await self._opened(caller, "conversation.export", conversation_id)
        return await self._conversations.export(owner, conversation_id, export_format)

    async def _opened(self, caller: Identity, action: str, conversation_id: str) -> UserId:
        async with self._database.write() as session:
            row = await queries.seen_conversation(session, caller.user_id, conversation_id)
            self._audit.record(session, caller, action, conversation_id, user_id=row.conversation.user_id)
        return UserId(row.conversation.user_id)
