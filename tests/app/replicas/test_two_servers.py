"""Two servers on one PostgreSQL and one Redis: any of them serves anybody, whoever makes the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from app.accounts.models import UserRole
from app.database import Database
from tests.app.replicas.deployment import Deployment, deployed
from tests.support.fake_engine import FakeEngine
from tests.support.live_server import eventually, eventually_equal, require_whole_log, text_of
from tests.support.redis_server import RedisServer
from tests.support.scripts import numbered_script

pytestmark = pytest.mark.postgres

WORDS = 60


def wordy(words: int = WORDS, delay_s: float = 0.005) -> FakeEngine:
    return FakeEngine(delay_s=delay_s, answer=lambda request: numbered_script(words))


@pytest.fixture
async def pair(tmp_path: Path, postgres_url: str, redis_server: RedisServer) -> AsyncIterator[Deployment]:
    engines = [wordy(), wordy()]
    async with deployed(tmp_path, postgres_url, redis_server.url, engines=engines, heartbeat_s=5) as servers:
        yield servers
    redis_server.empty()


async def test_an_answer_is_followed_on_the_other_server_by_socket_and_by_events(pair: Deployment) -> None:
    here, there = pair.people
    conversation = await here.conversation()
    async with there.socket() as socket:
        await socket.ask("conversation.subscribe", conversation_id=conversation)
        body = await here.say(conversation, "hello")
        response_id = body["response"]["id"]
        events = asyncio.create_task(there.events(response_id))
        end = await socket.end_of(response_id)
    assert end["type"] == "response.completed"
    frames = socket.log(response_id)
    require_whole_log(frames)
    assert frames == await events == await here.events(response_id) == await there.events(response_id)
    assert text_of(frames) == (await there.messages(conversation))[-1]["content"]
    assert "message.created" in [frame["type"] for frame in socket.frames]


async def test_a_socket_that_moves_to_the_other_server_goes_on_in_the_middle(pair: Deployment) -> None:
    """danny-avila/LibreChat#13117: another process took the second answer for the first and dropped it. Two turns, so."""
    here, there = pair.people
    conversation = await here.conversation()
    for _ in range(2):
        async with here.socket() as socket:
            response_id = (await socket.say(conversation, "hello"))["response_id"]
            await socket.text_arrives(response_id, 3)
            first = socket.log(response_id)
        async with there.socket(hello=False) as socket:
            await socket.hello(resume=[(response_id, first[-1]["seq"])])
            await socket.end_of(response_id)
            frames = first + socket.log(response_id)
        require_whole_log(frames)
        assert text_of(frames) == (await there.messages(conversation))[-1]["content"]


async def test_stopping_on_the_other_server_works_at_once_and_keeps_what_was_shown(pair: Deployment) -> None:
    """open-webui/open-webui#14340: the process that was asked knew of no such task."""
    here, there = pair.people
    pair.servers[0].engine.queue_script(numbered_script(100_000))
    conversation = await here.conversation()
    async with here.socket() as socket:
        response_id = (await socket.say(conversation, "hello"))["response_id"]
        await socket.text_arrives(response_id, 3)
        answer = await there.http.post(f"/api/v1/responses/{response_id}/cancel")
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
        again = await there.http.post(f"/api/v1/responses/{response_id}/cancel")
        assert again.json()["usage"] == answer.json()["usage"]
        await socket.end_of(response_id)
    assert text_of(socket.log(response_id)) == (await there.messages(conversation))[-1]["content"]


async def test_who_watches_on_the_other_server_counts_where_unwatched_answers_end(
    tmp_path: Path, postgres_url: str, redis_server: RedisServer
) -> None:
    engines = [wordy(100_000), wordy()]
    cancel = {"on_disconnect": "cancel", "disconnect_grace_s": 0.5}
    async with deployed(tmp_path, postgres_url, redis_server.url, engines=engines, **cancel) as servers:
        here, there = servers.people
        conversation = await here.conversation()
        async with there.socket(hello=False) as other:
            async with here.socket() as socket:
                response_id = (await socket.say(conversation, "hello"))["response_id"]
                await socket.text_arrives(response_id)
                await other.hello(resume=[(response_id, 0)])
                await other.text_arrives(response_id)
                await eventually(lambda: response_id in servers.context(0).responses.unwatched._elsewhere)
            before = len(other.log(response_id))
            await other.text_arrives(response_id, before + 40)
            assert (await here.response(response_id))["status"] == "in_progress"
        await eventually_equal(lambda: status(here, {"response": {"id": response_id}}), "cancelled")
    redis_server.empty()


