"""A program with an API key, talking to `/v1` of an application without a port."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from app.context import AppContext
from app.openai.call import Call, CallIdentity
from app.usage.charge import Charge
from engine.types import GenerationRequest, RequestId, Role, SamplingParams, TextDelta, ToolCallDelta, Turn
from tests.support.client import RunningApp, running_app
from tests.support.clock import SteppedClock
from tests.support.fake_engine import FakeEngine
from tests.support.scripts import Script

Body = dict[str, Any]
ID = RequestId("a")


@dataclass
class Program:
    """Somebody's key, and the engine in the test's hand."""

    running: RunningApp
    http: httpx.AsyncClient

    @property
    def engine(self) -> FakeEngine:
        assert isinstance(self.running.engine, FakeEngine)
        return self.running.engine

    @property
    def context(self) -> AppContext:
        return self.running.context

    def will_say(self, *scripts: Script) -> None:
        self.engine.queue_script(*scripts)

    async def try_to_complete(self, messages: list[Body] | str = "hello", **more: Any) -> httpx.Response:
        """Ask for a chat completion. `headers` are those of the request, everything else is in the body."""
        headers = more.pop("headers", {})
        if isinstance(messages, str):
            messages = [user(messages)]
        body = {"model": "fake", "messages": messages} | more
        return await self.http.post("/v1/chat/completions", json=body, headers=headers)

    async def complete(self, messages: list[Body] | str = "hello", **more: Any) -> Body:
        """A whole answer."""
        answer = await self.try_to_complete(messages, **more)
        assert answer.status_code == 200, answer.text
        body: Body = answer.json()
        return body

    async def stream(self, messages: list[Body] | str = "hello", **more: Any) -> list[Body]:
        """Every chunk of a streamed answer; the end mark was there."""
        answer = await self.try_to_complete(messages, stream=True, **more)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        return events(answer.text)

    async def usage(self) -> Body:
        """What the account has used, when everything that has ended is written down."""
        await self.context.openai.calls.records.written()
        totals: Body = (await self.http.get("/api/v1/me/usage")).json()["totals"]
        return totals


def user(text: str) -> Body:
    return {"role": "user", "content": text}


def assistant(text: str) -> Body:
    return {"role": "assistant", "content": text}


def events(text: str) -> list[Body]:
    """The JSON of server-sent events, which end with the mark."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def text_of(chunks: list[Body]) -> str:
    return "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])


def error(answer: httpx.Response, status: int, code: str, param: str | None = None) -> Body:
    """The error an answer must be, in OpenAI's form."""
    assert answer.headers["content-type"] == "application/json", answer.text
    body: Body = answer.json()
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"message", "type", "param", "code"}
    found = (answer.status_code, body["error"]["code"], body["error"]["param"])
    assert found == (status, code, param), body
    assert "Traceback" not in answer.text
    error_body: Body = body["error"]
    return error_body


@asynccontextmanager
async def program_of(running: RunningApp, username: str, keys: int = 1) -> AsyncIterator[list[Program]]:
    """So many keys of one account that is made for it."""
    async with running.signed_in(username) as person:
        programs = []
        for number in range(keys):
            made = await person.post("/api/v1/keys", json={"name": f"key {number}"})
            assert made.status_code == 201, made.text
            headers = {"Authorization": f"Bearer {made.json()['key']}"}
            transport = httpx.ASGITransport(running.app, raise_app_exceptions=False, client=("192.0.2.1", 50000))
            http = httpx.AsyncClient(transport=transport, base_url=str(person.base_url), headers=headers)
            programs.append(Program(running, http))
        try:
            yield programs
        finally:
            for program in programs:
                await program.http.aclose()


@asynccontextmanager
async def open_program(data: Path, database_url: str, **options: Any) -> AsyncIterator[Program]:
    """An application whose engine steps by itself, unless the test brings another, and one key."""
    options = {"engine": FakeEngine(delay_s=0), **options}
    async with running_app(data, database_url, **options) as running, program_of(running, "ann") as programs:
        yield programs[0]


def call_that_said(*deltas: TextDelta | ToolCallDelta, top_logprobs: int | None = None) -> Call:
    """A call that nobody is charged for, and what has come of it."""
    identity = CallIdentity(
        id="chatcmpl-1", model="m", fingerprint="fp", created_at=SteppedClock().now(), credential_id="c"
    )
    request = GenerationRequest(ID, (Turn(Role.USER, "hi"),), SamplingParams(top_logprobs=top_logprobs))
    charge: Charge = None  # type: ignore[assignment]  # nobody charges here
    call = Call(identity, request, charge, 0.0)
    for delta in deltas:
        call.add(delta)
    return call
