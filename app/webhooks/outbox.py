"""Writes down what webhooks tell, in the unit of work of what has happened: both are durable together, or neither is.

Called by `conversations`, `responses`, `service` and `feedback`. Nothing here commits or sends; who sends is woken by the commit.
Where nobody wants to be told, it is one look into a small table.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from app.conversations.models import Conversation
from app.conversations.schemas import ConversationBody
from app.database import tell_after_commit
from app.identifiers import new_id
from app.webhooks.event_types import EventType
from app.webhooks.models import DeliveryStatus, Webhook, WebhookDelivery, WebhookEvent

WRITTEN = "webhooks"
"""Under which name the database tells of commits that had something for webhooks."""


async def record_event(
    session: AsyncSession,
    kind: EventType,
    conversation: Conversation | str,
    data: Mapping[str, Any],
    *,
    now: datetime,
) -> None:
    """Have everybody told of this who wants to be. `conversation` is as it is after it, or its id."""
    rows = await session.execute(select(Webhook.id, Webhook.events).where(Webhook.enabled))
    wanted = [webhook_id for webhook_id, events in rows if not events or kind in events]
    if not wanted:
        return
    if isinstance(conversation, str):
        found = await session.get(Conversation, conversation)
        if found is None:
            return
        conversation = found
    body = {"conversation": ConversationBody.of(conversation), **data}
    await add_event(session, kind, conversation.id, body, wanted, now=now)


async def add_event(
    session: AsyncSession,
    kind: EventType,
    conversation_id: str | None,
    data: dict[str, Any],
    webhook_ids: list[str],
    *,
    now: datetime,
) -> list[WebhookDelivery]:
    """The event, and its way to each of these endpoints."""
    payload = {"type": kind, "timestamp": now.astimezone(UTC), "data": data}
    event = WebhookEvent(
        id=new_id(),
        type=kind,
        conversation_id=conversation_id,
        payload=msgspec.json.encode(payload),
        created_at=now,
    )
    session.add(event)
    await session.flush()
    deliveries = [
        WebhookDelivery(
            id=new_id(),
            webhook_id=webhook_id,
            event_id=event.id,
            conversation_id=conversation_id,
            status=DeliveryStatus.PENDING,
            attempts=0,
            next_attempt_at=now,
            created_at=now,
        )
        for webhook_id in webhook_ids
    ]
    session.add_all(deliveries)
    await session.flush()
    tell_after_commit(session, WRITTEN)
    return deliveries
