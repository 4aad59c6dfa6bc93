"""What administrators see of everybody's live sessions, and do to them. Called by routes; every act is in the audit log.

They see where a session is, how large it is and how old, and never a word of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta

from app.accounts.identity import Identity
from app.audit.service import AuditLog
from app.clock import Now
from app.database import Database
from app.engine_view import EngineView
from app.errors import Conflict, NotFound
from app.identifiers import ConversationId
from app.pagination import decode_cursor, encode_cursor
from app.sessions.admin_schemas import (
    LiveSessionBody,
    LiveSessionCursor,
    LiveSessionList,
    last_used_at,
    session_id,
)
from app.sessions.service import engine_refusals
from engine.client import EngineClient
from engine.snapshot import SessionState, SessionStatus
from engine.types import NamespaceKind

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Usernames = Callable[[Collection[str]], Awaitable[Mapping[str, str]]]
Kick = Callable[[ConversationId], None]
"""Close what watches a conversation, and stop its answers. On the loop; it must not block and must not raise."""


class LiveSessionService:
    """Owns nothing: sessions are the engine's."""

    def __init__(
        self,
        engine: EngineClient,
        view: EngineView,
        database: Database,
        audit: AuditLog,
        usernames: Usernames,
        kick: Kick,
        *,
        now: Now,
    ) -> None:
        self._engine = engine
        self._view = view
        self._database = database
        self._audit = audit
        self._usernames = usernames
        self._kick = kick
        self._now = now

    async def page(
        self, *, limit: int, cursor: str | None, user_id: str | None, state: SessionState | None
    ) -> LiveSessionList:
        """A page of live sessions, the one used last first. Raises Unavailable while the engine is not ready."""
        with engine_refusals():
            snapshot = await self._view.snapshot()
        taken_at = self._view.taken_at(self._now())
        found = [
            (_place(status, taken_at), status)
            for status in snapshot.sessions
            if status.key.namespace.kind is NamespaceKind.USER
            and user_id in (None, status.key.namespace.name)
            and state in (None, status.state)
        ]
        found.sort(key=lambda pair: pair[0], reverse=True)
        total = len(found)
        if cursor is not None:
            before = decode_cursor(cursor, LiveSessionCursor)
            found = [pair for pair in found if pair[0] < (before.used_ds, before.id)]
        page = found[:limit]
        names = await self._usernames({status.key.namespace.name for _, status in page})
        return LiveSessionList(
            [LiveSessionBody.of(status, names.get(status.key.namespace.name), taken_at) for _, status in page],
            total,
            encode_cursor(LiveSessionCursor(*page[-1][0])) if len(found) > limit else None,
        )

    async def evict(self, caller: Identity, wanted_id: str) -> None:
        """Move a session to the next tier now. Raises NotFound, or Conflict while a turn of it is answered."""
        status = await self._find(wanted_id)
        if status.state is SessionState.ACTIVE:
            raise Conflict("a turn of this session is being answered, so it stays where it is", code="session_active")
        await self._record(caller, "session.evict", status)
        try:
            with engine_refusals():
                is_moved = await self._engine.evict_session(status.key)
        finally:
            self._view.forget()
        if not is_moved:
            raise Conflict("the session has moved, begun a turn or gone meanwhile", code="session_changed")

    async def kick(self, caller: Identity, wanted_id: str) -> None:
        """End a session: who watches it is disconnected, its answer cancelled, its KV dropped in every tier. The conversation
        stays. Raises NotFound."""
        status = await self._find(wanted_id)
        await self._record(caller, "session.kick", status)
        if not status.key.namespace.part:
            self._kick(ConversationId(status.key.name))
        try:
            with engine_refusals():
                await self._engine.drop_session(status.key)
        finally:
            self._view.forget()

    async def _find(self, wanted_id: str) -> SessionStatus:
        with engine_refusals():
            snapshot = await self._view.snapshot()
        for status in snapshot.sessions:
            if status.key.namespace.kind is NamespaceKind.USER and session_id(status.key) == wanted_id:
                return status
        raise NotFound("there is no such session")

    async def _record(self, caller: Identity, action: str, status: SessionStatus) -> None:
        """Before the act: one that cannot be written down is not done."""
        async with self._database.write() as session:
            self._audit.record(
                session,
                caller,
                action,
                status.key.namespace.name,
                session_id=session_id(status.key),
                name=status.key.name,
                state=status.state.value,
                tokens=status.tokens,
            )


def _place(status: SessionStatus, taken_at: datetime) -> tuple[int, str]:
    used_at = last_used_at(status, taken_at)
    return (used_at - EPOCH) // timedelta(milliseconds=100), session_id(status.key)
