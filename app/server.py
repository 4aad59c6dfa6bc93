"""The HTTP server around the application: how it starts, and how it ends without cutting anybody off.

    SIGTERM ─► /readyz 503, new answers 503 ─► running answers finish, within drain_s ─► the rest is stored as interrupted
            ─► sockets close 1001 ─► connections close ─► lifespan ends (engine, journal, database) ─► exit code 0
    a second signal ends the process at once; what was shown is in the journal

Called by `kvasir serve` and by tests. uvicorn's own order is the wrong one for us: it closes sockets first and asks afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import structlog
import uvicorn
from litestar import Litestar
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from app.context import AppContext
from app.realtime.protocol import CloseCode
from app.settings import Settings

logger = structlog.stdlib.get_logger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM)
GOODBYE_S = 0.5
"""What sockets get to take their close in."""

KEEP_ALIVE_S = 75
"""Longer than clients and load balancers keep an unused connection (5 and 60 s are common): who closes first must be they, or a
request that is just on its way is lost."""

CONNECTIONS_S = 1
"""What is left then gets this long before it is cut."""


class SocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket protocol, except that a close does not wait for a reader who has stopped reading."""

    async def send(self, message: Any) -> None:
        """The ASGI send."""
        is_goodbye = message["type"] == "websocket.close" and self.handshake_complete and not self.close_sent
        if is_goodbye:
            self.writable.set()
        await super().send(message)
        if is_goodbye and self.close_timer is not None:
            # uvicorn's own timer would wait for the buffer to empty, which it never does for such a reader.
            self.close_timer.cancel()
            self.close_timer = self.loop.call_later(self.close_timeout, self.transport.abort)


class Server(uvicorn.Server):
    """Serves one application until it is told to end."""

    def __init__(self, application: Litestar, settings: Settings) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                host=settings.host,
                port=settings.port,
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                ws=SocketProtocol,
                ws_max_size=settings.frame_max_bytes,
                # A stream of small frames gains nothing, and each socket would hold a compressor.
                ws_per_message_deflate=False,
                ws_ping_interval=settings.heartbeat_s,
                ws_ping_timeout=settings.heartbeat_s,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=CONNECTIONS_S,
            )
        )
        self._application = application
        self._drain_s = settings.drain_s
        self._signals = 0

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let answers finish, say goodbye, and only then close."""
        if (context := self._context) is not None:
            context.readiness.drain()
            answers, calls = context.responses.dispatcher, context.openai.calls
            logger.info("draining", answers=answers.alive, calls=len(calls), seconds=self._drain_s)
            await asyncio.gather(answers.drain(self._drain_s), calls.drain(self._drain_s))
            context.hub.close_sockets(CloseCode.DRAINING, "draining")
            # Answers have ended theirs; what is left shows the server itself.
            context.hub.end_streams()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE_S):
                    await context.hub.all_sockets_closed()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ours do not go on to the default handlers afterwards: an end that was asked for is a success."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal begins the end, the second one is it."""
        self._signals += 1
        if self._signals > 1:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        if (context := self._context) is not None:
            context.readiness.drain()
        self.should_exit = True

    @property
    def _context(self) -> AppContext | None:
        """What the lifespan has opened; None before that, and when it could not."""
        return getattr(self._application.state, "context", None)
