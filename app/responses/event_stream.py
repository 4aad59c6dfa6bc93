"""The event log of one response as server-sent events: the twin of the socket, with the same frames and the same numbers.

Made by the route once the caller's right to read is known. An ASGI response of its own and not the framework's generator,
because that one neither notices a reader who has stopped reading nor reliably cleans up behind one who has left.
"""

from __future__ import annotations

import asyncio

import msgspec
from litestar.types import Receive, Scope, Send

from app.realtime.event_log import EventLog
from app.realtime.hub import Cursor, Hub
from app.realtime.sign_in_check import StillHolds, checked, end_unless_held

FRAMES_PER_CHUNK = 64
HEARTBEAT = b": still here\n\n"
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    # Tells nginx not to collect events before it passes them on.
    (b"x-accel-buffering", b"no"),
]


class _Typed(msgspec.Struct):
    type: str


_type_decoder = msgspec.json.Decoder(_Typed)


class EventStream:
    """One reader of one log. Ends behind the terminal frame, with the sign-in it was opened with, when the reader leaves, and
    when it is too slow."""

    def __init__(
        self,
        hub: Hub,
        log: EventLog,
        after: int,
        *,
        credential_id: str,
        still_holds: StillHolds,
        expires_in_s: float | None,
        heartbeat_s: float,
        send_timeout_s: float,
    ) -> None:
        self.credential_id = credential_id
        self._still_holds = still_holds
        self._hub = hub
        self._log = log
        self._after = after
        self._expires_in_s = expires_in_s
        self._heartbeat_s = heartbeat_s
        self._send_timeout_s = send_timeout_s
        self._wake = asyncio.Event()
        self._is_over = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application. 204 tells a browser whose reader has everything not to connect again."""
        if self._log.is_ended and self._after >= self._log.last_seq:
            await send({"type": "http.response.start", "status": 204, "headers": HEADERS[1:]})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        # From here on whoever ends the sign-in can end the stream; what ended before that is seen beside its first frames.
        self._hub.add_stream(self)
        checking = asyncio.create_task(end_unless_held(self, self._still_holds))
        try:
            if self._log.is_ended:
                # All of it would be sent by then, and nobody is waiting for its first word.
                await checked(checking)
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await self._follow(receive, send)
        except TimeoutError:
            # Too slow a reader. The log keeps what it has not got; it may come back with the last id it has.
            return
        finally:
            self._hub.remove_stream(self)
            await checked(checking)

    async def _follow(self, receive: Receive, send: Send) -> None:
        cursor = self._hub.read(self._log, self._after, self._wake.set)
        watch = asyncio.create_task(self._watch_reader(receive))
        expiry = None
        if self._expires_in_s is not None:
            expiry = asyncio.get_running_loop().call_later(self._expires_in_s, self.end)
        try:
            await self._stream(cursor, send)
        finally:
            cursor.close()
            watch.cancel()
            if expiry is not None:
                expiry.cancel()

    def watches(self, conversation_id: str) -> bool:
        """Whether the answer is one of that conversation."""
        return self._log.conversation_id == conversation_id

    def end(self) -> None:
        """Send nothing more: without a terminal event, so that the reader does not take it for the end of the answer."""
        self._is_over = True
        self._wake.set()

    async def _stream(self, cursor: Cursor, send: Send) -> None:
        while not self._is_over:
            self._wake.clear()
            first_seq = cursor.last_seq + 1
            if frames := cursor.take(FRAMES_PER_CHUNK):
                chunk = b"".join(_event(seq, frame) for seq, frame in enumerate(frames, first_seq))
                await self._send(send, chunk)
            elif cursor.is_exhausted:
                await self._send(send, b"", more=False)
                return
            else:
                try:
                    async with asyncio.timeout(self._heartbeat_s):
                        await self._wake.wait()
                except TimeoutError:
                    await self._send(send, HEARTBEAT)
        await self._send(send, b"", more=False)

    async def _send(self, send: Send, chunk: bytes, *, more: bool = True) -> None:
        async with asyncio.timeout(self._send_timeout_s):
            await send({"type": "http.response.body", "body": chunk, "more_body": more})

    async def _watch_reader(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end()


def _event(seq: int, frame: bytes) -> bytes:
    kind = _type_decoder.decode(frame).type
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (seq, kind.encode(), frame)
