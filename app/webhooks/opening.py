"""Puts this room together for one server process, and takes it apart again. Called by the context."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from app.audit.service import AuditLog
from app.clock import Now
from app.database import Database
from app.replicas.ending import ended
from app.replicas.opening import Replicas
from app.settings import Settings
from app.webhooks.addresses import AddressRules
from app.webhooks.posting import HttpPost
from app.webhooks.schedule import Schedule
from app.webhooks.sender import WebhookSender
from app.webhooks.service import WebhookService


@asynccontextmanager
async def open_webhooks(
    settings: Settings, database: Database, replicas: Replicas, audit: AuditLog, *, now: Now
) -> AsyncIterator[WebhookService]:
    """Send what is due until the block ends."""
    rules = AddressRules(settings.webhook_private_networks)
    post = HttpPost(rules, timeout_s=settings.webhook_timeout_s)
    sender = WebhookSender(
        database,
        post,
        Schedule.of(settings.webhook_retry_s, settings.webhook_disable_days),
        owner=replicas.owner,
        is_alone=replicas.is_alone,
        attempt_timeout_s=settings.webhook_timeout_s,
        now=now,
    )
    if replicas.is_alone:
        await sender.take_over()
    sending = asyncio.create_task(sender.run())
    try:
        yield WebhookService(
            database,
            audit,
            rules,
            overlap=timedelta(hours=settings.webhook_overlap_hours),
            keep=timedelta(days=settings.webhook_days),
            now=now,
        )
    finally:
        await ended([sending])
        await post.close()
