"""Bodies of the webhook routes. No body has what an event says: administrators may not be meant to read it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.text import STORABLE_PATTERN
from app.webhooks.event_types import EventType
from app.webhooks.models import DESCRIPTION_MAX_CHARS, URL_MAX_CHARS, DeliveryStatus, Webhook, WebhookDelivery

Url = Annotated[str, Meta(min_length=1, max_length=URL_MAX_CHARS, description="https://… or http://…")]
Description = Annotated[str, Meta(max_length=DESCRIPTION_MAX_CHARS, pattern=STORABLE_PATTERN)]
Events = Annotated[
    list[EventType], Meta(max_length=32, description="What the endpoint is told; everything where it is empty")
]


class WebhookCreate(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """An endpoint that is told what happens in all conversations."""

    url: Url
    events: Events = []
    description: Description = ""


class WebhookPatch(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is left out stays as it is. One that is enabled again is told what has waited meanwhile."""

    url: Url | UnsetType = UNSET
    events: Events | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class WebhookBody(msgspec.Struct, frozen=True):
    """One endpoint, without its secret. `failing_since`: it has taken nothing from then on; `disabled_reason` says why the server
    tells it nothing more."""

    id: str
    url: str
    events: list[EventType]
    description: str
    enabled: bool
    disabled_reason: str | None
    failing_since: datetime | None
    previous_secret_until: datetime | None
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, webhook: Webhook) -> WebhookBody:
        return cls(
            id=webhook.id,
            url=webhook.url,
            events=[EventType(event) for event in webhook.events],
            description=webhook.description,
            enabled=webhook.enabled,
            disabled_reason=webhook.disabled_reason,
            failing_since=webhook.failing_since,
            previous_secret_until=webhook.previous_until,
            created_at=webhook.created_at,
            updated_at=webhook.updated_at,
        )


class NewWebhookBody(WebhookBody, frozen=True, kw_only=True):
    """The secret is shown now and never again."""

    secret: str

    @classmethod
    def with_secret(cls, webhook: Webhook) -> NewWebhookBody:
        return cls(**msgspec.structs.asdict(WebhookBody.of(webhook)), secret=webhook.secret)


class WebhookList(msgspec.Struct, frozen=True):
    items: list[WebhookBody]
    next_cursor: str | None


class DeliveryBody(msgspec.Struct, frozen=True):
    """An event on its way to an endpoint. `event_id` is its `webhook-id`, the same with every try and every replay."""

    id: str
    event_id: str
    event_type: EventType
    conversation_id: str | None
    status: DeliveryStatus
    attempts: int
    next_attempt_at: datetime | None
    last_status_code: int | None
    last_error: str | None
    delivered_at: datetime | None
    created_at: datetime

    @classmethod
    def of(cls, delivery: WebhookDelivery, kind: str) -> DeliveryBody:
        is_pending = delivery.status == DeliveryStatus.PENDING
        return cls(
            id=delivery.id,
            event_id=delivery.event_id,
            event_type=EventType(kind),
            conversation_id=delivery.conversation_id,
            status=DeliveryStatus(delivery.status),
            attempts=delivery.attempts,
            next_attempt_at=delivery.next_attempt_at if is_pending else None,
            last_status_code=delivery.last_status_code,
            last_error=delivery.last_error,
            delivered_at=delivery.delivered_at,
            created_at=delivery.created_at,
        )


class DeliveryList(msgspec.Struct, frozen=True):
    items: list[DeliveryBody]
    next_cursor: str | None


class WebhookCursor(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The last item of a page: when it was made, in microseconds since 1970, and its id."""

    created_us: Annotated[int, Meta(ge=0, le=253_402_300_799_999_999)]
    id: Annotated[str, Meta(max_length=36)]


class DeliveryCursor(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The last item of a page."""

    number: Annotated[int, Meta(ge=0, le=2**53)]