async def test_a_wish_to_stop_that_is_lost_on_its_way_is_found_in_sql(
    pair: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = pair.people
    pair.servers[0].engine.queue_script(numbered_script(100_000))
    conversation = await here.conversation()
    body = await here.say(conversation, "hello")
    monkeypatch.setattr(pair.context(1).replicas.bus, "publish", lambda *_, **__: None)
    await there.http.post(f"/api/v1/responses/{body['response']['id']}/cancel")
    await eventually_equal(lambda: status(here, body), "cancelled")


async def test_turns_of_one_conversation_are_answered_one_after_the_other_whoever_takes_them(pair: Deployment) -> None:
    here, there = pair.people
    conversation = await here.conversation()
    bodies = [await person.say(conversation, f"turn {n}") for n, person in enumerate([here, there, here, there])]
    for body in bodies:
        await eventually_equal(lambda body=body: status(there, body), "completed")  # type: ignore[misc]
    states = [await here.response(body["response"]["id"]) for body in bodies]
    for earlier, later in pairwise(states):
        assert earlier["ended_at"] <= later["started_at"]
    messages = await there.messages(conversation)
    assert [message["role"] for message in messages] == ["user", "assistant"] * 4


async def test_what_is_deleted_on_one_server_is_stopped_and_forgotten_on_the_other(pair: Deployment) -> None:
    here, there = pair.people
    engine = pair.servers[0].engine
    conversation = await here.conversation()
    body = await here.say(conversation, "hello")
    await eventually_equal(lambda: status(here, body), "completed")
    assert (await here.http.get("/api/v1/sessions")).json()["items"]
    engine.queue_script(numbered_script(100_000))
    async with there.socket() as socket:
        await socket.ask("conversation.subscribe", conversation_id=conversation)
        running = await here.say(conversation, "again")
        await socket.text_arrives(running["response"]["id"])
        assert (await there.http.delete(f"/api/v1/conversations/{conversation}")).status_code == 204
        end = await socket.end_of(running["response"]["id"])
    assert end["type"] == "response.cancelled"
    await eventually(lambda: not engine.memory.session_states())


async def test_signing_out_on_one_server_closes_sockets_of_the_other(pair: Deployment) -> None:
    here, there = pair.people
    async with there.socket() as socket:
        assert (await here.http.post("/api/v1/auth/logout")).status_code == 204
        assert await socket.close_code() == 4001
    assert (await there.http.get("/api/v1/me")).status_code == 401


async def test_a_ticket_of_one_server_opens_one_socket_of_any(pair: Deployment) -> None:
    here, there = pair.people
    ticket = (await here.http.post("/api/v1/auth/tickets")).json()["ticket"]
    async with there.server.connect(f"?ticket={ticket}") as socket:
        await socket.hello()
    async with here.server.connect(f"?ticket={ticket}") as socket:
        assert await socket.close_code() == 4001


async def test_a_request_that_is_repeated_at_the_other_server_is_done_once(pair: Deployment) -> None:
    here, there = pair.people
    answers = await asyncio.gather(
        *(
            person.http.post("/api/v1/conversations", json={}, headers={"Idempotency-Key": "k"})
            for person in (here, there)
        )
    )
    assert answers[0].json() == answers[1].json()
    conversation = answers[0].json()["id"]
    said = await asyncio.gather(
        *(person.say(conversation, "hello", client_message_id="m") for person in (here, there, here, there))
    )
    assert len({body["response"]["id"] for body in said}) == 1
    assert len(await there.messages(conversation)) == 2


async def test_a_personas_prompt_is_changed_for_all_servers_at_once(
    tmp_path: Path, postgres_url: str, redis_server: RedisServer
) -> None:
    """open-webui/open-webui#18366: the other processes kept the old value until they were restarted."""
    async with deployed(tmp_path, postgres_url, redis_server.url, role=UserRole.ADMIN) as servers:
        here, there = servers.people
        persona = {"name": "p", "system_prompt": "be brief"}
        assert (await here.http.post("/api/v1/personas", json=persona)).status_code == 201
        engine = servers.servers[1].engine
        await eventually(lambda: len(engine.memory.prefix_states()) == 1)
        before = engine.memory.prefix_states()
        changed = await here.http.patch("/api/v1/personas/p", json={"system_prompt": "be very verbose and kind"})
        assert changed.status_code == 200, changed.text
        await eventually(lambda: engine.memory.prefix_states() != before)
        conversation = await there.conversation(persona="p")
        await there.say(conversation, "hello")
        assert (await engine.received(1))[-1].turns[0].text == "be very verbose and kind"
    redis_server.empty()


async def test_a_thousand_tokens_cost_few_round_trips_and_few_writes(
    tmp_path: Path, postgres_url: str, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """danny-avila/LibreChat#14313, open-webui/open-webui#28173: each piece cost two round trips, or a write of the whole text."""
    writes = 0
    write = Database.write

    def counted(self: Database) -> AbstractAsyncContextManager[AsyncSession]:
        nonlocal writes
        writes += 1
        return write(self)

    engines = [wordy(1000, delay_s=0.002), wordy()]
    async with deployed(tmp_path, postgres_url, redis_server.url, engines=engines) as servers:
        here, there = servers.people
        conversations = [await here.conversation() for _ in range(10)]
        links: list[Any] = [server.context.replicas.logs for server in servers.servers]
        before = sum(logs._link.round_trips for logs in links)
        monkeypatch.setattr(Database, "write", counted)
        bodies = [await here.say(conversation, "hello") for conversation in conversations]
        logs = await asyncio.gather(*(there.events(body["response"]["id"]) for body in bodies))
        round_trips = sum(logs._link.round_trips for logs in links) - before
        ended = [await here.response(body["response"]["id"]) for body in bodies]
    tokens = sum(response["usage"]["output_tokens"] for response in ended)
    assert tokens == 10_000
    assert all(text_of(log).split()[-1] == text_of(logs[0]).split()[-1] for log in logs)
    assert round_trips <= 60 * tokens / 1000
    assert writes <= 20 * tokens / 1000
    redis_server.empty()


async def test_nothing_is_left_of_readers_who_come_and_go(pair: Deployment) -> None:
    """danny-avila/LibreChat#13391: listeners piled up, one per stream that was ever watched."""
    here, there = pair.people
    conversation = await here.conversation()
    for _ in range(5):
        body = await here.say(conversation, "hello")
        response_id = body["response"]["id"]
        async with there.socket(hello=False) as socket:
            await socket.hello(resume=[(response_id, 0)])
            await socket.text_arrives(response_id)
        await eventually(lambda: pair.context(1).responses.sizes()["copies"] == 0)
        await here.http.post(f"/api/v1/responses/{response_id}/cancel")
    for index in range(2):
        context = pair.context(index)
        await eventually(lambda context=context: not any(context.responses.sizes().values()))  # type: ignore[misc]
        await eventually(lambda context=context: not any(context.replicas.logs.sizes().values()))  # type: ignore[misc]


async def status(person: object, body: dict[str, dict[str, str]]) -> str:
    return str((await person.response(body["response"]["id"]))["status"])  # type: ignore[attr-defined]


async def test_an_administrator_sees_evicts_and_kicks_sessions_of_the_other_server(pair: Deployment) -> None:
    here, there = pair.people
    async with pair.also("root", UserRole.ADMIN) as roots, there.socket() as watcher:
        conversation = await here.conversation()
        await watcher.ask("conversation.subscribe", conversation_id=conversation)
        async with here.socket() as socket:
            await socket.end_of((await socket.say(conversation, "hello"))["response_id"])
        lists = [(await root.http.get("/api/v1/admin/sessions")).json() for root in roots]
        assert [(one["total"], one["items"][0]["conversation_id"]) for one in lists] == [(1, conversation)] * 2
        assert lists[0]["items"][0]["server"] == lists[1]["items"][0]["server"]
        own = (await there.http.get("/api/v1/sessions")).json()["items"]
        assert [(one["id"], one["state"]) for one in own] == [(conversation, "device")]

        session = lists[1]["items"][0]["id"]
        assert (await roots[1].http.post(f"/api/v1/admin/sessions/{session}/evict")).status_code == 204
        (status,) = (await pair.servers[0].engine.snapshot()).sessions
        assert status.state == "host"
        assert (await roots[1].http.delete(f"/api/v1/admin/sessions/{session}")).status_code == 204
        assert (await pair.servers[0].engine.snapshot()).sessions == ()
        assert await watcher.close_code() == 4009
        assert (await roots[1].http.delete(f"/api/v1/admin/sessions/{session}")).status_code == 404
        acts = (await roots[0].http.get("/api/v1/admin/audit")).json()["items"]
        assert [act["action"] for act in acts][:2] == ["session.kick", "session.evict"]


async def test_somebody_drops_a_session_of_their_own_on_the_other_server(pair: Deployment) -> None:
    here, there = pair.people
    conversation = await here.conversation()
    async with here.socket() as socket:
        await socket.end_of((await socket.say(conversation, "hello"))["response_id"])
    async with pair.also("bob") as bobs:
        assert (await bobs[1].http.get("/api/v1/sessions")).json()["items"] == []
        assert (await bobs[1].http.delete(f"/api/v1/sessions/{conversation}")).status_code == 404
    assert (await there.http.delete(f"/api/v1/sessions/{conversation}")).status_code == 204
    assert (await pair.servers[0].engine.snapshot()).sessions == ()
    assert (await there.http.delete(f"/api/v1/sessions/{conversation}")).status_code == 404


async def test_who_is_connected_to_the_other_server_hears_that_a_session_expires(pair: Deployment) -> None:
    here, there = pair.people
    conversation = await here.conversation()
    async with here.socket() as socket:
        await socket.end_of((await socket.say(conversation, "hello"))["response_id"])
    engine = pair.servers[0].engine
    (status,) = (await engine.snapshot()).sessions
    leaving = replace(status, seconds_to_timeout=5.0)
    async with there.socket() as socket:
        engine.memory.session_states = lambda: (leaving,)  # type: ignore[method-assign]
        expiring = await socket.until(lambda frame: frame["type"] == "session.expiring")
    assert expiring["conversation_id"] == conversation
    assert (expiring["data"]["session_id"], expiring["data"]["seconds_to_timeout"]) == (conversation, 5.0)
