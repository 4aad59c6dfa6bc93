"""Removes conversations whose time is over: temporary ones at their moment, others after so many days without a change.

Run by the context from time to time. Each is removed by itself, in a short unit of work that looks once more whether it is due,
and never while an answer is being made in it. What a deletion by hand forgets elsewhere, logs, KV in every tier, watchers who
have to be told, is forgotten here in the same way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import NamedTuple

import structlog
from sqlalchemy import ColumnElement, Select, exists, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.clock import Now
from app.conversations.models import Conversation, Message, MessageStatus, RetentionPolicy
from app.conversations.schemas import GoneReason
from app.conversations.service import ConversationService
from app.database import Database
from app.identifiers import ConversationId, UserId
from app.operations.metrics import Metrics
from engine.client import EngineClient
from engine.errors import EngineNotReady
from engine.snapshot import PagesByTier
from engine.types import Namespace, SessionKey

logger = structlog.stdlib.get_logger(__name__)

AT_ONCE = 200
UNFINISHED = tuple(status for status in MessageStatus if not status.is_final)

LogBytes = Callable[[AsyncSession, str], Awaitable[int]]
"""How many bytes the event logs of a conversation have; from the room of answers."""


class _Removed(NamedTuple):
    messages: int
    text_chars: int
    log_bytes: int


class Retention:
    """Owns when a conversation is due. `days` is for whoever has no policy of their own; 0 keeps for ever."""

    def __init__(
        self,
        database: Database,
        conversations: ConversationService,
        engine: EngineClient,
        log_bytes: LogBytes,
        metrics: Metrics,
        *,
        days: int,
        now: Now,
    ) -> None:
        self._database = database
        self._conversations = conversations
        self._engine = engine
        self._log_bytes = log_bytes
        self._metrics = metrics
        self._days = days
        self._now = now

    async def remove_expired(self) -> None:
        """Every temporary conversation whose moment has come."""
        due = Conversation.expires_at <= self._now()
        await self._remove_all(due, "expired")

    async def remove_old(self) -> None:
        """Every conversation that nothing was said in, and nothing changed of, for longer than it is kept."""
        async with self._database.read() as session:
            policies = (await session.scalars(select(RetentionPolicy.days).distinct())).all()
        for days in policies:
            people = select(RetentionPolicy.user_id).where(RetentionPolicy.days == days)
            await self._remove_older(days, Conversation.user_id.in_(people))
        people = select(RetentionPolicy.user_id)
        await self._remove_older(self._days, Conversation.user_id.not_in(people))

    async def _remove_older(self, days: int, whose: ColumnElement[bool]) -> None:
        if days:
            moment = self._now() - timedelta(days=days)
            await self._remove_all(whose & (Conversation.updated_at <= moment), "retention")

    async def _remove_all(self, due: ColumnElement[bool], reason: GoneReason) -> None:
        removed = 0
        async for batch in self._batches(due):
            pages = await self._pages()
            for user_id, conversation_id in batch:
                if (freed := await self._remove(conversation_id, due)) is None:
                    continue
                await self._conversations.gone(user_id, conversation_id, reason)
                kv = pages.get(SessionKey(Namespace.user(user_id), conversation_id), PagesByTier())
                self._metrics.conversation_removed(
                    reason, messages=freed.messages, text_chars=freed.text_chars, log_bytes=freed.log_bytes, pages=kv
                )
                removed += 1
        if removed:
            logger.info("conversations_removed", reason=reason, conversations=removed)

    async def _batches(self, due: ColumnElement[bool]) -> AsyncIterator[list[tuple[UserId, ConversationId]]]:
        """What is due, by id, so that one that has to wait keeps nothing behind it."""
        after = ""
        while True:
            statement: Select[str, str] = select(Conversation.user_id, Conversation.id)
            statement = statement.where(due, Conversation.id > after).order_by(Conversation.id).limit(AT_ONCE)
            async with self._database.read() as session:
                rows = (await session.execute(statement)).all()
            if not rows:
                return
            yield [(UserId(user_id), ConversationId(conversation_id)) for user_id, conversation_id in rows]
            after = rows[-1][1]

    async def _remove(self, conversation_id: str, due: ColumnElement[bool]) -> _Removed | None:
        """What went with it; None when it is not due any more, or an answer is being made in it."""
        its_messages = Message.conversation_id == conversation_id
        async with self._database.write() as session:
            held = select(Conversation).where(Conversation.id == conversation_id, due).with_for_update()
            if (conversation := await session.scalar(held)) is None:
                return None
            if await session.scalar(select(exists().where(its_messages, Message.status.in_(UNFINISHED)))):
                return None
            size = select(func.count(), func.coalesce(func.sum(func.length(Message.content)), 0)).where(its_messages)
            messages, text_chars = (await session.execute(size)).one()
            log_bytes = await self._log_bytes(session, conversation_id)
            await self._conversations.remove(session, conversation)
        return _Removed(messages, text_chars, log_bytes)

    async def _pages(self) -> dict[SessionKey, PagesByTier]:
        """What the engine keeps of each conversation now; nothing where it does not run."""
        try:
            snapshot = await self._engine.snapshot()
        except EngineNotReady:
            return {}
        return {session.key: session.pages for session in snapshot.sessions}
