"""The client behind a call, as an ASGI application: it is given the answer, and when it goes away the call is cancelled.

Made by the routes once the engine has the call. Like `app.responses.event_stream` an application of its own, because the
framework neither notices a reader who has stopped reading nor one who has left while nothing is sent.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec
from litestar.types import Receive, Scope, Send

from app.openai.call import Call, Said
from app.openai.calls import Calls
from app.openai.completion import failure_of
from app.openai.errors import ErrorAnswer, error_body
from app.realtime.hub import Hub
from app.realtime.sign_in_check import StillHolds, checked, end_unless_held
from engine.types import Finished

HEARTBEAT = b": still here\n\n"
STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    # Tells nginx not to collect events before it passes them on.
    (b"x-accel-buffering", b"no"),
]
JSON_HEADERS = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]


class Chunks(Protocol):
    """How a stream of one kind is written."""

    def opening(self) -> bytes:
        """What comes before the answer."""

    def more(self, said: Said) -> bytes:
        """More of the answer."""

    def ending(self, finished: Finished) -> bytes:
        """What comes behind it."""

    def failure(self, answer: ErrorAnswer) -> bytes:
        """In the place of an ending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What readers need beside their call."""

    calls: Calls
    hub: Hub
    still_holds: StillHolds
    expires_in_s: float | None
    heartbeat_s: float
    send_timeout_s: float


class Reader(ABC):
    """Ends with the answer, with the key, when the client leaves, and when it is too slow."""

    def __init__(self, call: Call, reading: Reading) -> None:
        self.call = call
        self.reading = reading
        self.is_over = False

    @property
    def credential_id(self) -> str:
        return self.call.identity.credential_id

    def watches(self, conversation_id: str) -> bool:
        """It shows no conversation."""
        return False

    def end(self) -> None:
        """The client has left, its key is revoked, or the server ends. Idempotent."""
        self.is_over = True
        self.call.wake()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application."""
        reading = self.reading
        watch = asyncio.create_task(self._watch_client(receive))
        expiry = None
        if reading.expires_in_s is not None:
            expiry = asyncio.get_running_loop().call_later(reading.expires_in_s, self.end)
        # From here on whoever ends the key can end the call; what ended before that is seen beside its first words.
        reading.hub.add_stream(self)
        checking = asyncio.create_task(end_unless_held(self, reading.still_holds))
        try:
            await self.answer(send)
        except TimeoutError:
            # Too slow a reader.
            return
        finally:
            reading.calls.cancel(self.call)
            reading.hub.remove_stream(self)
            watch.cancel()
            if expiry is not None:
                expiry.cancel()
            await checked(checking)

    @abstractmethod
    async def answer(self, send: Send) -> None:
        """Send everything. Raises TimeoutError when nobody takes it."""

    async def send(self, send: Send, body: bytes, *, more: bool) -> None:
        """One piece of the body, within the time a reader has for it."""
        async with asyncio.timeout(self.reading.send_timeout_s):
            await send({"type": "http.response.body", "body": body, "more_body": more})

    async def _watch_client(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end()


class WholeReader(Reader):
    """Gets one JSON object when the answer is done."""

    def __init__(self, call: Call, reading: Reading, body_of: Callable[[Call, Finished], msgspec.Struct]) -> None:
        super().__init__(call, reading)
        self._body_of = body_of

    async def answer(self, send: Send) -> None:
        call = self.call
        while call.finished is None and not self.is_over:
            await call.changed()
        if call.finished is None:
            status, body = 503, msgspec.json.encode(cut_off())
        elif not call.has_answer:
            status, failure = failure_of(call.finished)
            body = msgspec.json.encode(failure)
        else:
            status, body = 200, msgspec.json.encode(self._body_of(call, call.finished))
        await send({"type": "http.response.start", "status": status, "headers": JSON_HEADERS})
        await self.send(send, body, more=False)


class StreamReader(Reader):
    """Gets server-sent events while the answer is made. What comes while it reads is sent as one piece."""

    def __init__(self, call: Call, reading: Reading, chunks: Chunks) -> None:
        super().__init__(call, reading)
        self._chunks = chunks

    async def answer(self, send: Send) -> None:
        call, chunks = self.call, self._chunks
        await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        await self.send(send, chunks.opening(), more=True)
        while not self.is_over:
            said = call.take()
            piece = chunks.more(said) if said is not None else b""
            if call.finished is not None:
                ending = chunks.ending if call.has_answer else self._failure
                await self.send(send, piece + ending(call.finished), more=False)
                return
            if piece:
                await self.send(send, piece, more=True)
                continue
            try:
                async with asyncio.timeout(self.reading.heartbeat_s):
                    await call.changed()
            except TimeoutError:
                await self.send(send, HEARTBEAT, more=True)
        await self.send(send, chunks.failure(cut_off()), more=False)

    def _failure(self, finished: Finished) -> bytes:
        return self._chunks.failure(failure_of(finished)[1])


def cut_off() -> ErrorAnswer:
    """The answer was not done when its reader's time was over."""
    return error_body(503, "the answer was ended by the server before it was done", code="interrupted")
