"""The audit log: whoever lets somebody act on others writes it down here, in one line, in the unit of work of the act itself:

    audit.record(session, caller, "user.disable", user.id)

So what was done and that it was done are durable together, or neither. Nothing here changes or removes an entry, and no route
does. Details are facts about an act (a role, a name, a number) and never a text that somebody wrote in a conversation.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from app.accounts.identity import Identity
from app.audit import queries
from app.audit.models import ACTION_MAX_CHARS, TARGET_MAX_CHARS, AuditEntry
from app.audit.schemas import AuditBody, AuditCursor, AuditList
from app.clock import Now
from app.database import Database
from app.identifiers import new_id
from app.pagination import decode_cursor, encode_cursor
from app.text import require_storable

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COMMAND_LINE = "command line"
"""The actor's name where nobody is signed in: whoever can run commands on the server's machine."""

ACTION = re.compile(r"[a-z_]+\.[a-z_]+")

Detail = str | int | float | bool | list[str] | None


class AuditLog:
    """Owns the entries. Does not own what is worth one: the room in which the act happens does."""

    def __init__(self, database: Database, *, now: Now) -> None:
        self._database = database
        self._now = now

    def record(
        self,
        session: AsyncSession,
        actor: Identity | str | None,
        action: str,
        target_id: str | None = None,
        **details: Detail,
    ) -> None:
        """Add an entry to a unit of work; it is durable with it. `action` is NOUN.VERB; no actor is the command line, and a name
        is a part of the server that acts by itself."""
        if not ACTION.fullmatch(action) or len(action) > ACTION_MAX_CHARS:
            raise ValueError(f"expected an action like user.disable, got {action!r}")
        caller = actor if isinstance(actor, Identity) else None
        session.add(
            AuditEntry(
                id=new_id(),
                created_at=self._now(),
                actor_id=caller and caller.user_id,
                actor_name=caller.username if caller else str(actor or COMMAND_LINE),
                key_id=caller and caller.key_id,
                action=action,
                target_id=None if target_id is None else target_id[:TARGET_MAX_CHARS],
                details=details,
            )
        )

    async def page(
        self,
        *,
        limit: int,
        cursor: str | None,
        actor_id: str | None = None,
        action: str | None = None,
        target_id: str | None = None,
    ) -> AuditList:
        """A page of entries, the newest first."""
        before = None
        if cursor is not None:
            place = decode_cursor(cursor, AuditCursor)
            before = (EPOCH + timedelta(microseconds=place.created_us), require_storable(place.id, "cursor"))
        for name, text in (("actor_id", actor_id), ("action", action), ("target_id", target_id)):
            require_storable(text or "", name)
        async with self._database.read() as session:
            found = await queries.audit_page(
                session, limit=limit + 1, before=before, actor_id=actor_id, action=action, target_id=target_id
            )
        next_cursor = None
        if len(found) > limit:
            last = found[limit - 1]
            next_cursor = encode_cursor(AuditCursor((last.created_at - EPOCH) // timedelta(microseconds=1), last.id))
        return AuditList([AuditBody.of(entry) for entry in found[:limit]], next_cursor)
