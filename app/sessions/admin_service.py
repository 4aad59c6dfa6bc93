"""What administrators see of everybody's live sessions, and do to them. Called by routes; every act is in the audit log.

They see where a session is, how large it is and how old, and never a word of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta

from app.accounts.identity import Identity
from app.audit.service import AuditLog
from app.database import Database
from app.errors import Conflict, NotFound
from app.pagination import decode_cursor, encode_cursor
from app.sessions.admin_schemas import (
    LiveSessionBody,
    LiveSessionCursor,
    LiveSessionList,
    last_used_at,
    session_id,
)
from app.sessions.everywhere import Located, SessionsEverywhere
from app.sessions.service import engine_refusals
from engine.snapshot import SessionState, SessionStatus
from engine.types import NamespaceKind

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Usernames = Callable[[Collection[str]], Awaitable[Mapping[str, str]]]


class LiveSessionService:
    """Owns nothing: sessions are the engine's."""

    def __init__(
        self,
        everywhere: SessionsEverywhere,
        database: Database,
        audit: AuditLog,
        usernames: Usernames,
    ) -> None:
        self._everywhere = everywhere
        self._database = database
        self._audit = audit
        self._usernames = usernames

    async def page(
        self, *, limit: int, cursor: str | None, user_id: str | None, state: SessionState | None
    ) -> LiveSessionList:
        """A page of live sessions, the one used last first. Raises Unavailable while the engine is not ready."""
        with engine_refusals():
            located = await self._everywhere.listed(user_id)
        found = [
            (_place(one), one)
            for one in located
            if one.status.key.namespace.kind is NamespaceKind.USER and state in (None, one.status.state)
        ]
        found.sort(key=lambda pair: pair[0], reverse=True)
        total = len(found)
        if cursor is not None:
            before = decode_cursor(cursor, LiveSessionCursor)
            found = [pair for pair in found if pair[0] < (before.used_ds, before.id, before.server)]
        page = found[:limit]
        names = await self._usernames({one.status.key.namespace.name for _, one in page})
        return LiveSessionList(
            [LiveSessionBody.of(one, names.get(one.status.key.namespace.name)) for _, one in page],
            total,
            encode_cursor(LiveSessionCursor(*page[-1][0])) if len(found) > limit else None,
        )

    async def evict(self, caller: Identity, wanted_id: str) -> None:
        """Move a session to the next tier now. Raises NotFound, or Conflict while a turn of it is answered."""
        one = (await self._find(wanted_id))[0]
        status = one.status
        if status.state is SessionState.ACTIVE:
            raise Conflict("a turn of this session is being answered, so it stays where it is", code="session_active")
        await self._record(caller, "session.evict", status)
        with engine_refusals():
            is_moved = await self._everywhere.evict(one)
        if not is_moved:
            raise Conflict("the session has moved, begun a turn or gone meanwhile", code="session_changed")

    async def kick(self, caller: Identity, wanted_id: str) -> None:
        """End a session: who watches it is disconnected, its answer cancelled, its KV dropped in every tier. The conversation
        stays. Raises NotFound."""
        status = (await self._find(wanted_id))[0].status
        await self._record(caller, "session.kick", status)
        with engine_refusals():
            await self._everywhere.drop(status.key, kick=True)

    async def _find(self, wanted_id: str) -> list[Located]:
        """Where it is: on one server, or on those that a conversation has gone through, the one used last first."""
        with engine_refusals():
            located = await self._everywhere.listed()
        found = [
            one
            for one in located
            if one.status.key.namespace.kind is NamespaceKind.USER and session_id(one.status.key) == wanted_id
        ]
        if not found:
            raise NotFound("there is no such session")
        return sorted(found, key=_place, reverse=True)

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


def _place(one: Located) -> tuple[int, str, str]:
    used_at = last_used_at(one.status, one.taken_at)
    return (used_at - EPOCH) // timedelta(milliseconds=100), session_id(one.status.key), one.server
