"""An inference server with vLLM's HTTP interface, on a real socket in the test's own event loop, around the fake engine.

    GET /v1/models    POST /tokenize    POST /v1/chat/completions (streams only)

Bodies are those of vLLM 0.32, recorded. It writes pieces of `piece_bytes`, cut wherever that falls, notes what it was asked, and
who left early, and does what a test has told it with `misbehave`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from engine.errors import PromptTooLong
from engine.types import (
    EngineEvent,
    Finished,
    FinishReason,
    GenerationRequest,
    Namespace,
    PromptProgress,
    RequestId,
    Role,
    SamplingParams,
    TextDelta,
    Turn,
)
from tests.support.fake_engine import FakeEngine

SAMPLING = ("max_tokens", "temperature", "top_p", "seed", "min_tokens", "ignore_eos")


@dataclass
class Asked:
    """One request for an answer. `left` is set when its client closed the connection before the end."""

    body: dict[str, Any]
    headers: dict[str, str]
    left: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one request: `after` pieces with text were sent, or before all (0).

    `status` answers with that code and `body` instead. Otherwise `error` is sent into the stream, or it stalls, or, with neither,
    the connection is cut.
    """

    after: int = 0
    status: int | None = None
    body: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    error: str = ""
    stalls: bool = False
    raw: bytes = b""


class Cut(Exception):
    """The connection goes now."""


