"""The SSE twin of the socket: the same frames under the same numbers, from any place, to the end and no further."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import event

from app.clock import utc_now
from tests.app.responses.chat import Chat
from tests.support.client import PASSWORD, problem
from tests.support.fake_engine import FakeEngine
from tests.support.live_server import LiveServer, Person, eventually, live_server
from tests.support.scripts import ENDLESS, Script, numbered_script

GROWING = ("response.created", "response.queued", "response.in_progress", "response.output_text.delta")


@pytest.fixture
async def live(tmp_path: Path, sqlite_url: str) -> AsyncIterator[LiveServer]:
    async with live_server(tmp_path, sqlite_url, sse_heartbeat_s=0.05) as server:
        yield server


@pytest.fixture
async def ann(live: LiveServer) -> AsyncIterator[Person]:
    async with live.person("ann") as person:
        yield person


async def lines_of(ann: Person, response_id: str, **headers: str) -> list[str]:
    answer = await ann.http.get(f"/api/v1/responses/{response_id}/events", headers=headers)
    return answer.text.splitlines()


async def test_an_event_has_its_number_its_type_and_the_frame_of_the_socket(live: LiveServer, ann: Person) -> None:
    async with ann.socket() as socket:
        response_id = (await socket.say(await ann.conversation(), "hello"))["response_id"]
        await socket.end_of(response_id)
    assert await ann.events(response_id) == socket.log(response_id)
    lines = await lines_of(ann, response_id)
    assert lines[:3] == ["id: 1", "event: response.created", lines[2]]
    assert lines[2].startswith('data: {"type":"response.created"')
    assert lines[3] == ""


async def test_nothing_between_us_and_the_reader_keeps_or_collects_events(live: LiveServer, ann: Person) -> None:
    response_id = (await ann.say(await ann.conversation(), "hello"))["response"]["id"]
    answer = await ann.http.get(f"/api/v1/responses/{response_id}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"


async def test_a_browser_that_reconnects_goes_on_behind_what_it_has(live: LiveServer, ann: Person) -> None:
    response_id = (await ann.say(await ann.conversation(), "one two three"))["response"]["id"]
    whole = await ann.events(response_id)
    lines = await lines_of(ann, response_id, **{"Last-Event-ID": "2"})
    assert lines[0] == "id: 3"
    assert await ann.events(response_id, after=len(whole) - 1) == whole[-1:]
    # The header is newer than the address it was opened with.
    answer = await ann.http.get(
        f"/api/v1/responses/{response_id}/events", params={"after": 0}, headers={"Last-Event-ID": str(len(whole) - 1)}
    )
    assert answer.text.splitlines()[0] == f"id: {len(whole)}"


async def test_a_reader_who_has_everything_is_told_not_to_come_back(live: LiveServer, ann: Person) -> None:
    response_id = (await ann.say(await ann.conversation(), "hello"))["response"]["id"]
    last = len(await ann.events(response_id))
    answer = await ann.http.get(f"/api/v1/responses/{response_id}/events", params={"after": last})
    assert (answer.status_code, answer.content) == (204, b"")


async def test_a_place_behind_the_end_is_refused_with_the_end(live: LiveServer, ann: Person) -> None:
    response_id = (await ann.say(await ann.conversation(), "hello"))["response"]["id"]
    last = len(await ann.events(response_id))
    refused = await ann.http.get(f"/api/v1/responses/{response_id}/events", params={"after": last + 1})
    assert problem(refused, 409, "ahead_of_log")["last_seq"] == last


@pytest.mark.parametrize("after", ["-1", "x", "1.5", "", str(2**64)])
async def test_a_place_that_is_no_number_is_refused(live: LiveServer, ann: Person, after: str) -> None:
    response_id = (await ann.say(await ann.conversation(), "hello"))["response"]["id"]
    for options in ({"params": {"after": after}}, {"headers": {"Last-Event-ID": after}}):
        if options == {"headers": {"Last-Event-ID": ""}}:
            continue  # An empty header is what a browser sends that has seen no id.
        problem(await ann.http.get(f"/api/v1/responses/{response_id}/events", **options), 400, "invalid_input")  # type: ignore[arg-type]


async def test_a_growing_answer_is_followed_to_its_end(live: LiveServer, ann: Person) -> None:
    live.engine.queue_script(ENDLESS)
    response_id = (await ann.say(await ann.conversation(), "hello"))["response"]["id"]
    seen: list[str] = []
    async with ann.http.stream("GET", f"/api/v1/responses/{response_id}/events") as stream:
        async for line in stream.aiter_lines():
            seen.append(line)
            if len(seen) == 40:
                await ann.http.post(f"/api/v1/responses/{response_id}/cancel")
    assert [line for line in seen if line.startswith("event: ")][-1] == "event: response.cancelled"
    ids = [int(line[4:]) for line in seen if line.startswith("id: ")]
    assert ids == list(range(1, len(ids) + 1))


async def test_a_silent_stream_shows_that_it_lives(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        live_server(tmp_path, sqlite_url, engine=FakeEngine(ready=False), sse_heartbeat_s=0.05) as live,
        live.person("ann") as ann,
    ):
        response_id = (await ann.say(await ann.conversation(), "hello"))["response"]["id"]
        seen: list[str] = []
        async with ann.http.stream("GET", f"/api/v1/responses/{response_id}/events") as stream:
            async for line in stream.aiter_lines():
                seen.append(line)
                if line.startswith(":") and len([each for each in seen if each.startswith(":")]) == 2:
                    break
        assert [line for line in seen if line.startswith("id: ")] == ["id: 1", "id: 2"]


async def test_a_reader_who_leaves_is_forgotten_and_the_answer_goes_on(live: LiveServer, ann: Person) -> None:
    live.engine.queue_script(numbered_script(200))
    response_id = (await ann.say(await ann.conversation(), "hello"))["response"]["id"]
    async with ann.http.stream("GET", f"/api/v1/responses/{response_id}/events") as stream:
        async for _ in stream.aiter_lines():
            break
    await eventually(lambda: live.context.hub.sizes()["cursors"] == 0)
    assert (await ann.events(response_id))[-1]["type"] == "response.completed"


async def test_a_stream_ends_with_the_sign_in_it_was_opened_with(live: LiveServer, ann: Person) -> None:
    """open-webui/open-webui#25764: what was open survived a sign-out."""
    live.engine.queue_script(ENDLESS)
    response_id = (await ann.say(await ann.conversation(), "hello"))["response"]["id"]
    sign_in = await ann.http.post("/api/v1/auth/login", json={"username": "ann", "password": PASSWORD})
    other = {"Authorization": f"Bearer {sign_in.json()['token']}"}
    events = f"/api/v1/responses/{response_id}/events"
    async with ann.http.stream("GET", events, headers=other) as stream, ann.http.stream("GET", events) as unaffected:
        lines = stream.aiter_lines()
        await anext(lines)
        await ann.http.post("/api/v1/auth/logout", headers=other)
        async with asyncio.timeout(1):
            rest = [line async for line in lines]
        # Without a terminal event, so that nobody takes it for the end of the answer.
        assert {line for line in rest if line.startswith("event: ")} <= {f"event: {kind}" for kind in GROWING}
        assert live.context.hub.sizes()["event_streams"] == 1
        await anext(unaffected.aiter_lines())
    await eventually(lambda: live.context.hub.sizes()["event_streams"] == 0)


