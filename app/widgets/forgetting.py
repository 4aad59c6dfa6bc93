"""Forgets visitors: whoever has not come for so many days, and everybody of a deleted widget. Run by the context, once per hour.

Each goes by itself, with conversations, event logs and KV in every tier, in the way in which a deletion by hand would do it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog

from app.accounts.visitor_accounts import VisitorAccounts
from app.clock import Now
from app.conversations.listing import Narrowing
from app.conversations.service import ConversationService
from app.database import Database
from app.errors import NotFound
from app.identifiers import UserId
from app.usage.limits import Subject, SubjectKind
from app.usage.quotas import QuotaService
from app.widgets import queries

logger = structlog.stdlib.get_logger(__name__)

AT_ONCE = 200


class VisitorForgetting:
    """Owns when a visitor is due. With 0 days nobody is, except of deleted widgets."""

    def __init__(
        self,
        database: Database,
        accounts: VisitorAccounts,
        conversations: ConversationService,
        quotas: QuotaService,
        *,
        days: int,
        now: Now,
    ) -> None:
        self._database = database
        self._accounts = accounts
        self._conversations = conversations
        self._quotas = quotas
        self._days = days
        self._now = now

    async def run(self) -> None:
        """Forget everybody who is due now, then the widgets that nobody is left of, and secrets that do not hold any more."""
        unseen_since = self._now() - timedelta(days=self._days) if self._days else None
        after, forgotten = "", 0
        while True:
            async with self._database.read() as session:
                batch = await queries.due_visitors(session, unseen_since, after=after, limit=AT_ONCE)
            if not batch:
                break
            for user_id in batch:
                forgotten += await self._forget(user_id, unseen_since)
            after = batch[-1]
        async with self._database.write() as session:
            await queries.drop_previous_secrets(session, self._now())
            await queries.delete_left_widgets(session)
        if forgotten:
            logger.info("visitors_forgotten", visitors=forgotten)

    async def _forget(self, user_id: str, unseen_since: datetime | None) -> bool:
        async with self._database.write() as session:
            if not await queries.is_due(session, user_id, unseen_since):
                # Somebody has come back since.
                return False
            ended = await self._accounts.end_sign_ins(session, [user_id])
        self._accounts.announce(ended)
        while (page := await self._conversations.page(UserId(user_id), Narrowing(), limit=AT_ONCE, cursor=None)).items:
            for item in page.items:
                try:
                    await self._conversations.delete(UserId(user_id), item.id)
                except NotFound:
                    # It has gone by itself meanwhile.
                    continue
        async with self._database.write() as session:
            await self._quotas.give(session, Subject(SubjectKind.USER, user_id), {})
            await self._accounts.remove(session, user_id)
        return True