class FakeCluster:
    """See the module. Use it as an async context."""

    def __init__(
        self,
        *,
        engine: FakeEngine | None = None,
        context_tokens: int = 2048,
        owned_by: str = "vllm",
        models: Sequence[dict[str, Any]] | None = None,
        counts: bool = True,
        early_usage: bool = True,
        key: str = "",
        piece_bytes: int = 1 << 20,
    ) -> None:
        self.engine = engine or FakeEngine(delay_s=0, context_tokens=context_tokens)
        self.asked: list[Asked] = []
        self.counted = 0
        self.looks = 0
        self.models = list(models or [{"id": "fake", "owned_by": owned_by, "max_model_len": context_tokens}])
        self.key = key
        self.is_up = True
        self._context_tokens = context_tokens
        self._counts = counts
        self._early_usage = early_usage
        self._piece_bytes = piece_bytes
        self._faults: deque[Fault] = deque()
        self._events: dict[RequestId, asyncio.Queue[EngineEvent]] = {}
        self._names = count(1)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def misbehave(self, *faults: Fault) -> None:
        """The next requests for answers end like this, in this order."""
        self._faults.extend(faults)

    async def __aenter__(self) -> FakeCluster:
        await self.engine.start(self._take)
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
        await self.engine.stop()

    async def open(self) -> None:
        """Answer at the port it had, or at a free one."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Answer nobody any more, and cut off who is being answered."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)

    def _take(self, events: Sequence[EngineEvent]) -> None:
        for event in events:
            if event.request_id in self._events:
                self._events[event.request_id].put_nowait(event)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            while (asked := await _read(reader)) is not None:
                await self._answer(asked, reader, writer)
        except (Cut, ConnectionError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._open.discard(task)
            writer.close()

    async def _answer(
        self, asked: tuple[str, dict[str, str], bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        line, headers, content = asked
        method, path, _ = line.split(" ", 2)
        body = json.loads(content) if content else {}
        if self.key and headers.get("authorization") != f"Bearer {self.key}":
            await self._say(writer, 401, {"error": "Unauthorized"})
        elif (method, path) == ("GET", "/v1/models"):
            self.looks += 1
            await self._say(writer, 200 if self.is_up else 503, {"object": "list", "data": self.models})
        elif (method, path) == ("POST", "/tokenize") and self._counts:
            self.counted += 1
            tokens = await self._tokens(body["messages"])
            await self._say(writer, 200, {"count": tokens, "max_model_len": self._context_tokens, "tokens": []})
        elif (method, path) == ("POST", "/v1/chat/completions"):
            await self._complete(Asked(body, headers), reader, writer)
        else:
            await self._say(writer, 404, {"detail": "Not Found"})

    async def _tokens(self, messages: list[dict[str, str]]) -> int:
        """Of a prompt of any length: the fake engine's own vocabulary, without its context."""
        request = GenerationRequest(RequestId("count"), _turns(messages))
        ids, _ = self.engine.memory.vocabulary.prompt(request, 1 << 40)
        return len(ids)

    async def _complete(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(asked)
        fault = self._faults.popleft() if self._faults else None
        if fault is not None and fault.status is not None:
            await self._say(writer, fault.status, fault.body, fault.headers)
            return
        body = asked.body
        request_id = RequestId(f"cmpl-{next(self._names)}")
        request = GenerationRequest(
            request_id,
            _turns(body["messages"]),
            SamplingParams(stop=tuple(body.get("stop", ())), **{name: body[name] for name in SAMPLING if name in body}),
            namespace=Namespace.user(body.get("cache_salt") or body.get("user") or ""),
        )
        events: asyncio.Queue[EngineEvent] = asyncio.Queue()
        self._events[request_id] = events
        try:
            await self.engine.submit(request)
        except PromptTooLong as problem:
            del self._events[request_id]
            message = (
                f"This model's maximum context length is {self._context_tokens} tokens. However, your prompt contains at "
                f"least {problem.prompt_tokens} input tokens, which exceeds this limit even without any output tokens. "
                f"Please reduce the length of the input prompt. (parameter=input_tokens, value={problem.prompt_tokens})"
            )
            await self._say(writer, 400, {"error": {"message": message, "type": "BadRequestError", "code": 400}})
            return
        leaving = asyncio.create_task(reader.read(1))
        try:
            await self._stream(asked, events, leaving, writer, fault)
        except ConnectionError:
            asked.left.set()
            raise
        finally:
            self.engine.cancel(request_id)
            del self._events[request_id]
            leaving.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await leaving

    async def _stream(
        self,
        asked: Asked,
        events: asyncio.Queue[EngineEvent],
        leaving: asyncio.Task[bytes],
        writer: asyncio.StreamWriter,
        fault: Fault | None,
    ) -> None:
        head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
        writer.write(head.encode())
        texts, prompt_tokens = 0, 0
        await self._go_wrong(fault, texts, leaving, asked, writer)
        async for event in self._until_left(events, leaving, asked):
            match event:
                case PromptProgress(total_tokens=total):
                    prompt_tokens = total
                    await self._event(writer, {"role": "assistant", "content": ""}, None, (prompt_tokens, 0))
                case TextDelta(text=text, output_tokens=output_tokens):
                    await self._event(writer, {"content": text}, None, (prompt_tokens, output_tokens))
                    texts += 1
                    await self._go_wrong(fault, texts, leaving, asked, writer)
                case Finished(reason=FinishReason.FAILED):
                    await self._data(writer, {"error": {"message": "EngineCore died", "code": 500}})
                    break
                case Finished(reason=reason, usage=usage):
                    await self._event(writer, {"content": ""}, reason.value, (usage.input_tokens, usage.output_tokens))
                    told = _usage(usage.input_tokens, usage.output_tokens)
                    told["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
                    await self._data(writer, {"object": "chat.completion.chunk", "choices": [], "usage": told})
                    break
        await self._chunked(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _until_left(
        self, events: asyncio.Queue[EngineEvent], leaving: asyncio.Task[bytes], asked: Asked
    ) -> AsyncIterator[EngineEvent]:
        while True:
            getting = asyncio.create_task(events.get())
            await asyncio.wait([getting, leaving], return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                getting.cancel()
                asked.left.set()
                raise Cut
            yield getting.result()

    async def _go_wrong(
        self,
        fault: Fault | None,
        texts: int,
        leaving: asyncio.Task[bytes],
        asked: Asked,
        writer: asyncio.StreamWriter,
    ) -> None:
        if fault is None or fault.after != texts:
            return
        if fault.raw:
            await self._chunked(writer, fault.raw)
        elif fault.error:
            await self._data(writer, {"error": {"message": fault.error, "type": "InternalServerError", "code": 500}})
        elif fault.stalls:
            await leaving
            asked.left.set()
        await writer.drain()
        raise Cut

    async def _event(
        self, writer: asyncio.StreamWriter, delta: dict[str, str], finish: str | None, tokens: tuple[int, int]
    ) -> None:
        body: dict[str, Any] = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": "fake",
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
        }
        if self._early_usage:
            body["usage"] = _usage(*tokens)
        await self._data(writer, body)

    async def _data(self, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        await self._chunked(writer, f"data: {json.dumps(body, ensure_ascii=False)}\n\n".encode())

    async def _chunked(self, writer: asyncio.StreamWriter, content: bytes) -> None:
        for start in range(0, len(content), self._piece_bytes):
            piece = content[start : start + self._piece_bytes]
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await writer.drain()

    async def _say(
        self,
        writer: asyncio.StreamWriter,
        status: int,
        body: dict[str, Any] | str,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        content = (body if isinstance(body, str) else json.dumps(body)).encode()
        more = "".join(f"{name}: {value}\r\n" for name, value in headers)
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{more}content-length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + content)
        await writer.drain()


async def _read(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes] | None:
    """A request: its first line, headers with small letters, and body. None when the client has gone."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    line, *rest = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (entry.partition(":") for entry in rest)}
    return line, headers, await reader.readexactly(int(headers.get("content-length", 0)))


def _turns(messages: list[dict[str, str]]) -> tuple[Turn, ...]:
    return tuple(Turn(Role(message["role"]), message["content"]) for message in messages)


def _usage(prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }
