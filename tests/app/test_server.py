"""The end of the server: nobody is cut off who can be finished, everybody is told, and nothing stays behind."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from litestar import Litestar

from app.server import Server
from app.settings import Settings
from tests.support.client import problem
from tests.support.fake_engine import FakeEngine
from tests.support.live_server import LiveServer, eventually, live_server, require_whole_log, text_of
from tests.support.scripts import ENDLESS, numbered_script


def test_who_closes_an_unused_connection_first_is_the_client(tmp_path: Path) -> None:
    """A request that is just on its way when the server closes is lost: 2 of 100 were, with the 5 seconds that httpx has, too."""
    balancers_s = 60
    server = Server(Litestar(), Settings(data=tmp_path))
    assert server.config.timeout_keep_alive > balancers_s


def told_to_end(live: LiveServer) -> None:
    """What the first signal does."""
    live.server.handle_exit(15, None)


async def test_while_it_drains_it_is_not_ready_and_takes_nothing_new(tmp_path: Path, sqlite_url: str) -> None:
    async with live_server(tmp_path, sqlite_url, drain_s=5) as live, live.person("ann") as ann:
        live.engine.queue_script(ENDLESS)
        conversation = await ann.conversation()
        async with ann.socket() as socket:
            response_id = (await socket.say(conversation, "hello"))["response_id"]
            await socket.text_arrives(response_id)
            told_to_end(live)
            assert (await ann.http.get("/readyz")).status_code == 503
            refused = await ann.http.post(f"/api/v1/conversations/{conversation}/messages", json={"content": "x"})
            problem(refused, 503, "draining")
            assert refused.headers["retry-after"] == "5"
            error = await socket.ask("message.create", conversation_id=conversation, content="x")
            assert (error["data"]["code"], error["data"]["retry_after_s"]) == ("draining", 5)
            async with live.connect(additional_headers={"Authorization": f"Bearer {ann.token}"}) as late:
                assert await late.close_code() == 1001
            # What is there may be read and stopped.
            assert (await ann.response(response_id))["status"] == "in_progress"
            await ann.http.post(f"/api/v1/responses/{response_id}/cancel")
            assert (await socket.end_of(response_id))["type"] == "response.cancelled"


async def test_running_answers_finish_before_the_sockets_close(tmp_path: Path, sqlite_url: str) -> None:
    """BerriAI/litellm#14334: every deploy cut the answers."""
    async with live_server(tmp_path, sqlite_url) as live, live.person("ann") as ann:
        live.engine.queue_script(numbered_script(100))
        async with ann.socket() as socket:
            response_id = (await socket.say(await ann.conversation(), "hello"))["response_id"]
            await socket.text_arrives(response_id)
            told_to_end(live)
            assert await socket.close_code() == 1001
        log = socket.log(response_id)
        require_whole_log(log)
        assert log[-1]["type"] == "response.completed"
        assert text_of(log) == "".join(f" word{number}" for number in range(1, 101))
        assert socket.frames[-1] == {"type": "session.closed", "data": {"reason": "draining", "code": 1001}}


async def test_what_does_not_finish_in_time_is_interrupted_with_its_text(tmp_path: Path, sqlite_url: str) -> None:
    async with live_server(tmp_path, sqlite_url, drain_s=0.3) as live, live.person("ann") as ann:
        live.engine.queue_script(ENDLESS)
        conversation = await ann.conversation()
        async with ann.socket() as socket:
            running = (await socket.say(conversation, "hello"))["response_id"]
            waiting = (await socket.say(conversation, "and?"))["response_id"]
            await socket.text_arrives(running)
            began = time.monotonic()
            told_to_end(live)
            assert await socket.close_code() == 1001
            assert time.monotonic() - began < 0.3 + 2
        for response_id in (running, waiting):
            require_whole_log(socket.log(response_id))
            assert socket.log(response_id)[-1]["type"] == "response.interrupted"
    async with live_server(tmp_path, sqlite_url) as live, live.person("bob"):
        stored = await live.context.reader.stored_log(conversation, running)
        assert stored.last_seq == len(socket.log(running))


async def test_event_streams_end_with_their_answers(tmp_path: Path, sqlite_url: str) -> None:
    async with live_server(tmp_path, sqlite_url, drain_s=0.1) as live, live.person("ann") as ann:
        live.engine.queue_script(ENDLESS)
        response_id = (await ann.say(await ann.conversation(), "hello"))["response"]["id"]
        reading = asyncio.create_task(ann.events(response_id))
        await eventually(lambda: live.context.hub.sizes()["cursors"] == 1)
        told_to_end(live)
        assert (await reading)[-1]["type"] == "response.interrupted"


async def test_it_does_not_wait_for_a_model_that_is_not_loaded(tmp_path: Path, sqlite_url: str) -> None:
    engine = FakeEngine(ready=False)
    async with live_server(tmp_path, sqlite_url, engine=engine, drain_s=30) as live, live.person("ann") as ann:
        response_id = (await ann.say(await ann.conversation(), "hello"))["response"]["id"]
        reading = asyncio.create_task(ann.events(response_id))
        await eventually(lambda: live.context.hub.sizes()["cursors"] == 1)
        began = time.monotonic()
        told_to_end(live)
        assert (await reading)[-1]["type"] == "response.interrupted"
        assert time.monotonic() - began < 5


async def test_the_second_signal_ends_at_once(tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from app import server

    async with live_server(tmp_path, sqlite_url) as live:
        raised: list[int] = []
        monkeypatch.setattr(server.signal, "signal", lambda number, handler: None)
        monkeypatch.setattr(server.signal, "raise_signal", raised.append)
        told_to_end(live)
        assert raised == []
        told_to_end(live)
        assert raised == [15]
