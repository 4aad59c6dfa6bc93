"""For how long conversations are kept: the server's setting, and per person what an administrator has decided instead.

Called by routes. `retention` is what goes by it.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.accounts.identity import Identity
from app.accounts.service import AccountService
from app.audit.service import AuditLog
from app.conversations.models import RetentionPolicy
from app.database import Database, insert_if_absent
from app.errors import NotFound
from app.identifiers import is_id

DAYS_MAX = 36500

Days = Annotated[int, Meta(ge=0, le=DAYS_MAX, description="Days after its last change; 0 keeps for ever")]


class RetentionBody(msgspec.Struct, frozen=True):
    """`days` after its last change a conversation is removed; 0: never. `source` says who has decided that."""

    days: int
    source: Literal["server", "user"]


class RetentionChange(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Null goes back to the server's setting."""

    days: Days | None


class RetentionPolicies:
    """Owns the policies. Does not own who may change them."""

    def __init__(self, database: Database, accounts: AccountService, audit: AuditLog, *, days: int) -> None:
        self._database = database
        self._accounts = accounts
        self._audit = audit
        self._days = days

    async def of(self, user_id: str) -> RetentionBody:
        """How long this person's conversations are kept. Raises NotFound."""
        await self._require_person(user_id)
        async with self._database.read() as session:
            return await self._read(session, user_id)

    async def change(self, actor: Identity, user_id: str, change: RetentionChange) -> RetentionBody:
        """Decide it for this person. Raises NotFound."""
        await self._require_person(user_id)
        async with self._database.write() as session:
            await session.execute(delete(RetentionPolicy).where(RetentionPolicy.user_id == user_id))
            if change.days is not None:
                await insert_if_absent(session, RetentionPolicy, {"user_id": user_id, "days": change.days})
            self._audit.record(session, actor, "retention.change", user_id, days=change.days)
            return await self._read(session, user_id)

    async def _require_person(self, user_id: str) -> None:
        if not is_id(user_id) or user_id not in await self._accounts.existing([user_id]):
            raise NotFound("there is no such user")

    async def _read(self, session: AsyncSession, user_id: str) -> RetentionBody:
        statement = select(RetentionPolicy.days).where(RetentionPolicy.user_id == user_id)
        if (days := await session.scalar(statement)) is not None:
            return RetentionBody(days, "user")
        return RetentionBody(self._days, "server")
