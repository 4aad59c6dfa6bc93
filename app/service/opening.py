"""Puts this room together for one server process, and takes it apart again. Called by the context."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from app.audit.service import AuditLog
from app.background import Background
from app.clock import Now
from app.conversations.service import ConversationService
from app.database import Database
from app.idempotency import Idempotency
from app.replicas.bus import Bus
from app.responses.opening import Responses
from app.service.announcing import ServiceNews
from app.service.canned import CannedAnswers
from app.service.desk import ServiceDesk
from app.service.feed import InboxFeed
from app.service.inbox import Inbox
from app.sessions.holding import SessionHolding
from app.settings import Settings
from engine.client import EngineClient


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerService:
    """The open room."""

    desk: ServiceDesk
    inbox: Inbox
    feed: InboxFeed
    canned_answers: CannedAnswers
    holding: SessionHolding


@asynccontextmanager
async def open_service(
    settings: Settings,
    engine: EngineClient,
    database: Database,
    bus: Bus,
    idempotency: Idempotency,
    audit: AuditLog,
    conversations: ConversationService,
    responses: Responses,
    *,
    now: Now,
) -> AsyncIterator[CustomerService]:
    """Serve until the block ends."""
    inbox = Inbox(database, conversations, audit, now=now)
    feed = InboxFeed(bus)
    holding = SessionHolding(engine, bus, inbox.answered_by_people)
    news = ServiceNews(responses.hub, feed, holding)
    responses.turns.on_said(news.said)
    responses.turns.on_changed(news.changed)
    desk = ServiceDesk(database, idempotency, audit, responses, responses.reader, news, now=now)
    failures = Background()
    if settings.handoff_on_failure:
        responses.dispatcher.on_failed(
            lambda conversation_id, reason: failures.begin(desk.engine_failed(conversation_id, reason))
        )
    try:
        yield CustomerService(
            desk=desk,
            inbox=inbox,
            feed=feed,
            canned_answers=CannedAnswers(database, idempotency, audit, now=now),
            holding=holding,
        )
    finally:
        await failures.close()
        await holding.close()
