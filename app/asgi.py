"""The application: which rooms it has. Reads like a table of contents; everything with a life of its own is in `app.context`."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.di import Provide

from app import web
from app.accounts import key_routes as keys
from app.accounts import oidc_routes as oidc
from app.accounts import routes as accounts
from app.accounts.authentication import AuthenticationMiddleware
from app.accounts.identity import Identity
from app.accounts.passwords import Passwords
from app.admin import own_account
from app.admin import routes as admin
from app.clock import Monotonic, Now, utc_now
from app.context import AppContext, open_context
from app.conversations import retention_routes as retention
from app.conversations import routes as conversations
from app.errors import Unauthenticated
from app.feedback import routes as feedback
from app.idempotency import IdempotencyKey, IdempotentRequest, fingerprint
from app.json_request import JsonRequest
from app.openai import routes as openai
from app.openai.errors import handlers_by_surface
from app.openapi import openapi_config
from app.operations import health, server_routes, stats_routes
from app.operations.metrics import Metrics
from app.operations.requests import FailureLog, RequestLog
from app.operations.routes import metrics_exposition
from app.operations.tracing import NoTracing, Tracing
from app.personas import routes as personas
from app.responses import routes as responses
from app.responses.socket import open_socket
from app.route_guards import known_parameters_only
from app.service import routes as service
from app.sessions import admin_routes as live_sessions
from app.sessions import routes as sessions
from app.settings import Settings
from app.usage import routes as usage
from app.webhooks import routes as webhooks
from app.widgets import routes as widgets
from app.widgets import script, visitor_routes
from app.widgets.cors import WidgetCors
from engine.client import EngineClient

JSON_OVERHEAD_BYTES = 64 * 1024
"""What a body may have beside the longest message: names, quotes, escapes."""


def create_app(
    settings: Settings,
    engine: EngineClient,
    *,
    origins: Mapping[str, str] | None = None,
    passwords: Passwords | None = None,
    tracing: Tracing | None = None,
    now: Now = utc_now,
    monotonic: Monotonic = time.monotonic,
    web_folder: Path = web.WEB_FOLDER,
) -> Litestar:
    """One server process's application. Nothing happens until its lifespan begins. `origins` says where settings come from."""
    application = build_routes(settings, web_folder)
    run_with(
        application,
        settings,
        engine,
        origins=origins,
        passwords=passwords,
        tracing=tracing,
        now=now,
        monotonic=monotonic,
    )
    return application


def run_with(
    application: Litestar,
    settings: Settings,
    engine: EngineClient,
    *,
    origins: Mapping[str, str] | None = None,
    passwords: Passwords | None = None,
    tracing: Tracing | None = None,
    now: Now = utc_now,
    monotonic: Monotonic = time.monotonic,
) -> None:
    """Decide what the routes' next life is lived with. One life may follow another: the routes keep nothing of it."""
    metrics = Metrics(engine.stats, monotonic)
    tracing = tracing or NoTracing()
    application.state.open_context = partial(
        open_context,
        settings,
        engine,
        metrics,
        tracing,
        origins=origins,
        passwords=passwords,
        now=now,
        monotonic=monotonic,
    )
    routed = application.asgi_handler
    inner = routed.app if isinstance(routed, RequestLog) else routed
    application.asgi_handler = RequestLog(inner, metrics, tracing, monotonic)


@asynccontextmanager
async def _lifespan(app: Litestar) -> AsyncIterator[None]:
    async with app.state.open_context() as context:
        app.state.context = context
        yield


def build_routes(settings: Settings, web_folder: Path) -> Litestar:
    """All routes. This takes a while, and of the settings it reads only what is the same for every life of them."""
    api = Router(
        "/api/v1",
        middleware=[AuthenticationMiddleware()],
        guards=[known_parameters_only],
        dependencies={"caller": Provide(_caller, sync_to_thread=False), "idempotent": Provide(_idempotent)},
        route_handlers=[
            accounts.router(),
            admin.router(),
            own_account.router(),
            keys.router(),
            conversations.router(),
            feedback.router(),
            personas.router(),
            responses.router(),
            *service.routers(),
            retention.router(),
            sessions.router(),
            live_sessions.router(),
            stats_routes.router(),
            server_routes.router(),
            usage.router(),
            webhooks.router(),
            widgets.router(),
            visitor_routes.router(),
        ],
    )
    application = Litestar(
        route_handlers=[
            api,
            openai.router(settings, Provide(_caller, sync_to_thread=False)),
            oidc.router(),
            open_socket,
            health.router(),
            metrics_exposition,
            script.router(web_folder),
            web.router(web_folder),
        ],
        lifespan=[_lifespan],
        dependencies={field.name: _from_context(field.name) for field in fields(AppContext)},
        exception_handlers=handlers_by_surface(),
        openapi_config=openapi_config(web_folder),
        request_class=JsonRequest,
        response_headers={"X-Content-Type-Options": "nosniff"},
        request_max_body_size=settings.message_max_bytes + JSON_OVERHEAD_BYTES,
        logging_config=FailureLog(),
    )
    application.asgi_handler = WidgetCors(application.asgi_handler, lambda: application.state.context.widgets)
    return application


def _from_context(name: str) -> Provide:
    def provide(state: State) -> Any:
        return getattr(state.context, name)

    return Provide(provide, sync_to_thread=False)


def _caller(request: JsonRequest) -> Identity:
    if request.user is None:
        raise Unauthenticated("expected a bearer token or the session cookie")
    return request.user


async def _idempotent(
    request: JsonRequest,
    idempotency_key: IdempotencyKey = None,
) -> IdempotentRequest | None:
    if idempotency_key is None:
        return None
    path: str = request.scope["path"]
    mark = fingerprint(request.method, path, await request.body())
    return IdempotentRequest(_caller(request).user_id, idempotency_key, mark)
