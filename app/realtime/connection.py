"""One open socket: reads its frames, holds its limits, and ends it with the right code.

Made by the route `/ws` once the caller is known and the upgrade is accepted. The route's own task reads, one writer task sends.
It must never let an exception out, and never leave anything behind: whatever happens, `serve` ends with the socket out of
every registry.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import structlog
from msgspec import UNSET

from app.clock import Monotonic
from app.realtime.hub import Hub
from app.realtime.incoming import BadFrame, read_frame
from app.realtime.protocol import AnyClientFrame, CloseCode
from app.realtime.socket_writer import SocketWriter
from app.realtime.token_bucket import TokenBucket

logger = structlog.stdlib.get_logger(__name__)

Receive = Callable[[], Awaitable[Any]]

BURST_S = 10
"""A burst may be what the rate allows in this many seconds: a page that reconnects says a lot at once."""


class FrameHandler(Protocol):
    """What the frames of one socket do."""

    async def handle(self, frame: AnyClientFrame) -> None:
        """Do what it asks for, and answer through the writer. What goes wrong is answered too, not raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """`idle_s` 0 means for ever; `expires_in_s` is when the sign-in ends by itself, None: never."""

    frames_per_second: float
    idle_s: float
    expires_in_s: float | None


class Connection:
    """Owns the life of one accepted socket. The hub knows it by its user and its sign-in."""

    def __init__(
        self,
        user_id: str,
        credential_id: str,
        hub: Hub,
        writer: SocketWriter,
        handler: FrameHandler,
        receive: Receive,
        limits: ConnectionLimits,
        monotonic: Monotonic,
    ) -> None:
        self.user_id = user_id
        self.credential_id = credential_id
        self._hub = hub
        self._writer = writer
        self._handler = handler
        self._receive = receive
        self._limits = limits
        self._monotonic = monotonic
        self._bucket = TokenBucket(limits.frames_per_second, limits.frames_per_second * BURST_S, monotonic)
        self._last_frame_s = monotonic()
        self._idle_timer: asyncio.TimerHandle | None = None

    def close(self, code: CloseCode, reason: str) -> None:
        """Told by the hub. What is on its way to a client goes first when the server ends, and not when a sign-in does."""
        self._writer.end(code, reason, waits=code is CloseCode.DRAINING)

    def watches(self, conversation_id: str) -> bool:
        """Whether it follows that conversation, or an answer in it."""
        return self._writer.watches(conversation_id)

    def deliver(self, frame: bytes) -> None:
        """Send this frame, beside the streams."""
        self._writer.deliver(frame)

    async def serve(self) -> None:
        """Until the socket is closed, by either side."""
        loop = asyncio.get_running_loop()
        writing = asyncio.create_task(self._write())
        expiry = None
        if self._limits.expires_in_s is not None:
            expiry = loop.call_later(self._limits.expires_in_s, self._expired)
        if self._limits.idle_s:
            self._idle_timer = loop.call_later(self._limits.idle_s, self._check_idle)
        self._hub.add_socket(self)
        try:
            await self._read()
        except OSError:
            # The other side has gone while it was written to.
            logger.debug("socket_lost", user_id=self.user_id)
        finally:
            self._hub.remove_socket(self)
            self._writer.close()
            if expiry is not None:
                expiry.cancel()
            if self._idle_timer is not None:
                self._idle_timer.cancel()
            writing.cancel()
            await asyncio.wait([writing])

    async def _read(self) -> None:
        while True:
            event = await self._receive()
            if event["type"] == "websocket.disconnect":
                return
            if event["type"] != "websocket.receive":
                continue
            self._last_frame_s = self._monotonic()
            if not self._bucket.take():
                self._writer.end(CloseCode.TOO_MANY_REQUESTS, "too many frames", waits=False)
            elif (text := event.get("text")) is None:
                self._writer.end(CloseCode.BINARY, "text frames only", waits=False)
            else:
                await self._take(text)

    async def _take(self, text: str) -> None:
        try:
            frame = read_frame(text)
        except BadFrame as problem:
            self._writer.put("error", {"code": problem.code, "message": problem.message}, reply_to=problem.reply_to)
            return
        try:
            await self._handler.handle(frame)
        except Exception:
            # One frame must not end the socket: its answers go on, and the next frame may be fine.
            logger.exception("frame_failed", kind=type(frame).__name__)
            reply_to = UNSET if frame.id is None else frame.id
            self._writer.put(
                "error", {"code": "internal_error", "message": "the server failed at this frame"}, reply_to=reply_to
            )

    async def _write(self) -> None:
        try:
            await self._writer.run()
        except OSError:
            logger.debug("socket_lost", user_id=self.user_id)
        except Exception:
            logger.exception("socket_failed", user_id=self.user_id)
            with contextlib.suppress(OSError, RuntimeError):
                await self._writer.abandon(CloseCode.INTERNAL, "the server failed")

    def _check_idle(self) -> None:
        if self._writer.is_streaming:
            self._last_frame_s = self._monotonic()
        silent_s = self._monotonic() - self._last_frame_s
        if silent_s >= self._limits.idle_s:
            self._writer.end(CloseCode.IDLE, "idle")
        else:
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(self._limits.idle_s - silent_s, self._check_idle)

    def _expired(self) -> None:
        self.close(CloseCode.UNAUTHENTICATED, "expired")
