"""The server's state as server-sent events, once a second. Made by the route once the caller is known to be an administrator.

A slow reader skips seconds and holds nobody up. It ends with the sign-in it was opened with, when the reader leaves, and when the
server ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from litestar.types import Receive, Scope, Send

from app.realtime.hub import Hub
from app.realtime.sign_in_check import StillHolds

PERIOD_S = 1.0
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    # Tells nginx not to collect events before it passes them on.
    (b"x-accel-buffering", b"no"),
]


class StatsStream:
    """One reader."""

    def __init__(
        self,
        hub: Hub,
        encoded: Callable[[], Awaitable[bytes]],
        *,
        credential_id: str,
        still_holds: StillHolds,
        expires_in_s: float | None,
        send_timeout_s: float,
    ) -> None:
        self.credential_id = credential_id
        self._hub = hub
        self._encoded = encoded
        self._still_holds = still_holds
        self._expires_in_s = expires_in_s
        self._send_timeout_s = send_timeout_s
        self._over = asyncio.Event()

    def watches(self, conversation_id: str) -> bool:
        """It shows no conversation."""
        return False

    def end(self) -> None:
        """Send nothing more. Idempotent."""
        self._over.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application."""
        loop = asyncio.get_running_loop()
        expiry = None if self._expires_in_s is None else loop.call_later(max(0.0, self._expires_in_s), self.end)
        watch = asyncio.create_task(self._watch_reader(receive))
        # From here on whoever ends the sign-in can end the stream; what ended before that is seen now.
        self._hub.add_stream(self)
        try:
            if not await self._still_holds():
                self.end()
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            while not self._over.is_set():
                await self._send(send, b"event: stats\ndata: %s\n\n" % await self._encoded(), more=True)
                try:
                    async with asyncio.timeout(PERIOD_S):
                        await self._over.wait()
                except TimeoutError:
                    continue
            await self._send(send, b"", more=False)
        except TimeoutError:
            # Too slow a reader; it may come back.
            return
        finally:
            self._hub.remove_stream(self)
            watch.cancel()
            if expiry is not None:
                expiry.cancel()

    async def _send(self, send: Send, chunk: bytes, *, more: bool) -> None:
        async with asyncio.timeout(self._send_timeout_s):
            await send({"type": "http.response.body", "body": chunk, "more_body": more})

    async def _watch_reader(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end()