async def test_a_stream_ends_when_its_sign_in_expires(live: LiveServer, ann: Person) -> None:
    live.engine.queue_script(ENDLESS)
    response_id = (await ann.say(await ann.conversation(), "hello"))["response"]["id"]
    shift = timedelta(days=live.context.settings.session_days) - timedelta(seconds=0.2)
    object.__setattr__(live.context, "now", lambda: utc_now() + shift)
    async with asyncio.timeout(5):
        answer = await ann.http.get(f"/api/v1/responses/{response_id}/events")
    assert "event: response.created" in answer.text
    assert "event: response.cancelled" not in answer.text
    await eventually(lambda: live.context.hub.sizes()["event_streams"] == 0)


async def test_a_reader_who_does_not_read_is_cut_off(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        live_server(tmp_path, sqlite_url, send_timeout_s=0.2, delta_window_ms=0) as live,
        live.person("ann") as ann,
    ):
        live.engine.queue_script(Script(("x" * 100_000,), endless=True))
        response_id = (await ann.say(await ann.conversation(), "hello"))["response"]["id"]
        host, port = live.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1)
        writer.write(
            f"GET /api/v1/responses/{response_id}/events HTTP/1.1\r\nHost: {host}\r\n"
            f"Authorization: Bearer {ann.token}\r\n\r\n".encode()
        )
        await eventually(lambda: live.context.hub.sizes()["cursors"] == 1)
        await eventually(lambda: live.context.hub.sizes()["cursors"] == 0)
        await ann.http.post(f"/api/v1/responses/{response_id}/cancel")
        writer.transport.abort()
        del reader


async def test_the_log_of_an_unknown_response_is_not_found(chat_on_sqlite: Chat) -> None:
    for response_id in ("00000000-0000-4000-8000-000000000000", "nonsense"):
        problem(await chat_on_sqlite.http.get(f"/api/v1/responses/{response_id}/events"), 404, "not_found")


@pytest.mark.parametrize("is_done", [True, False])
async def test_streams_that_are_over_soon_cost_no_connection_to_the_database(
    live: LiveServer, ann: Person, is_done: bool
) -> None:
    """A look into SQL that is cancelled on its way costs one, and an error in the log."""
    lost: list[object] = []
    event.listen(live.context.database.reader.sync_engine.pool, "close", lambda *closed: lost.append(closed))
    conversation_id = await ann.conversation()
    for _ in range(10):
        response_id = (await ann.say(conversation_id, "hello"))["response"]["id"]
        if is_done:
            await ann.events(response_id)
        async with ann.http.stream("GET", f"/api/v1/responses/{response_id}/events") as stream:
            await anext(stream.aiter_lines())
    await eventually(lambda: live.context.hub.sizes()["event_streams"] == 0)
    assert not lost
