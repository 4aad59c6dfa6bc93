"""Tables of webhooks: who is told what, what has happened, and how far the telling is."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, Integer, LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column

from app.database import Base, UTCDateTime

URL_MAX_CHARS = 2000
DESCRIPTION_MAX_CHARS = 200
ERROR_MAX_CHARS = 200


class DeliveryStatus(StrEnum):
    """`PENDING` until an attempt was taken, or the last one was not."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


class Webhook(Base):
    """An endpoint. `events` are those it wants to be told, empty: all. `secret` is as it was shown, because whoever signs needs
    it; `previous_secret` signs too until `previous_until`. `failing_since` is when it began to take nothing any more."""

    __tablename__ = "webhooks"
    __table_args__ = (Index("ix_webhooks_created_at_id", "created_at", "id"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    url: Mapped[str] = mapped_column(String(URL_MAX_CHARS))
    description: Mapped[str] = mapped_column(String(DESCRIPTION_MAX_CHARS))
    events: Mapped[list[str]] = mapped_column(JSON)
    secret: Mapped[str] = mapped_column(String(100))
    previous_secret: Mapped[str | None] = mapped_column(String(100))
    previous_until: Mapped[datetime | None] = mapped_column(UTCDateTime)
    enabled: Mapped[bool]
    disabled_reason: Mapped[str | None] = mapped_column(String(ERROR_MAX_CHARS))
    failing_since: Mapped[datetime | None] = mapped_column(UTCDateTime)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    updated_at: Mapped[datetime] = mapped_column(UTCDateTime)


class WebhookEvent(Base):
    """Something that has happened, as it is told: `payload` is the very body. It goes with its conversation."""

    __tablename__ = "webhook_events"
    __table_args__ = (
        Index("ix_webhook_events_created_at", "created_at"),
        Index("ix_webhook_events_conversation_id", "conversation_id"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    type: Mapped[str] = mapped_column(String(64))
    conversation_id: Mapped[str | None] = mapped_column(ForeignKey("conversations.id", ondelete="CASCADE"))
    payload: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)


class WebhookDelivery(Base):
    """An event on its way to one endpoint; `number` is its place in the order. Whoever sends it has claimed it for a while."""

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        Index("ix_webhook_deliveries_status_next_attempt_at", "status", "next_attempt_at"),
        Index("ix_webhook_deliveries_webhook_id_number", "webhook_id", "number"),
        Index("ix_webhook_deliveries_conversation_id_webhook_id_status", "conversation_id", "webhook_id", "status"),
        Index("ix_webhook_deliveries_event_id", "event_id"),
    )

    number: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    id: Mapped[str] = mapped_column(String(36), unique=True)
    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"))
    event_id: Mapped[str] = mapped_column(ForeignKey("webhook_events.id", ondelete="CASCADE"))
    conversation_id: Mapped[str | None] = mapped_column(String(36))
    status: Mapped[str] = mapped_column(String(16))
    attempts: Mapped[int]
    next_attempt_at: Mapped[datetime] = mapped_column(UTCDateTime)
    claimed_by: Mapped[str | None] = mapped_column(String(36))
    claimed_until: Mapped[datetime | None] = mapped_column(UTCDateTime)
    last_status_code: Mapped[int | None]
    last_error: Mapped[str | None] = mapped_column(String(ERROR_MAX_CHARS))
    delivered_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
