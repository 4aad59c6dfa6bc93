"""The outermost layer of the app: gives every request its id, logs it in one line and counts it.

`run_with` puts it around Litestar's own handler, so that requests which find no route are seen as well:

    application.asgi_handler = RequestLog(application.asgi_handler, metrics, tracing)

The id is the caller's `X-Request-Id` where it is well formed, else a new one; it is `trace_id` in every log line, in the
scope's state and so in problem details, and comes back as a header. The line says method, path, status and duration, and
nothing else: never a query string, a header or a body.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from sys import exc_info
from typing import Any
from urllib.parse import quote

import structlog
from litestar.enums import ScopeType
from litestar.exceptions import HTTPException
from litestar.logging.config import BaseLoggingConfig
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send, WebSocketScope

from app.errors import AppError
from app.operations.metrics import Metrics
from app.operations.tracing import Tracing

WELL_FORMED_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
UNMATCHED = "(no route)"

PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
"""Asked for every few seconds by machines: in the log at debug, so that people's requests can be found at info."""

logger = structlog.stdlib.get_logger(__name__)


class RequestLog:
    """ASGI layer around the whole app. Holds no state of a request between calls."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, tracing: Tracing, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.app = app
        self._metrics = metrics
        self._tracing = tracing
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        trace_id = request_id(scope)
        scope.setdefault("state", {})["trace_id"] = trace_id
        with structlog.contextvars.bound_contextvars(trace_id=trace_id):
            if scope["type"] == ScopeType.HTTP:
                await self._http(scope, receive, send)
            else:
                await self._socket(scope, receive, send)

    async def _http(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        # Litestar replaces scope["path"], so it is read before.
        method, path, began = scope["method"], quote(scope["path"]), self._clock()
        status = 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", scope["state"]["trace_id"].encode())]
            await send(message)

        try:
            with self._tracing.request(method, scope["headers"], scope["state"]["trace_id"]) as span:
                try:
                    await self.app(scope, receive, sending)
                finally:
                    span.answered(scope.get("path_template") or UNMATCHED, status)
        finally:
            self._metrics.http_request(method, scope.get("path_template") or UNMATCHED, status)
            log = logger.debug if path in PROBES else logger.info
            log("request", method=method, path=path, status=status, duration_ms=self._milliseconds_since(began))

    async def _socket(self, scope: WebSocketScope, receive: Receive, send: Send) -> None:
        path, began = quote(scope["path"]), self._clock()
        code: int | None = None

        async def receiving() -> Any:
            nonlocal code
            message = await receive()
            if message["type"] == "websocket.disconnect" and code is None:
                code = message["code"]
            return message

        async def sending(message: Message) -> None:
            nonlocal code
            if message["type"] == "websocket.close":
                code = message["code"]
            await send(message)

        try:
            with self._tracing.request("WEBSOCKET", scope["headers"], scope["state"]["trace_id"]) as span:
                try:
                    await self.app(scope, receiving, sending)
                finally:
                    span.answered(scope.get("path_template") or UNMATCHED, code or 0)
        finally:
            logger.info("socket", path=path, close_code=code, duration_ms=self._milliseconds_since(began))

    def _milliseconds_since(self, began: float) -> float:
        return round((self._clock() - began) * 1000, 1)


class FailureLog(BaseLoggingConfig):
    """Litestar's `logging_config`: logs, with traceback, what went wrong here, and not what a caller did wrong."""

    def __init__(self) -> None:
        self.log_exceptions = "always"
        self.traceback_line_limit = -1
        self.disable_stack_trace = set()
        self.exception_logging_handler = _log_failure

    def configure(self) -> Callable[..., Any]:
        return structlog.stdlib.get_logger

    @staticmethod
    def set_level(logger: Any, level: int) -> None:
        """Levels are `configure_logging`'s business."""


def request_id(scope: Scope) -> str:
    """The caller's id for this request where it is well formed, else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and WELL_FORMED_ID.fullmatch(value):
            return value.decode()
    return uuid.uuid4().hex


def _log_failure(_logger: Any, scope: Scope, _traceback: list[str]) -> None:
    error = exc_info()[1]
    status = error.status if isinstance(error, AppError) else getattr(error, "status_code", 500)
    if isinstance(error, AppError | HTTPException) and status < 500:
        return
    if isinstance(error, AppError):
        logger.warning("refused", code=error.code, status=status)
    else:
        logger.error("failure", connection=scope["type"], exc_info=True)
