"""The inbox's changes as server-sent events. Made by the route once the caller is known to be an agent.

It ends with the sign-in it was opened with, when the reader leaves or is too slow, and when the server ends.
"""

from __future__ import annotations

import asyncio
import contextlib

from litestar.types import Receive, Scope, Send

from app.realtime.hub import Hub
from app.realtime.sign_in_check import StillHolds
from app.responses.event_stream import HEADERS, HEARTBEAT
from app.service.feed import InboxFeed, InboxReader

READY = b"event: ready\ndata: {}\n\n"
"""The first event: from here on nothing is missed, so that the inbox may be read now."""


class InboxStream:
    """One reader."""

    def __init__(
        self,
        hub: Hub,
        feed: InboxFeed,
        *,
        credential_id: str,
        still_holds: StillHolds,
        expires_in_s: float | None,
        heartbeat_s: float,
        send_timeout_s: float,
    ) -> None:
        self.credential_id = credential_id
        self._hub = hub
        self._feed = feed
        self._still_holds = still_holds
        self._expires_in_s = expires_in_s
        self._heartbeat_s = heartbeat_s
        self._send_timeout_s = send_timeout_s
        self._reader: InboxReader | None = None
        self._is_over = False

    def watches(self, conversation_id: str) -> bool:
        """It shows no conversation."""
        return False

    def end(self) -> None:
        """Send nothing more. Idempotent."""
        self._is_over = True
        if self._reader is not None:
            self._reader.wake()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application."""
        reader = self._reader = self._feed.open()
        # From here on whoever ends the sign-in can end the stream; what ended before that is seen now.
        self._hub.add_stream(self)
        loop = asyncio.get_running_loop()
        expiry = None if self._expires_in_s is None else loop.call_later(max(0.0, self._expires_in_s), self.end)
        watch = asyncio.create_task(self._watch_reader(receive))
        try:
            if not await self._still_holds():
                self.end()
            # Too slow a reader may come back.
            with contextlib.suppress(TimeoutError):
                await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
                await self._send(send, READY, more=True)
                await self._stream(reader, send)
        finally:
            self._hub.remove_stream(self)
            self._feed.close(reader)
            watch.cancel()
            if expiry is not None:
                expiry.cancel()

    async def _stream(self, reader: InboxReader, send: Send) -> None:
        while not self._is_over:
            try:
                async with asyncio.timeout(self._heartbeat_s):
                    events = await reader.arrived()
            except TimeoutError:
                events = HEARTBEAT
            if events and not self._is_over:
                await self._send(send, events, more=True)
        await self._send(send, b"", more=False)

    async def _send(self, send: Send, chunk: bytes, *, more: bool) -> None:
        async with asyncio.timeout(self._send_timeout_s):
            await send({"type": "http.response.body", "body": chunk, "more_body": more})

    async def _watch_reader(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end()
