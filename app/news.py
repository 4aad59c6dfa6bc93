"""What the domains tell the other servers of a deployment, and what they do when they are told.

Opened by the context where there are others. SQL has decided before anything is said here, and is looked into again whenever news
may have been lost: a server that heard nothing is late, and not wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

from app.accounts.service import AccountService
from app.conversations.service import ConversationService
from app.identifiers import ConversationId, UserId
from app.personas.prefixes import PersonaPrefixes
from app.replicas.bus import Bus, News, Topic
from app.replicas.ending import ended
from app.responses.opening import Responses
from app.sessions.forgetting import Forgetting

logger = structlog.stdlib.get_logger(__name__)


class DomainNews:
    """Owns the work that news has begun."""

    def __init__(
        self,
        bus: Bus,
        accounts: AccountService,
        conversations: ConversationService,
        personas: PersonaPrefixes,
        forgetting: Forgetting,
        responses: Responses,
    ) -> None:
        self._bus = bus
        self._accounts = accounts
        self._conversations = conversations
        self._personas = personas
        self._forgetting = forgetting
        self._responses = responses
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """From now on."""
        self._accounts.on_revoked(lambda credential_id: self._bus.publish(Topic.REVOKED, credential_id=credential_id))
        self._conversations.after_deletion(self._tell_deleted)
        self._personas.on_changed(lambda name: self._bus.publish(Topic.PERSONA, name=name))
        self._bus.on(Topic.REVOKED, lambda news: self._responses.hub.close_credential(news["credential_id"]))
        self._bus.on(Topic.FORGET, self._forget)
        self._bus.on(Topic.PERSONA, lambda news: self._begin(self._personas.heard(news["name"])))
        self._bus.on_reconnected(lambda: self._begin(self._look_again()))

    async def close(self) -> None:
        """End what is under way."""
        await ended(self._tasks)

    async def _tell_deleted(self, user_id: UserId, conversation_id: ConversationId) -> None:
        self._bus.publish(Topic.FORGET, user_id=user_id, conversation_id=conversation_id)

    def _forget(self, news: News) -> None:
        conversation_id = ConversationId(news["conversation_id"])
        self._responses.stop_answers(conversation_id)
        self._begin(self._forgetting.conversation_deleted(UserId(news["user_id"]), conversation_id))

    async def _look_again(self) -> None:
        """Whatever may have been said meanwhile, SQL knows it."""
        open_with = self._responses.hub.credentials()
        for credential_id in open_with - await self._accounts.holding(open_with):
            self._responses.hub.close_credential(credential_id)
        await self._personas.prepare()
        await self._forgetting.reconcile()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(_despite_anything(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _despite_anything(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:
        # Each of these is looked after once per hour, too.
        logger.exception("news_not_followed")
