"""What is deleted in SQL is deleted in the engine, in every tier: right away, and again by comparing the two.

Called by the context when a conversation was deleted, when the engine is ready, and once per hour. SQL decides, and it comes
first: a process that dies in between has forgotten nothing that is still there, and finds at its next start what is not any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from app.accounts.service import AccountService
from app.background import Background
from app.conversations.service import ConversationService
from app.identifiers import ConversationId, UserId
from engine.client import EngineClient
from engine.errors import EngineNotReady, FilesNotDeleted
from engine.types import Namespace, NamespaceKind, SessionKey

logger = structlog.stdlib.get_logger(__name__)

AnswersEnded = Callable[[ConversationId], Awaitable[bool]]
"""Returns when no answer of that conversation is being made; whether there was one."""


class Forgetting:
    """Owns the deletions that are under way. Sessions of a part of a namespace are not conversations, and not judged here."""

    def __init__(
        self,
        engine: EngineClient,
        conversations: ConversationService,
        accounts: AccountService,
        answers_ended: AnswersEnded,
    ) -> None:
        self._engine = engine
        self._conversations = conversations
        self._accounts = accounts
        self._answers_ended = answers_ended
        self._deletions = Background()

    def __len__(self) -> int:
        return len(self._deletions)

    async def conversation_deleted(self, user_id: UserId, conversation_id: ConversationId) -> None:
        """Its rows are gone and its answers told to stop. Returns when the engine has nothing of it, or after a second."""
        key = SessionKey(Namespace.user(user_id), conversation_id)
        await self._deletions.do(self._forget_conversation(key, conversation_id))

    async def reconcile(self) -> None:
        """Drop every session whose conversation is not in SQL any more, and everything of people who are not."""
        try:
            await self._engine.wait_ready()
            await self._reconcile()
        except EngineNotReady:
            # It has failed or is being stopped, and both are told elsewhere.
            return

    async def close(self) -> None:
        """End what is under way."""
        await self._deletions.close()

    async def _reconcile(self) -> None:
        # Before SQL is read: a conversation is always stored before its session begins.
        snapshot = await self._engine.snapshot()
        keys = {
            status.key
            for status in snapshot.sessions
            if status.key.namespace.kind is NamespaceKind.USER and not status.key.namespace.part
        }
        existing = await self._conversations.existing({key.name for key in keys})
        gone = {key for key in keys if (key.namespace.name, key.name) not in existing}
        if not gone:
            return
        people = await self._accounts.existing({key.namespace.name for key in gone})
        strangers = {key.namespace for key in gone if key.namespace.name not in people}
        for namespace in strangers:
            await _despite_files(self._engine.drop_namespace(namespace))
        for key in gone:
            if key.namespace not in strangers:
                await _despite_files(self._engine.drop_session(key))
        logger.info("forgotten_sessions_dropped", sessions=len(gone))

    async def _forget_conversation(self, key: SessionKey, conversation_id: ConversationId) -> None:
        try:
            await self._engine.drop_session(key)
            if await self._answers_ended(conversation_id):
                # One that was on its way into the engine has begun the session anew.
                await self._engine.drop_session(key)
        except EngineNotReady:
            # Nothing is in its memory, and what is on its disk is found once it is ready.
            logger.info("session_not_dropped_yet", conversation_id=conversation_id)
        except Exception:
            logger.exception("session_not_dropped", conversation_id=conversation_id)


async def _despite_files(drop: Awaitable[object]) -> None:
    """One file that cannot be removed must not keep the sessions after it."""
    try:
        await drop
    except FilesNotDeleted as problem:
        logger.warning("session_not_dropped", error=str(problem))
