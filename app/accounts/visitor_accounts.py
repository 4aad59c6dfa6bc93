"""Accounts of a widget's visitors: made without a name or a password, entered only by the token that `app.widgets` hands out.

Called by `app.widgets`, inside its units of work. Who a visitor is to whom is known there; here it is an account like others, so
everything that belongs to people (conversations, a namespace, quotas) belongs to visitors in the same way.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from app.accounts import queries
from app.accounts.credentials import add_credential
from app.accounts.models import CredentialKind, User, UserRole
from app.accounts.revocations import Revocations
from app.accounts.service import VISITOR_PREFIX
from app.clock import Now
from app.identifiers import UserId, new_id, new_secret


class VisitorAccounts:
    """Owns making and removing them."""

    def __init__(self, revocations: Revocations, *, now: Now) -> None:
        self._revocations = revocations
        self._now = now

    async def add(self, session: AsyncSession) -> UserId:
        """A new account, without any way in yet."""
        user_id = new_id()
        session.add(
            User(
                id=user_id,
                username=f"{VISITOR_PREFIX}{user_id}",
                role=UserRole.VISITOR,
                password_hash=None,
                created_at=self._now(),
                disabled_at=None,
            )
        )
        await session.flush()
        return UserId(user_id)

    async def is_disabled(self, session: AsyncSession, user_id: str) -> bool:
        """Whether an administrator has closed the account."""
        user = await queries.user_by_id(session, user_id, for_update=True)
        return user is None or user.disabled_at is not None

    def sign_in(self, session: AsyncSession, user_id: str, lifetime: timedelta) -> tuple[str, datetime]:
        """A bearer token, and when it ends."""
        token, now = new_secret(), self._now()
        add_credential(session, user_id, CredentialKind.VISITOR, token, now=now, lifetime=lifetime)
        return token, now + lifetime

    async def end_sign_ins(self, session: AsyncSession, user_ids: Collection[str]) -> list[str]:
        """End whatever these people are signed in with; what has ended, to be announced after the commit."""
        return await queries.revoke_visitors(session, user_ids, self._now())

    def announce(self, ended: Collection[str]) -> None:
        """It is durable: close what was opened with them."""
        self._revocations.announce(ended)

    async def remove(self, session: AsyncSession, user_id: str) -> None:
        """Remove a visitor's account, with every row that hangs on it."""
        await queries.delete_visitor(session, user_id)
