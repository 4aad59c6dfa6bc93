"""Deletes accounts, with everything that was said in them: by an administrator, or by the person themselves with their password.

    one transaction: written down, disabled, marked ─► sockets close ─► conversations ─► KV on every server ─► the account

The mark is what makes it whole: whatever ends in between is gone on with when the server starts, and once per hour. What was used
stays in the sums, and who did it in the audit log; what somebody wrote as an agent into others' conversations belongs to those.
"""

from __future__ import annotations

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from app.accounts.administration import Administration
from app.accounts.identity import Identity
from app.accounts.service import AccountService
from app.background import Background
from app.conversations.service import ConversationService
from app.database import Database
from app.errors import NotFound
from app.identifiers import UserId
from app.replicas.bus import Bus, News, Topic
from app.usage.limits import Subject, SubjectKind
from app.usage.quotas import QuotaService
from engine.client import EngineClient
from engine.errors import EngineNotReady, FilesNotDeleted
from engine.types import Namespace

logger = structlog.stdlib.get_logger(__name__)

AT_ONCE = 200


class AccountDeletion:
    """Owns the deletions that are under way."""

    def __init__(
        self,
        database: Database,
        administration: Administration,
        accounts: AccountService,
        conversations: ConversationService,
        quotas: QuotaService,
        engine: EngineClient,
        bus: Bus,
    ) -> None:
        self._database = database
        self._administration = administration
        self._accounts = accounts
        self._conversations = conversations
        self._quotas = quotas
        self._engine = engine
        self._bus = bus
        self._under_way = Background()

    def __len__(self) -> int:
        return len(self._under_way)

    def open(self) -> None:
        """From now on, what other servers delete is forgotten here too."""
        self._bus.on(Topic.FORGET_USER, self._heard)

    async def close(self) -> None:
        """End what is under way; the next start goes on with it."""
        await self._under_way.close()

    async def of_another(self, caller: Identity, user_id: str) -> None:
        """Returns when it is done, or after a second, and the rest goes on. Raises NotFound or Conflict."""
        await self._administration.begin_deletion(caller, user_id)
        await self._under_way.do(self._despite_anything(user_id))

    async def of_oneself(self, caller: Identity, password: str | None, address: str) -> None:
        """The same, with one's own password. Raises Forbidden, TooManyRequests or Conflict."""
        await self._accounts.confirm_password(caller, password, address)
        await self._administration.begin_deletion(caller, caller.user_id)
        await self._under_way.do(self._despite_anything(caller.user_id))

    async def finish(self) -> None:
        """Go on with every deletion that was begun."""
        for user_id in await self._administration.being_deleted():
            await self._remove(user_id)

    async def _despite_anything(self, user_id: str) -> None:
        try:
            await self._remove(user_id)
        except Exception:
            logger.exception("account_not_deleted_yet", user_id=user_id)

    async def _remove(self, user_id: str) -> None:
        while ids := await self._conversations.ids_of(UserId(user_id), AT_ONCE):
            for conversation_id in ids:
                try:
                    await self._conversations.delete(UserId(user_id), conversation_id)
                except NotFound:
                    # It has gone by itself meanwhile.
                    continue
        self._bus.publish(Topic.FORGET_USER, user_id=user_id)
        await self._forget(user_id)
        async with self._database.write() as session:
            await self._forget_limits(session, user_id)
            await self._administration.remove(session, user_id)
        # What was deleted is not to be read out of the log of writes either.
        await self._database.checkpoint()
        logger.info("account_deleted", user_id=user_id)

    async def _forget_limits(self, session: AsyncSession, user_id: str) -> None:
        await self._quotas.give(session, Subject(SubjectKind.USER, user_id), {})
        for key_id in await self._administration.key_ids(session, user_id):
            await self._quotas.give(session, Subject(SubjectKind.KEY, key_id), {})

    async def _forget(self, user_id: str) -> None:
        """Everything that is kept in this person's namespace, parts of it included, in every tier."""
        try:
            await self._engine.drop_namespace(Namespace.user(user_id))
        except EngineNotReady:
            # Nothing is in its memory, and what is on its disk is found once it is ready.
            logger.info("namespace_not_dropped_yet", user_id=user_id)
        except FilesNotDeleted as problem:
            logger.warning("namespace_not_dropped", error=str(problem))

    def _heard(self, news: News) -> None:
        self._under_way.begin(self._forget(news["user_id"]))
