"""CORS for widgets: which pages of other origins may read which of our answers. A layer around the whole application.

Exactly the origins of a widget, on exactly the routes below that widget which its script uses, without credentials: a page
elsewhere never acts with somebody's cookie. Everybody else is told nothing but that a widget's look is refused, which its script
would take for a lost connection and ask for again; and the routes refuse by themselves what comes all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from app.errors import Unavailable

ROUTES = re.compile(
    r"/api/v1/widgets/(?P<widget_id>[^/]+)/(?P<part>look|visitors|tickets|conversations(?:/[^/]+/messages)?)"
)
PREFLIGHT_HEADERS = [
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"authorization, content-type, idempotency-key"),
    (b"access-control-max-age", b"600"),
]
REFUSED_HEADERS = [(b"access-control-allow-origin", b"*")]


class WidgetPages(Protocol):
    """Which pages a widget is for: `service`."""

    async def allows(self, widget_id: str, origin: str) -> bool:
        """Whether pages of that origin may speak to this widget."""


class WidgetCors:
    """Holds nothing between calls. `pages` are asked for with each request, because they open with the lifespan."""

    def __init__(self, app: ASGIApp, pages: Callable[[], WidgetPages]) -> None:
        self._app = app
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = ROUTES.fullmatch(scope["path"]) if scope["type"] == ScopeType.HTTP else None
        if found is None or scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        origin = _header(scope, b"origin")
        headers = [(b"vary", b"Origin")]
        if is_allowed := origin is not None and await self._allows(found["widget_id"], origin):
            headers.append((b"access-control-allow-origin", origin.encode("latin-1")))
        if scope["method"] == "OPTIONS" and _header(scope, b"access-control-request-method") is not None:
            status = 204 if is_allowed else 403
            headers += PREFLIGHT_HEADERS if is_allowed else []
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        if is_allowed:
            headers.append((b"access-control-expose-headers", b"retry-after"))

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                is_final = origin is not None and found["part"] == "look" and message["status"] == 403
                final = REFUSED_HEADERS if is_final and not is_allowed else []
                message["headers"] = [*message["headers"], *headers, *final]
            await send(message)

        await self._app(scope, receive, sending)

    async def _allows(self, widget_id: str, origin: str) -> bool:
        try:
            return await self._pages().allows(widget_id, origin)
        except Unavailable:
            # The route says so, to whom it may concern.
            return False


def _header(scope: HTTPScope, name: bytes) -> str | None:
    values = [value for key, value in scope["headers"] if key == name]
    return values[0].decode("latin-1") if len(values) == 1 else None
