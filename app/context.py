"""Everything the server is made of, built once per process in `open_context` and handed to whoever needs it.

Owned by the lifespan of `app.asgi`. What is opened here is closed here, in the opposite order.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from app import migrate
from app.accounts.administration import Administration
from app.accounts.authentication import Authenticator
from app.accounts.keys import KeyService
from app.accounts.oidc import OidcSignIn, Provider
from app.accounts.origins import Origins
from app.accounts.passwords import Passwords
from app.accounts.service import AccountService
from app.accounts.sign_ins import SignInService
from app.accounts.throttle import LoginThrottle
from app.accounts.visitor_accounts import VisitorAccounts
from app.admin.deletion import AccountDeletion
from app.admin.reading import MessageReading
from app.audit.service import AuditLog
from app.clock import Monotonic, Now, utc_now
from app.conversations.importing import Importing
from app.conversations.retention import Retention
from app.conversations.retention_policies import RetentionPolicies
from app.conversations.search_index import IndexUpgrade
from app.conversations.service import ConversationService
from app.conversations.titles import Titles
from app.database import Database
from app.engine_view import EngineView
from app.feedback.service import FeedbackService
from app.idempotency import Idempotency
from app.identifiers import new_id
from app.news import DomainNews
from app.openai.opening import OpenAI, open_calls
from app.operations.drain import Drain
from app.operations.health import Readiness
from app.operations.housekeeping import keep_house
from app.operations.loop_lag import watch_event_loop
from app.operations.metrics import Metrics
from app.operations.server_facts import ServerFacts
from app.operations.stats import StatsFeed
from app.operations.tracing import Tracing
from app.personas.prefixes import PersonaPrefixes
from app.personas.service import PersonaService
from app.realtime.hub import Hub
from app.replicas.opening import Replicas, open_replicas
from app.responses.opening import Responses, open_responses
from app.responses.reading import ResponseReader
from app.responses.service import TurnService
from app.service.canned import CannedAnswers
from app.service.desk import ServiceDesk
from app.service.feed import InboxFeed
from app.service.inbox import Inbox
from app.service.opening import open_service
from app.sessions.admin_service import LiveSessionService
from app.sessions.everywhere import SessionsEverywhere
from app.sessions.expiry import Expiry, expiry_told
from app.sessions.forgetting import Forgetting
from app.sessions.holding import SessionHolding
from app.sessions.service import SessionService
from app.settings import Settings
from app.sole_server import claimed_database, claimed_folder
from app.usage.counters import Counters
from app.usage.memory_counters import MemoryCounters
from app.usage.models import MODEL_MAX_CHARS
from app.usage.quotas import QuotaService
from app.usage.service import UsageService
from app.webhooks.opening import open_webhooks
from app.webhooks.service import WebhookService
from app.widgets.forgetting import VisitorForgetting
from app.widgets.service import WidgetService
from app.widgets.visitors import VisitorService
from engine.client import EngineClient

EXPIRY_INTERVAL_S = 60.0
"""How late a temporary conversation may go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppContext:
    """One server process. Each field is also a dependency of that name for routes."""

    settings: Settings
    now: Now
    monotonic: Monotonic
    engine: EngineClient
    metrics: Metrics
    stats: StatsFeed
    database: Database
    replicas: Replicas
    readiness: Readiness
    drain: Drain
    server_facts: ServerFacts
    idempotency: Idempotency
    audit: AuditLog
    quotas: QuotaService
    usage: UsageService
    accounts: AccountService
    administration: Administration
    deletion: AccountDeletion
    keys: KeyService
    sign_ins: SignInService
    oidc: OidcSignIn
    authenticator: Authenticator
    conversations: ConversationService
    importing: Importing
    retention: Retention
    retention_policies: RetentionPolicies
    reading: MessageReading
    forgetting: Forgetting
    sessions: SessionService
    live_sessions: LiveSessionService
    personas: PersonaService
    responses: Responses
    turns: TurnService
    reader: ResponseReader
    hub: Hub
    openai: OpenAI
    widgets: WidgetService
    visitors: VisitorService
    visitor_forgetting: VisitorForgetting
    holding: SessionHolding
    desk: ServiceDesk
    inbox: Inbox
    inbox_feed: InboxFeed
    canned_answers: CannedAnswers
    webhooks: WebhookService
    feedback: FeedbackService


