"""SIGTERM to a real process: exit code 0 in time, everything stored; a second signal ends it at once (C46)."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect

from app.clock import utc_now
from app.settings import Settings
from tests.support.client import PASSWORD, running_app
from tests.support.clock import SteppedClock
from tests.support.killable_server import KillableServer

pytestmark = pytest.mark.slow

DRAIN_S = 1.0
LONG_DRAIN_S = 60.0

PATIENCE_S = 10.0
"""What a busy machine may take on top; all of it is far less than the drain that would be waited for by mistake."""


async def token_and_conversation(data: Path, url: str) -> tuple[str, str]:
    async with running_app(data, url, clock=SteppedClock(utc_now())) as app, app.signed_in("ann") as client:
        answer = await client.post("/api/v1/auth/login", json={"username": "ann", "password": PASSWORD})
        conversation = (await client.post("/api/v1/conversations", json={})).json()["id"]
        return str(answer.json()["token"]), str(conversation)


@pytest.mark.parametrize(("words", "status"), [(100, "completed"), (100_000, "interrupted")])
async def test_sigterm_lets_answers_finish_or_keeps_what_they_have(
    tmp_path: Path, sqlite_url: str, words: int, status: str
) -> None:
    settings = Settings(data=tmp_path, database_url=sqlite_url, drain_s=DRAIN_S)
    token, conversation = await token_and_conversation(tmp_path, sqlite_url)
    headers = {"Authorization": f"Bearer {token}"}
    server = KillableServer(settings, words=words, delay_s=0.002)
    url = await server.serves()
    async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False) as client:
        async with connect(
            url.replace("http", "ws") + "/ws", additional_headers=headers, proxy=None, compression=None
        ) as socket:
            data = {"conversation_id": conversation, "content": "hello", "params": {"max_tokens": 1_000_000}}
            await socket.send(json.dumps({"type": "message.create", "data": data}))
            await socket.recv()
            began = time.monotonic()
            ending = asyncio.create_task(asyncio.to_thread(server.end, signal.SIGTERM))
            await asyncio.sleep(0.1)
            assert (await client.get("/readyz")).status_code == 503
            frames = [json.loads(text) async for text in socket]
        assert socket.close_code == 1001
    assert await ending == 0
    assert time.monotonic() - began < DRAIN_S + PATIENCE_S
    assert frames[-2]["type"] == f"response.{status}"
    assert frames[-1]["type"] == "session.closed"
    shown = "".join(frame["data"]["text"] for frame in frames if "delta" in frame["type"])
    async with (
        running_app(tmp_path, sqlite_url, clock=SteppedClock(utc_now())) as app,
        app.anonymous(**headers) as client,
    ):
        answer = await client.get(f"/api/v1/conversations/{conversation}/messages")
        message = answer.json()["items"][0]
    assert (message["status"], message["content"]) == (status, shown)


async def test_a_second_signal_ends_the_process_at_once(tmp_path: Path, sqlite_url: str) -> None:
    settings = Settings(data=tmp_path, database_url=sqlite_url, drain_s=LONG_DRAIN_S)
    token, conversation = await token_and_conversation(tmp_path, sqlite_url)
    server = KillableServer(settings, words=100_000, delay_s=0.002)
    url = await server.serves()
    async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"}, trust_env=False) as client:
        body = {"content": "hello", "params": {"max_tokens": 1_000_000}}
        answer = await client.post(f"/api/v1/conversations/{conversation}/messages", json=body)
        assert answer.status_code == 202
        first = asyncio.create_task(asyncio.to_thread(server.end, signal.SIGTERM))
        await asyncio.sleep(0.3)
        assert not first.done()
        assert (await client.get("/readyz")).status_code == 503
    began = time.monotonic()
    assert await asyncio.to_thread(server.end, signal.SIGTERM) == -signal.SIGTERM
    assert time.monotonic() - began < LONG_DRAIN_S / 2
    await first


async def test_a_server_that_does_nothing_ends_at_once(tmp_path: Path, sqlite_url: str) -> None:
    server = KillableServer(Settings(data=tmp_path, database_url=sqlite_url), words=1, delay_s=0.002)
    await server.serves()
    began = time.monotonic()
    assert await asyncio.to_thread(server.end, signal.SIGINT) == 0
    assert time.monotonic() - began < PATIENCE_S
    assert list((tmp_path / "journal").iterdir()) == []
