"""The application: which rooms it has. Reads like a table of contents; everything with a life of its own is in `app.context`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import Any

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.di import Provide

from app.accounts import routes as accounts
from app.accounts.authentication import AuthenticationMiddleware
from app.accounts.identity import Identity
from app.context import AppContext, open_context
from app.errors import Unauthenticated
from app.json_request import JsonRequest
from app.operations import health
from app.operations.metrics import Metrics
from app.operations.requests import RequestLog
from app.operations.routes import metrics_route
from app.problems import EXCEPTION_HANDLERS
from app.settings import Settings
from engine.client import EngineClient

JSON_OVERHEAD_BYTES = 64 * 1024
"""What a body may have beside the longest message: names, quotes, escapes."""


def create_app(settings: Settings, engine: EngineClient, **parts: Any) -> Litestar:
    """One server process's application. `parts` replace clocks and the like in tests; see `open_context`."""
    metrics = Metrics(engine.stats)

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        async with open_context(settings, engine, metrics, **parts) as context:
            app.state.context = context
            yield

    api = Router(
        "/api/v1",
        middleware=[AuthenticationMiddleware()],
        dependencies={"caller": Provide(_caller, sync_to_thread=False)},
        route_handlers=[accounts.router()],
    )
    application = Litestar(
        route_handlers=[api, health.router(), metrics_route(metrics)],
        lifespan=[lifespan],
        dependencies={field.name: _from_context(field.name) for field in fields(AppContext)},
        exception_handlers=EXCEPTION_HANDLERS,
        request_class=JsonRequest,
        request_max_body_size=settings.message_max_bytes + JSON_OVERHEAD_BYTES,
        logging_config=None,
    )
    # Around everything, so that requests which find no route have an id and a line in the log as well.
    application.asgi_handler = RequestLog(application.asgi_handler, metrics)
    return application


def _from_context(name: str) -> Provide:
    def provide(state: State) -> Any:
        return getattr(state.context, name)

    return Provide(provide, sync_to_thread=False)


def _caller(request: JsonRequest) -> Identity:
    if request.user is None:
        raise Unauthenticated("expected a bearer token or the session cookie")
    return request.user