@asynccontextmanager
async def open_context(
    settings: Settings,
    engine: EngineClient,
    metrics: Metrics,
    tracing: Tracing,
    *,
    origins: Mapping[str, str] | None = None,
    passwords: Passwords | None = None,
    now: Now = utc_now,
    monotonic: Monotonic = time.monotonic,
) -> AsyncIterator[AppContext]:
    """Migrate and open the database, build every service, start the engine; close all of it at the end.

    `origins` says where settings come from. Raises DatabaseTaken when another server has the same database and the two cannot
    share it.
    """
    async with AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, tracing.close)
        database = Database(settings.effective_database_url, pool=settings.database_pool)
        stack.push_async_callback(database.close)
        if settings.redis_url:
            stack.enter_context(claimed_folder(settings.data))
        await stack.enter_async_context(
            claimed_database(settings.effective_database_url, is_shared=bool(settings.redis_url))
        )
        await asyncio.to_thread(migrate.upgrade, settings.effective_database_url)
        if passwords is None:
            passwords = Passwords()
            stack.push_async_callback(asyncio.to_thread, passwords.close)
        # Beside the rest of the start, which would wait a tenth of a second for it; a sign-in that comes sooner does without.
        stack.push_async_callback(_cancelled, asyncio.create_task(passwords.prepare()))
        replicas = await stack.enter_async_context(open_replicas(settings.redis_url, new_id(), monotonic))
        audit = AuditLog(database, now=now)
        accounts = AccountService(database, passwords, settings, now=now, throttle=LoginThrottle(replicas.limits))
        stack.push_async_callback(accounts.keep_last_uses)
        provider = _oidc_provider(settings, now, monotonic) if settings.oidc_issuer else None
        idempotency = Idempotency(database, settings.idempotency_hours, now=now)
        readiness = Readiness(engine, database, replicas)
        quotas = QuotaService(database, settings, _counters(replicas), now=now)
        calls = await stack.enter_async_context(
            open_calls(engine, database, metrics, tracing, monotonic=monotonic, now=now)
        )
        responses = await stack.enter_async_context(
            open_responses(
                settings,
                engine,
                database,
                idempotency,
                replicas,
                quotas,
                readiness,
                metrics,
                tracing,
                calls.take,
                monotonic=monotonic,
                now=now,
            )
        )
        temporary_lifetime = timedelta(hours=settings.temporary_hours)
        conversations = ConversationService(
            database, idempotency, responses.reader, temporary_lifetime=temporary_lifetime, now=now
        )
        conversations.on_updated(responses.conversation_updated)
        conversations.on_deleted(responses.conversation_deleted)
        accounts.on_revoked(responses.hub.close_credential)
        forgetting = Forgetting(engine, conversations, accounts, responses.answers_ended)
        conversations.after_deletion(forgetting.conversation_deleted)
        stack.push_async_callback(forgetting.close)
        view = EngineView(engine, monotonic)
        prefixes = PersonaPrefixes(database, engine, view)
        personas = PersonaService(database, idempotency, audit, settings, prefixes, now=now)
        stack.push_async_callback(prefixes.close)
        importing = Importing(
            database,
            idempotency,
            settings.data / "imports",
            max_bytes=settings.import_max_mib << 20,
            max_messages=settings.import_max_messages,
            temporary_lifetime=temporary_lifetime,
            now=now,
        )
        webhooks = await stack.enter_async_context(open_webhooks(settings, database, replicas, audit, now=now))
        service = await stack.enter_async_context(
            open_service(
                settings,
                engine,
                database,
                replicas.bus,
                idempotency,
                audit,
                conversations,
                responses,
                now=now,
            )
        )
        retention = Retention(
            database, conversations, engine, responses.log_bytes, metrics, days=settings.retention_days, now=now
        )
        visitor_accounts = VisitorAccounts(accounts.revocations, now=now)
        widgets = WidgetService(database, visitor_accounts, audit, now=now)
        visitor_forgetting = VisitorForgetting(
            database, visitor_accounts, conversations, quotas, days=settings.visitor_days, now=now
        )
        administration = Administration(database, accounts, passwords, audit, now=now)
        deletion = AccountDeletion(database, administration, accounts, conversations, quotas, engine, replicas.bus)
        deletion.open()
        stack.push_async_callback(deletion.close)
        if not replicas.is_alone:
            news = DomainNews(replicas.bus, accounts, conversations, prefixes, forgetting, responses)
            news.open()
            stack.push_async_callback(news.close)
        openai = OpenAI.of(
            settings, database, engine, calls, personas, quotas, readiness, metrics, monotonic=monotonic, now=now
        )
        # The last three wait for the engine, and must keep nothing else waiting.
        chores = [
            accounts.purge,
            accounts.keep_last_uses,
            idempotency.purge,
            personas.purge,
            webhooks.purge,
            openai.responses.purge,
            visitor_forgetting.run,
            deletion.finish,
            forgetting.reconcile,
            prefixes.prepare,
            service.holding.reconcile,
        ]
        hub = responses.hub
        everywhere = SessionsEverywhere(
            replicas.bus, replicas.owner, engine, view, responses.conversation_kicked, now=now
        )
        everywhere.open()
        stack.push_async_callback(everywhere.close)
        expiry = Expiry(
            view,
            # Whoever is connected to another server is told there.
            lambda: hub.open_sockets > 0 or not replicas.is_alone,
            expiry_told(hub, replicas.bus),
            notice_s=settings.session_notice_s,
        )
        stats = StatsFeed(engine, view, metrics, hub.connections, readiness, monotonic=monotonic, now=now)
        tasks = [
            keep_house(chores),
            keep_house([retention.remove_old]),
            keep_house([retention.remove_expired], every_s=EXPIRY_INTERVAL_S),
            # Of its own, because the first time after an upgrade it may take minutes.
            keep_house([IndexUpgrade(database).run]),
            watch_event_loop(metrics.event_loop_lagged),
            stats.tick_forever(),
            expiry.watch(),
        ]
        if settings.titles == "model":
            titles = Titles(
                database,
                conversations,
                responses.side_requests.text,
                lambda: None if engine.model is None else engine.model.name[:MODEL_MAX_CHARS],
                now=now,
            )
            responses.dispatcher.on_completed(titles.answer_ended)
            tasks.append(titles.run())
        for work in tasks:
            stack.push_async_callback(_cancelled, asyncio.create_task(work))
        yield AppContext(
            settings=settings,
            now=now,
            monotonic=monotonic,
            engine=engine,
            metrics=metrics,
            stats=stats,
            database=database,
            replicas=replicas,
            readiness=readiness,
            drain=Drain(database, audit, readiness, lambda: responses.dispatcher.alive + len(calls), now=now),
            server_facts=ServerFacts(settings, origins or {}, engine, replicas, is_sqlite=database.is_sqlite, now=now),
            idempotency=idempotency,
            audit=audit,
            quotas=quotas,
            usage=UsageService(database, quotas, audit, accounts.usernames, now=now),
            accounts=accounts,
            administration=administration,
            deletion=deletion,
            keys=KeyService(database, accounts.revocations, accounts.last_uses, audit, now=now),
            oidc=OidcSignIn(database, accounts, audit, provider, settings, now=now),
            sign_ins=SignInService(database, accounts.revocations, accounts.last_uses, now=now),
            authenticator=Authenticator(accounts, Origins(settings.public_url, settings.allowed_origins), widgets),
            conversations=conversations,
            importing=importing,
            retention=retention,
            retention_policies=RetentionPolicies(database, accounts, audit, days=settings.retention_days),
            reading=MessageReading(database, conversations, accounts, audit, settings),
            forgetting=forgetting,
            sessions=SessionService(everywhere),
            live_sessions=LiveSessionService(everywhere, database, audit, accounts.usernames),
            personas=personas,
            responses=responses,
            turns=responses.turns,
            reader=responses.reader,
            hub=hub,
            openai=openai,
            widgets=widgets,
            visitor_forgetting=visitor_forgetting,
            visitors=VisitorService(
                database, visitor_accounts, conversations, quotas, replicas.limits, settings, now=now
            ),
            holding=service.holding,
            desk=service.desk,
            inbox=service.inbox,
            inbox_feed=service.feed,
            canned_answers=service.canned_answers,
            webhooks=webhooks,
            feedback=FeedbackService(database, now=now),
        )


def _oidc_provider(settings: Settings, now: Now, monotonic: Monotonic) -> Provider:
    # Imported here, because its libraries take a tenth of a second that nobody else should wait for.
    from app.accounts.oidc_provider import OidcProvider

    return OidcProvider(settings, now=now, monotonic=monotonic)


def _counters(replicas: Replicas) -> Counters:
    if replicas.link is None:
        return MemoryCounters()
    # Imported by who has a Redis, as all of its twins are.
    from app.usage.redis_counters import RedisCounters

    return RedisCounters(replicas.link, MemoryCounters())


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
