"""SQL of webhooks. Every function runs inside the caller's unit of work and commits nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Select, delete, exists, func, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from app.errors import NotFound
from app.identifiers import is_id
from app.webhooks.models import DeliveryStatus, Webhook, WebhookDelivery, WebhookEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A delivery that this server makes now, with all that it takes."""

    delivery_id: str
    webhook_id: str
    event_id: str
    attempts: int
    url: str
    secrets: tuple[str, ...]
    payload: bytes


async def webhooks_page(session: AsyncSession, *, limit: int, before: tuple[datetime, str] | None) -> Sequence[Webhook]:
    """At most `limit` endpoints, the newest first, from behind `before` on."""
    statement = select(Webhook).order_by(Webhook.created_at.desc(), Webhook.id.desc()).limit(limit)
    if before is not None:
        statement = statement.where(tuple_(Webhook.created_at, Webhook.id) < before)
    return (await session.scalars(statement)).all()


async def find_webhook(session: AsyncSession, webhook_id: str, *, for_update: bool = False) -> Webhook:
    """One endpoint. Raises NotFound."""
    if is_id(webhook_id):
        statement = select(Webhook).where(Webhook.id == webhook_id)
        if for_update:
            statement = statement.with_for_update()
        if (found := await session.scalar(statement)) is not None:
            return found
    raise NotFound("there is no such webhook")


async def webhook_if_there(session: AsyncSession, webhook_id: str) -> Webhook | None:
    """An endpoint, held; None where it was deleted."""
    return await session.scalar(select(Webhook).where(Webhook.id == webhook_id).with_for_update())


async def deliveries_page(
    session: AsyncSession, webhook_id: str, *, status: DeliveryStatus | None, limit: int, before: int | None
) -> list[tuple[WebhookDelivery, str]]:
    """At most `limit` deliveries to an endpoint, the newest first, each with the type of its event."""
    statement = _with_type().where(WebhookDelivery.webhook_id == webhook_id)
    if status is not None:
        statement = statement.where(WebhookDelivery.status == status)
    if before is not None:
        statement = statement.where(WebhookDelivery.number < before)
    rows = await session.execute(statement.order_by(WebhookDelivery.number.desc()).limit(limit))
    return [(row[0], row[1]) for row in rows]


async def find_delivery(session: AsyncSession, webhook_id: str, delivery_id: str) -> tuple[WebhookDelivery, str]:
    """One delivery, held, with the type of its event. Raises NotFound."""
    if is_id(webhook_id) and is_id(delivery_id):
        statement = _with_type().where(WebhookDelivery.id == delivery_id, WebhookDelivery.webhook_id == webhook_id)
        row = (await session.execute(statement.with_for_update(of=WebhookDelivery))).first()
        if row is not None:
            return row[0], row[1]
    raise NotFound("there is no such delivery")


async def due(session: AsyncSession, now: datetime, *, busy: Collection[str], limit: int) -> list[tuple[str, str]]:
    """(delivery, endpoint) of what may be sent now, the oldest first; nothing to endpoints that are `busy`.

    An event waits for older ones of the same conversation to the same endpoint, until those are delivered or given up.
    """
    older = aliased(WebhookDelivery)
    has_older = exists().where(
        older.webhook_id == WebhookDelivery.webhook_id,
        older.conversation_id == WebhookDelivery.conversation_id,
        older.status == DeliveryStatus.PENDING,
        older.number < WebhookDelivery.number,
    )
    statement = (
        select(WebhookDelivery.id, WebhookDelivery.webhook_id)
        .join(Webhook, Webhook.id == WebhookDelivery.webhook_id)
        .where(
            Webhook.enabled,
            WebhookDelivery.status == DeliveryStatus.PENDING,
            WebhookDelivery.next_attempt_at <= now,
            _is_free(now),
            ~has_older,
        )
        .order_by(WebhookDelivery.number)
        .limit(limit)
    )
    if busy:
        statement = statement.where(WebhookDelivery.webhook_id.not_in(busy))
    return [(row[0], row[1]) for row in await session.execute(statement)]


async def claim(
    session: AsyncSession, delivery_id: str, *, owner: str, now: datetime, until: datetime
) -> Claimed | None:
    """Take a delivery for this server; None where another has it, or has made it."""
    taken = await session.execute(
        update(WebhookDelivery)
        .where(
            WebhookDelivery.id == delivery_id,
            WebhookDelivery.status == DeliveryStatus.PENDING,
            WebhookDelivery.next_attempt_at <= now,
            _is_free(now),
        )
        .values(claimed_by=owner, claimed_until=until)
        .returning(WebhookDelivery.id)
    )
    if taken.first() is None:
        return None
    statement = (
        select(WebhookDelivery, Webhook, WebhookEvent)
        .join(Webhook, Webhook.id == WebhookDelivery.webhook_id)
        .join(WebhookEvent, WebhookEvent.id == WebhookDelivery.event_id)
        .where(WebhookDelivery.id == delivery_id)
    )
    delivery, webhook, event = (await session.execute(statement)).one()
    previous = webhook.previous_secret if webhook.previous_until and webhook.previous_until > now else None
    return Claimed(
        delivery_id=delivery.id,
        webhook_id=webhook.id,
        event_id=event.id,
        attempts=delivery.attempts,
        url=webhook.url,
        secrets=(webhook.secret,) if previous is None else (webhook.secret, previous),
        payload=event.payload,
    )


async def release_claims(session: AsyncSession) -> None:
    """Nobody is sending anything."""
    claimed = WebhookDelivery.claimed_until.is_not(None)
    await session.execute(update(WebhookDelivery).where(claimed).values(claimed_by=None, claimed_until=None))


async def claimed_delivery(session: AsyncSession, delivery_id: str, owner: str) -> WebhookDelivery | None:
    """A delivery that is this server's to finish; None where it has gone, or its claim was too old."""
    statement = select(WebhookDelivery).where(
        WebhookDelivery.id == delivery_id,
        WebhookDelivery.claimed_by == owner,
        WebhookDelivery.status == DeliveryStatus.PENDING,
    )
    return await session.scalar(statement.with_for_update())


async def next_due_at(session: AsyncSession, now: datetime) -> datetime | None:
    """When the next attempt is due of those that wait for their time, or when the next claim of another server runs out."""
    pending = (Webhook.enabled, WebhookDelivery.status == DeliveryStatus.PENDING)
    moments = []
    for moment in (WebhookDelivery.next_attempt_at, WebhookDelivery.claimed_until):
        statement = select(func.min(moment)).join(Webhook, Webhook.id == WebhookDelivery.webhook_id)
        moments.append(await session.scalar(statement.where(*pending, moment > now)))
    return min((moment for moment in moments if moment is not None), default=None)


async def delete_old(session: AsyncSession, before: datetime) -> None:
    """Remove what is older, with its deliveries."""
    await session.execute(delete(WebhookEvent).where(WebhookEvent.created_at < before))


def _is_free(now: datetime) -> ColumnElement[bool]:
    return or_(WebhookDelivery.claimed_until.is_(None), WebhookDelivery.claimed_until <= now)


def _with_type() -> Select[WebhookDelivery, str]:
    return select(WebhookDelivery, WebhookEvent.type).join(WebhookEvent, WebhookEvent.id == WebhookDelivery.event_id)
