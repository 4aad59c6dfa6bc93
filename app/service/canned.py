"""Texts that agents answer with again and again: agents and administrators read and write them. Called by routes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import UNSET

from app.accounts.identity import Identity
from app.audit.service import AuditLog
from app.clock import Now
from app.database import Database
from app.idempotency import Idempotency, IdempotentRequest
from app.identifiers import new_id
from app.pagination import decode_cursor, encode_cursor
from app.service import queries
from app.service.models import CannedAnswer
from app.service.schemas import CannedBody, CannedCreate, CannedCursor, CannedList, CannedPatch
from app.text import require_storable

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class CannedAnswers:
    """Owns the texts."""

    def __init__(self, database: Database, idempotency: Idempotency, audit: AuditLog, *, now: Now) -> None:
        self._database = database
        self._idempotency = idempotency
        self._audit = audit
        self._now = now

    async def page(self, *, limit: int, cursor: str | None) -> CannedList:
        """A page of all of them, the newest first."""
        before = None
        if cursor is not None:
            place = decode_cursor(cursor, CannedCursor)
            before = (EPOCH + place.created_us * MICROSECOND, require_storable(place.id, "cursor"))
        async with self._database.read() as session:
            found = await queries.canned_page(session, limit=limit + 1, before=before)
        next_cursor = None
        if len(found) > limit:
            last = found[limit - 1]
            next_cursor = encode_cursor(CannedCursor((last.created_at - EPOCH) // MICROSECOND, last.id))
        return CannedList([CannedBody.of(canned) for canned in found[:limit]], next_cursor)

    async def create(
        self, caller: Identity, wanted: CannedCreate, request: IdempotentRequest | None
    ) -> tuple[CannedBody, bool]:
        """A new one, and whether it had been made before under the same key."""
        async with self._database.write() as session:
            if (kept := await self._idempotency.claim(session, request)) is not None:
                return msgspec.json.decode(kept.body, type=CannedBody), True
            now = self._now()
            canned = CannedAnswer(
                id=new_id(), title=wanted.title, content=wanted.content, created_at=now, updated_at=now
            )
            session.add(canned)
            body = CannedBody.of(canned)
            self._audit.record(session, caller, "canned_answer.create", canned.id)
            await self._idempotency.keep(session, request, 201, msgspec.json.encode(body))
        return body, False

    async def update(self, caller: Identity, canned_id: str, patch: CannedPatch) -> CannedBody:
        """Change it. Raises NotFound."""
        async with self._database.write() as session:
            canned = await queries.find_canned(session, canned_id, for_update=True)
            if patch.title is not UNSET:
                canned.title = patch.title
            if patch.content is not UNSET:
                canned.content = patch.content
            canned.updated_at = self._now()
            self._audit.record(session, caller, "canned_answer.update", canned.id)
            return CannedBody.of(canned)

    async def delete(self, caller: Identity, canned_id: str) -> None:
        """Remove it. Raises NotFound."""
        async with self._database.write() as session:
            canned = await queries.find_canned(session, canned_id, for_update=True)
            await session.delete(canned)
            self._audit.record(session, caller, "canned_answer.delete", canned_id)
