"""Endpoints in memory, and senders whose time the test makes. For tests of webhooks."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from app.accounts.identity import CredentialSource, Identity
from app.accounts.models import User, UserRole
from app.audit.service import AuditLog
from app.conversations.models import Conversation
from app.database import Database
from app.identifiers import UserId, new_id
from app.webhooks.addresses import AddressRules
from app.webhooks.event_types import EventType
from app.webhooks.outbox import record_event
from app.webhooks.posting import Attempted
from app.webhooks.schedule import Schedule
from app.webhooks.schemas import NewWebhookBody, WebhookCreate
from app.webhooks.sender import WebhookSender
from app.webhooks.service import WebhookService
from tests.support.clock import SteppedClock
from tests.support.trees import MOMENT, add_conversation

PAUSES = "5,300,1800,7200,18000"
TAKEN = Attempted(200)


@dataclass
class Received:
    """What came to an endpoint."""

    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def event(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.body)
        return body


@dataclass
class Endpoints:
    """All of them. `answer` says what each attempt comes to."""

    answer: Callable[[str, int], Attempted] = lambda url, attempt: TAKEN
    received: dict[str, list[Received]] = field(default_factory=lambda: defaultdict(list))

    async def __call__(self, url: str, headers: Mapping[str, str], body: bytes) -> Attempted:
        self.received[url].append(Received(dict(headers), body))
        return self.answer(url, len(self.received[url]))

    def numbers(self, url: str) -> list[int]:
        """The numbers of the events that an endpoint got, in their order."""
        return [received.event["data"]["number"] for received in self.received[url]]


class Webhooks:
    """Administrators' acts, events of conversations, and senders."""

    def __init__(self, database: Database, clock: SteppedClock, endpoints: Endpoints) -> None:
        self.database = database
        self.clock = clock
        self.endpoints = endpoints
        self.service = WebhookService(
            database,
            AuditLog(database, now=clock.now),
            AddressRules(""),
            overlap=timedelta(hours=24),
            keep=timedelta(days=14),
            now=clock.now,
        )
        self.sender = self.another_sender()
        self.admin = Identity(UserId(new_id()), "root", UserRole.ADMIN, new_id(), None, CredentialSource.BEARER)
        self.conversations: dict[str, str] = {}

    def another_sender(self, endpoints: Endpoints | None = None) -> WebhookSender:
        return WebhookSender(
            self.database,
            endpoints or self.endpoints,
            Schedule.of(PAUSES, disable_days=5),
            owner=new_id(),
            is_alone=False,
            attempt_timeout_s=15,
            now=self.clock.now,
        )

    async def endpoint(self, name: str = "a", *events: EventType) -> NewWebhookBody:
        return await self.service.create(self.admin, WebhookCreate(url_of(name), list(events)))

    async def conversation(self, name: str = "c") -> str:
        """The id of the conversation of that name."""
        if name not in self.conversations:
            async with self.database.write() as session:
                user = User(id=new_id(), username=new_id()[:8], role=UserRole.USER, created_at=MOMENT)
                session.add(user)
                await session.flush()
                self.conversations[name] = (await add_conversation(session, user.id)).id
        return self.conversations[name]

    async def happens(self, number: int, name: str = "c", kind: EventType = EventType.MESSAGE_CREATED) -> None:
        """An event of a conversation."""
        conversation_id = await self.conversation(name)
        async with self.database.write() as session:
            await record_event(session, kind, conversation_id, {"number": number}, now=self.clock.now())

    async def send(self, sender: WebhookSender | None = None) -> None:
        """Everything that is due now."""
        sender = sender or self.sender
        before = -1
        while before < (before := sum(map(len, self.endpoints.received.values()))):
            await sender.send_due()
            await sender.settled()

    async def deliveries(self, webhook_id: str) -> list[tuple[str, int]]:
        """(status, tries) of what was sent to it, the oldest first."""
        page = await self.service.deliveries(webhook_id, status=None, limit=200, cursor=None)
        return [(str(item.status), item.attempts) for item in reversed(page.items)]

    async def delete_conversation(self, name: str = "c") -> None:
        async with self.database.write() as session:
            conversation = await session.get(Conversation, self.conversations.pop(name))
            assert conversation is not None
            await session.delete(conversation)


def url_of(name: str) -> str:
    return f"https://{name}.example/hook"
