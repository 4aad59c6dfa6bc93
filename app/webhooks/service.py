"""What administrators do with webhooks. Called by routes; every act is in the audit log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec import UNSET

from app.accounts.identity import Identity
from app.audit.service import AuditLog
from app.clock import Now
from app.database import Database, tell_after_commit
from app.errors import Conflict
from app.identifiers import new_id
from app.pagination import decode_cursor, encode_cursor
from app.text import require_storable
from app.webhooks import queries
from app.webhooks.addresses import AddressRules
from app.webhooks.destination import require_url
from app.webhooks.event_types import EventType
from app.webhooks.models import DeliveryStatus, Webhook
from app.webhooks.outbox import WRITTEN, add_event
from app.webhooks.schemas import (
    DeliveryBody,
    DeliveryCursor,
    DeliveryList,
    NewWebhookBody,
    WebhookBody,
    WebhookCreate,
    WebhookCursor,
    WebhookList,
    WebhookPatch,
)
from app.webhooks.signing import new_secret

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class WebhookService:
    """Owns the endpoints. Does not own sending."""

    def __init__(
        self,
        database: Database,
        audit: AuditLog,
        rules: AddressRules,
        *,
        overlap: timedelta,
        keep: timedelta,
        now: Now,
    ) -> None:
        self._database = database
        self._audit = audit
        self._rules = rules
        self._overlap = overlap
        self._keep = keep
        self._now = now

    async def page(self, *, limit: int, cursor: str | None) -> WebhookList:
        """A page of them, the newest first."""
        before = None
        if cursor is not None:
            place = decode_cursor(cursor, WebhookCursor)
            before = (EPOCH + place.created_us * MICROSECOND, require_storable(place.id, "cursor"))
        async with self._database.read() as session:
            found = await queries.webhooks_page(session, limit=limit + 1, before=before)
        next_cursor = None
        if len(found) > limit:
            last = found[limit - 1]
            next_cursor = encode_cursor(WebhookCursor((last.created_at - EPOCH) // MICROSECOND, last.id))
        return WebhookList([WebhookBody.of(webhook) for webhook in found[:limit]], next_cursor)

    async def get(self, webhook_id: str) -> WebhookBody:
        """One of them. Raises NotFound."""
        async with self._database.read() as session:
            return WebhookBody.of(await queries.find_webhook(session, webhook_id))

    async def create(self, caller: Identity, wanted: WebhookCreate) -> NewWebhookBody:
        """A new endpoint, with its secret. Raises InvalidInput for an address it may not have."""
        require_url(wanted.url, self._rules)
        now = self._now()
        async with self._database.write() as session:
            webhook = Webhook(
                id=new_id(),
                url=wanted.url,
                description=wanted.description,
                events=list(dict.fromkeys(wanted.events)),
                secret=new_secret(),
                enabled=True,
                created_at=now,
                updated_at=now,
            )
            session.add(webhook)
            self._audit.record(session, caller, "webhook.create", webhook.id, url=wanted.url)
            return NewWebhookBody.with_secret(webhook)

    async def update(self, caller: Identity, webhook_id: str, patch: WebhookPatch) -> WebhookBody:
        """Change it. Raises NotFound, or InvalidInput for an address it may not have."""
        if patch.url is not UNSET:
            require_url(patch.url, self._rules)
        async with self._database.write() as session:
            webhook = await queries.find_webhook(session, webhook_id, for_update=True)
            if patch.url is not UNSET:
                webhook.url = patch.url
            if patch.events is not UNSET:
                webhook.events = list(dict.fromkeys(patch.events))
            if patch.description is not UNSET:
                webhook.description = patch.description
            if patch.enabled is not UNSET and patch.enabled != webhook.enabled:
                webhook.enabled = patch.enabled
                webhook.disabled_reason = webhook.failing_since = None
                tell_after_commit(session, WRITTEN)
            webhook.updated_at = self._now()
            self._audit.record(session, caller, "webhook.update", webhook.id, url=webhook.url, enabled=webhook.enabled)
            return WebhookBody.of(webhook)

    async def rotate(self, caller: Identity, webhook_id: str) -> NewWebhookBody:
        """Another secret; the one before it signs too for a while. Raises NotFound."""
        async with self._database.write() as session:
            webhook = await queries.find_webhook(session, webhook_id, for_update=True)
            now = self._now()
            webhook.previous_secret, webhook.previous_until = webhook.secret, now + self._overlap
            webhook.secret = new_secret()
            webhook.updated_at = now
            self._audit.record(session, caller, "webhook.rotate", webhook.id)
            return NewWebhookBody.with_secret(webhook)

    async def delete(self, caller: Identity, webhook_id: str) -> None:
        """Tell it nothing more, and forget what was on its way. Raises NotFound."""
        async with self._database.write() as session:
            webhook = await queries.find_webhook(session, webhook_id, for_update=True)
            self._audit.record(session, caller, "webhook.delete", webhook.id, url=webhook.url)
            await session.delete(webhook)

    async def test(self, caller: Identity, webhook_id: str) -> DeliveryBody:
        """Have something sent that means nothing. Raises NotFound, or Conflict for one that is disabled."""
        async with self._database.write() as session:
            webhook = await queries.find_webhook(session, webhook_id, for_update=True)
            _require_enabled(webhook)
            (delivery,) = await add_event(
                session, EventType.TEST, None, {"webhook_id": webhook.id}, [webhook.id], now=self._now()
            )
            self._audit.record(session, caller, "webhook.test", webhook.id)
            return DeliveryBody.of(delivery, EventType.TEST)

    async def deliveries(
        self, webhook_id: str, *, status: DeliveryStatus | None, limit: int, cursor: str | None
    ) -> DeliveryList:
        """A page of what was sent to it, the newest first. Raises NotFound."""
        before = None if cursor is None else decode_cursor(cursor, DeliveryCursor).number
        async with self._database.read() as session:
            await queries.find_webhook(session, webhook_id)
            found = await queries.deliveries_page(session, webhook_id, status=status, limit=limit + 1, before=before)
        next_cursor = None
        if len(found) > limit:
            next_cursor = encode_cursor(DeliveryCursor(found[limit - 1][0].number))
        return DeliveryList([DeliveryBody.of(delivery, kind) for delivery, kind in found[:limit]], next_cursor)

    async def replay(self, caller: Identity, webhook_id: str, delivery_id: str) -> DeliveryBody:
        """Send it again from the first try on, under the same id. Raises NotFound, or Conflict while it is on its way."""
        async with self._database.write() as session:
            webhook = await queries.find_webhook(session, webhook_id, for_update=True)
            delivery, kind = await queries.find_delivery(session, webhook_id, delivery_id)
            _require_enabled(webhook)
            if delivery.claimed_until is not None and delivery.claimed_until > self._now():
                raise Conflict("this delivery is being made right now", code="delivery_running")
            delivery.status, delivery.attempts, delivery.next_attempt_at = DeliveryStatus.PENDING, 0, self._now()
            delivery.delivered_at = None
            tell_after_commit(session, WRITTEN)
            self._audit.record(session, caller, "webhook.replay", webhook_id, delivery_id=delivery_id)
            return DeliveryBody.of(delivery, kind)

    async def purge(self) -> None:
        """Remove events, and how they were delivered, that are older than is kept."""
        if self._keep:
            async with self._database.write() as session:
                await queries.delete_old(session, self._now() - self._keep)


def _require_enabled(webhook: Webhook) -> None:
    if not webhook.enabled:
        raise Conflict("this webhook is disabled; enable it first", code="webhook_disabled")
