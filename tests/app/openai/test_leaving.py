"""Clients that leave or lose their key, and a server that ends: the engine's answer ends with them, and is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.app.openai.surface import open_program, user
from tests.support.fake_engine import FakeEngine
from tests.support.live_server import PATIENCE_S, LiveServer, eventually, eventually_equal, live_server
from tests.support.scripts import ENDLESS

BODY = {"model": "fake", "messages": [user("hello")], "max_tokens": 1000}


@dataclass
class Key:
    """A program on a server with a port, and the person whose key it has."""

    server: LiveServer
    person: httpx.AsyncClient
    http: httpx.AsyncClient
    id: str

    async def used(self, name: str) -> int:
        count: int = (await self.person.get("/api/v1/me/usage")).json()["totals"][name]
        return count


@asynccontextmanager
async def key_on(server: LiveServer) -> AsyncIterator[Key]:
    async with server.person("ann") as ann:
        made = (await ann.http.post("/api/v1/keys", json={"name": "bot"})).json()
        headers = {"Authorization": f"Bearer {made['key']}"}
        async with httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False) as http:
            yield Key(server, ann.http, http, made["id"])


def engine() -> FakeEngine:
    return FakeEngine(delay_s=0.001, answer=lambda request: ENDLESS, context_tokens=1_000_000)


@pytest.mark.parametrize("stream", [True, False])
async def test_who_leaves_cancels_the_answer_and_it_is_counted(tmp_path: Path, sqlite_url: str, stream: bool) -> None:
    async with live_server(tmp_path, sqlite_url, engine=engine()) as server, key_on(server) as key:
        calls = server.context.openai.calls
        asking = asyncio.create_task(
            key.http.post("/v1/chat/completions", json=BODY | {"stream": stream, "max_tokens": 100_000})
        )
        await eventually(lambda: len(calls) == 1 and server.engine.stats().decoded_tokens_total > 3)
        asking.cancel()
        await eventually(lambda: len(calls) == 0)
        assert server.engine.cancelled == [server.engine.requests[0].request_id]
        await eventually_equal(lambda: key.used("cancelled"), 1)
        assert await key.used("output_tokens") > 3
        assert server.engine.stats().running_requests == 0
        await eventually(lambda: server.context.hub.sizes()["event_streams"] == 0)
        assert calls.sizes() == {"calls": 0, "settling_calls": 0}


async def test_a_revoked_key_ends_what_it_has_open(tmp_path: Path, sqlite_url: str) -> None:
    """Also where the answer is waited for as a whole."""
    async with live_server(tmp_path, sqlite_url, engine=engine()) as server, key_on(server) as key:
        asking = [
            asyncio.create_task(
                key.http.post("/v1/chat/completions", json=BODY | {"stream": stream, "max_tokens": 100_000})
            )
            for stream in (True, False)
        ]
        await eventually(lambda: server.engine.stats().running_requests == 2)
        (await key.person.delete(f"/api/v1/keys/{key.id}")).raise_for_status()
        streamed, whole = await asyncio.gather(*asking)
        assert streamed.status_code == 200
        assert '"code":"interrupted"' in streamed.text
        assert "[DONE]" not in streamed.text
        assert (whole.status_code, whole.json()["error"]["code"]) == (503, "interrupted")
        await eventually_equal(lambda: key.used("cancelled"), 2)


async def test_a_server_that_ends_lets_answers_finish_and_cuts_the_rest_off(tmp_path: Path, sqlite_url: str) -> None:
    by_hand = FakeEngine(answer=lambda request: ENDLESS)
    async with open_program(tmp_path, sqlite_url, engine=by_hand) as program:
        calls = program.context.openai.calls
        short = asyncio.create_task(program.try_to_complete(max_tokens=3))
        long = asyncio.create_task(program.try_to_complete(stream=True))
        await by_hand.received(2)
        draining = asyncio.create_task(calls.drain(PATIENCE_S))
        by_hand.advance(5)
        assert (await short).json()["choices"][0]["finish_reason"] == "length"
        assert not draining.done()
        draining.cancel()
        await calls.drain(0)
        assert '"code":"interrupted"' in (await long).text
        used = await program.usage()
        assert (used["incomplete"], used["interrupted"]) == (1, 1)


async def test_a_silent_stream_is_kept_alive(tmp_path: Path, sqlite_url: str) -> None:
    silent = FakeEngine(delay_s=None)
    async with live_server(tmp_path, sqlite_url, engine=silent, sse_heartbeat_s=0.01) as server, key_on(server) as key:
        asking = key.http.stream("POST", "/v1/chat/completions", json=BODY | {"stream": True})
        async with asking as answer:
            lines = answer.aiter_lines()
            while await anext(lines) != ": still here":
                pass
            silent.advance_to_end()
            rest = [line async for line in lines]
        assert rest[-2:] == ["data: [DONE]", ""] or rest[-1] == "data: [DONE]"
