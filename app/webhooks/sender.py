"""Brings events to endpoints: one task per server, woken by commits and by the clock, with attempts of its own beside each other.

Several servers share the queue in SQL. Each claims what it sends for a while, so one sends; of one that dies in between the claim
runs out, and another sends it again under the same id: at least once, and to whoever looks at the id exactly once. One slow
endpoint has a few attempts at a time, and keeps nobody else waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from datetime import datetime, timedelta

import structlog

from app.clock import Now
from app.database import Database, DatabaseAway
from app.webhooks import queries
from app.webhooks.models import ERROR_MAX_CHARS, DeliveryStatus
from app.webhooks.outbox import WRITTEN
from app.webhooks.posting import Attempted, Post
from app.webhooks.queries import Claimed
from app.webhooks.schedule import GONE, Schedule
from app.webhooks.signing import signed_headers

logger = structlog.stdlib.get_logger(__name__)

AT_ONCE = 32
AT_ONCE_PER_ENDPOINT = 4
LOOK_S = 5.0
"""How often a server that has others beside it looks: they may have written something, or have died."""

AWAY_S = 5.0
"""After how long a database that was away is asked again."""

CLAIM_EXTRA = timedelta(seconds=30)
"""How much longer than one attempt may take a claim holds: what came of it has to be written, too."""


class WebhookSender:
    """Owns the attempts that this server makes now."""

    def __init__(
        self,
        database: Database,
        post: Post,
        schedule: Schedule,
        *,
        owner: str,
        is_alone: bool,
        attempt_timeout_s: float,
        now: Now,
    ) -> None:
        self._database = database
        self._post = post
        self._schedule = schedule
        self._owner = owner
        self._look_s = None if is_alone else LOOK_S
        self._claim = timedelta(seconds=attempt_timeout_s) + CLAIM_EXTRA
        self._now = now
        self._wake = asyncio.Event()
        self._attempts: dict[asyncio.Task[None], str] = {}
        database.on_committed(WRITTEN, self._wake.set)

    def __len__(self) -> int:
        return len(self._attempts)

    async def run(self) -> None:
        """Until cancelled; attempts that are under way are given up with it, and made again by whoever comes next."""
        try:
            while True:
                pause_s: float | None = AWAY_S
                try:
                    pause_s = await self.send_due()
                except DatabaseAway as away:
                    logger.info("webhooks_wait", error=str(away))
                except Exception:
                    logger.exception("webhooks_failed")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._wake.wait()
                self._wake.clear()
        finally:
            for attempt in (open_attempts := list(self._attempts)):
                attempt.cancel()
            if open_attempts:
                await asyncio.wait(open_attempts)

    async def take_over(self) -> None:
        """No other server sends: what a former life of this one had claimed is sent now, and not when the claim runs out."""
        async with self._database.write() as session:
            await queries.release_claims(session)

    async def send_due(self) -> float | None:
        """Begin every attempt that is due and has room; seconds until somebody has to look again, None for not by itself."""
        while room := AT_ONCE - len(self._attempts):
            now = self._now()
            per_endpoint = Counter(self._attempts.values())
            busy = [endpoint for endpoint, count in per_endpoint.items() if count >= AT_ONCE_PER_ENDPOINT]
            async with self._database.read() as session:
                due = await queries.due(session, now, busy=busy, limit=room)
            begun = 0
            for delivery_id, webhook_id in due:
                if per_endpoint[webhook_id] < AT_ONCE_PER_ENDPOINT:
                    per_endpoint[webhook_id] += 1
                    begun += await self._begin(delivery_id, now)
            if not begun:
                return await self._pause_s(now)
        # Whoever ends wakes the next one.
        return self._look_s

    async def settled(self) -> None:
        """Return when no attempt is under way."""
        while self._attempts:
            await asyncio.wait(list(self._attempts))

    async def _begin(self, delivery_id: str, now: datetime) -> bool:
        async with self._database.write() as session:
            claimed = await queries.claim(session, delivery_id, owner=self._owner, now=now, until=now + self._claim)
        if claimed is None:
            return False
        attempt = asyncio.create_task(self._attempt(claimed))
        self._attempts[attempt] = claimed.webhook_id
        attempt.add_done_callback(self._done)
        return True

    def _done(self, attempt: asyncio.Task[None]) -> None:
        del self._attempts[attempt]
        self._wake.set()

    async def _attempt(self, claimed: Claimed) -> None:
        attempted = await self._posted(claimed)
        while True:
            try:
                await self._keep(claimed, attempted)
                return
            except DatabaseAway as away:
                # Otherwise it would be sent again although it was taken.
                await asyncio.sleep(away.retry_after_s)
            except Exception:
                logger.exception("delivery_not_kept", delivery_id=claimed.delivery_id)
                return

    async def _posted(self, claimed: Claimed) -> Attempted:
        """Whatever goes wrong on the way is a failure like others: it is written down, and tried again in its time."""
        try:
            timestamp_s = int(self._now().timestamp())
            headers = signed_headers(claimed.event_id, timestamp_s, claimed.payload, claimed.secrets)
            return await self._post(claimed.url, headers, claimed.payload)
        except Exception as problem:
            logger.exception("webhook_attempt_failed", delivery_id=claimed.delivery_id)
            # What it says may be about a secret: whoever looks into deliveries gets its kind.
            return Attempted(error=f"an unexpected {type(problem).__name__}, see the server's log")

    async def _keep(self, claimed: Claimed, attempted: Attempted) -> None:
        """Write down what came of an attempt."""
        now = self._now()
        async with self._database.write() as session:
            webhook = await queries.webhook_if_there(session, claimed.webhook_id)
            delivery = await queries.claimed_delivery(session, claimed.delivery_id, self._owner)
            if webhook is None or delivery is None:
                return
            delivery.attempts += 1
            delivery.claimed_by = delivery.claimed_until = None
            delivery.last_status_code = attempted.status_code
            delivery.last_error = _error_of(attempted)
            if attempted.is_taken:
                delivery.status, delivery.delivered_at = DeliveryStatus.DELIVERED, now
                webhook.failing_since = None
                return
            webhook.failing_since = webhook.failing_since or now
            next_attempt = self._schedule.next_attempt(delivery.attempts, now, attempted.retry_after_s)
            if next_attempt is None or attempted.status_code == GONE:
                delivery.status = DeliveryStatus.DEAD
            else:
                delivery.next_attempt_at = next_attempt
            if attempted.status_code == GONE:
                webhook.enabled, webhook.disabled_reason = False, "it answered 410 Gone"
            elif webhook.enabled and self._schedule.gives_up(webhook.failing_since, now):
                webhook.enabled = False
                webhook.disabled_reason = f"it has taken nothing since {webhook.failing_since:%Y-%m-%d %H:%M} UTC"
        logger.warning(
            "webhook_not_taken",
            webhook_id=claimed.webhook_id,
            event_id=claimed.event_id,
            status=attempted.status_code,
            error=attempted.error,
        )

    async def _pause_s(self, now: datetime) -> float | None:
        async with self._database.read() as session:
            next_due = await queries.next_due_at(session, now)
        times = [self._look_s, None if next_due is None else (next_due - now).total_seconds()]
        return min((time for time in times if time is not None), default=None)


def _error_of(attempted: Attempted) -> str | None:
    if attempted.is_taken:
        return None
    return (attempted.error or f"HTTP {attempted.status_code}")[:ERROR_MAX_CHARS]
