"""Who gets a socket, what it may do, and how it ends: every limit with its close code."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from app.accounts.authentication import COOKIE
from app.database import Database
from tests.support.live_server import LiveServer, Person, eventually, live_server
from tests.support.scripts import ENDLESS, Script


@asynccontextmanager
async def ann_on(data: Path, url: str, **settings: Any) -> AsyncIterator[tuple[LiveServer, Person]]:
    """A server with other settings, and somebody signed in."""
    async with live_server(data, url, **settings) as live, live.person("ann") as ann:
        yield live, ann


async def close_code(live: LiveServer, query: str = "", **options: Any) -> int | None:
    async with live.connect(query, **options) as socket:
        return await socket.close_code()


# --- who may open one ------------------------------------------------------------------------------------------------


async def test_without_credentials_it_opens_and_closes_as_unauthenticated(live: LiveServer) -> None:
    assert await close_code(live) == 4001


@pytest.mark.parametrize("header", ["Bearer nonsense", "Basic YTpi", "Bearer ", "nonsense"])
async def test_wrong_credentials_close_as_unauthenticated(live: LiveServer, header: str) -> None:
    assert await close_code(live, additional_headers={"Authorization": header}) == 4001


async def test_a_ticket_opens_one_socket(live: LiveServer, ann: Person) -> None:
    ticket = (await ann.http.post("/api/v1/auth/tickets")).json()["ticket"]
    async with live.connect(f"?ticket={ticket}") as socket:
        assert (await socket.hello())["data"]["user"]["username"] == "ann"
    assert await close_code(live, f"?ticket={ticket}") == 4001


@pytest.mark.parametrize("query", ["?ticket=", "?ticket=%00", "?ticket=" + "x" * 2000, "?ticket=a&ticket=b"])
async def test_a_ticket_that_is_none_closes_as_unauthenticated(live: LiveServer, query: str) -> None:
    assert await close_code(live, query) == 4001


async def test_our_own_page_may_use_the_cookie(live: LiveServer, ann: Person) -> None:
    async with live.connect(additional_headers={"Cookie": f"{COOKIE}={ann.token}"}, origin=live.url) as socket:
        await socket.hello()


@pytest.mark.parametrize("origin", [None, "https://evil.example", "null", "http://127.0.0.1:1"])
async def test_a_foreign_page_is_refused_before_the_upgrade(live: LiveServer, ann: Person, origin: str | None) -> None:
    """open-webui/open-webui#18410: any website could open the socket of whoever visited it."""
    with pytest.raises(InvalidStatus) as refused:
        async with live.connect(additional_headers={"Cookie": f"{COOKIE}={ann.token}"}, origin=origin):
            pass
    assert refused.value.response.status_code == 403


async def test_a_token_needs_no_origin(live: LiveServer, ann: Person) -> None:
    async with ann.socket(origin="https://elsewhere.example") as socket:
        await socket.ask("ping")


async def test_signing_out_closes_what_was_opened_with_it_and_nothing_else(live: LiveServer, ann: Person) -> None:
    """open-webui/open-webui#25764: sockets survived the sign-out."""
    ticket = (await ann.http.post("/api/v1/auth/tickets")).json()["ticket"]
    other_sign_in = await ann.http.post("/api/v1/auth/login", json={"username": "ann", "password": "correct horse"})
    other = {"Authorization": f"Bearer {other_sign_in.json()['token']}"}
    async with ann.socket() as socket, live.connect(f"?ticket={ticket}") as by_ticket:
        await by_ticket.hello()
        async with live.connect(additional_headers=other) as unaffected:
            await unaffected.hello()
            await ann.http.post("/api/v1/auth/logout")
            async with asyncio.timeout(1):
                assert await socket.close_code() == 4001
                assert await by_ticket.close_code() == 4001
            assert socket.frames[-1]["data"] == {"reason": "revoked", "code": 4001}
            await unaffected.ask("ping")


async def test_a_sign_in_that_expires_closes_its_socket(tmp_path: Path, sqlite_url: str) -> None:
    async with ann_on(tmp_path, sqlite_url) as (live, ann):
        (sign_in,) = (await ann.http.get("/api/v1/auth/sign-ins")).json()["items"]
        just_before = datetime.fromisoformat(sign_in["expires_at"]) - timedelta(seconds=0.5)
        object.__setattr__(live.context, "now", lambda: just_before)
        async with ann.socket() as socket:
            assert await socket.close_code() == 4001
            assert socket.frames[-1]["data"]["reason"] == "expired"


async def test_while_the_database_is_away_sockets_are_told_to_come_back(live: LiveServer, ann: Person) -> None:
    nowhere = Database("sqlite:////nowhere/at/all.sqlite3")
    conversation = await ann.conversation()
    async with ann.socket() as socket:
        database = live.context.database
        reader, database.reader = database.reader, nowhere.reader
        assert await close_code(live, additional_headers={"Authorization": f"Bearer {ann.token}"}) == 1013
        error = await socket.ask("conversation.subscribe", conversation_id=conversation)
        assert (error["data"]["code"], error["data"]["retry_after_s"]) == ("database_unavailable", 2)
        database.reader = reader
        assert (await socket.ask("conversation.subscribe", conversation_id=conversation))["type"] != "error"
    await nowhere.close()


async def test_more_sockets_than_the_limit_are_turned_away(tmp_path: Path, sqlite_url: str) -> None:
    async with ann_on(tmp_path, sqlite_url, sockets_max=2) as (live, ann), ann.socket() as one, ann.socket():
        assert await close_code(live, additional_headers={"Authorization": f"Bearer {ann.token}"}) == 1013
        await one.connection.close()
        await eventually(lambda: live.context.hub.open_sockets == 1)
        async with ann.socket() as socket:
            await socket.ask("ping")


# --- the greeting ----------------------------------------------------------------------------------------------------


async def test_the_greeting_says_what_the_limits_are(live: LiveServer, ann: Person) -> None:
    async with ann.socket(hello=False) as socket:
        ready = await socket.hello()
    assert ready["data"]["protocol"] == 1
    assert ready["data"]["heartbeat_s"] == 30
    assert ready["data"]["limits"]["frame_max_bytes"] == 262144
    assert ready["data"]["user"] == {"id": ready["data"]["user"]["id"], "username": "ann", "role": "user"}


async def test_a_protocol_of_another_time_is_refused_with_a_clear_error(live: LiveServer, ann: Person) -> None:
    """danny-avila/LibreChat#15044: an older page talked to a newer server and showed nothing."""
    async with ann.socket(hello=False) as socket:
        error = await socket.ask("session.hello", protocol=99)
        assert error["data"]["code"] == "unsupported_protocol"
        assert await socket.close_code() == 1002


async def test_greeting_twice_is_an_error_and_the_socket_lives(live: LiveServer, ann: Person) -> None:
    async with ann.socket() as socket:
        assert (await socket.ask("session.hello", protocol=1))["data"]["code"] == "greeted_already"
        assert (await socket.ask("ping"))["type"] == "pong"


async def test_without_a_greeting_everything_but_resuming_works(live: LiveServer, ann: Person) -> None:
    async with ann.socket(hello=False) as socket:
        assert (await socket.ask("ping"))["type"] == "pong"
        await socket.end_of((await socket.say(await ann.conversation(), "hello"))["response_id"])


# --- bad frames ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code", "reply_to"),
    [
        ("", "malformed_json", None),
        ("{", "malformed_json", None),
        ('{"x":' * 5000, "malformed_json", None),
        ('{"type":"ping","id":"\\ud800"}', "malformed_json", None),
        ("null", "invalid_frame", None),
        ("[]", "invalid_frame", None),
        ('"ping"', "invalid_frame", None),
        ('{"id":7}', "invalid_frame", 7),
        ('{"type":7,"id":"a"}', "invalid_frame", "a"),
        ('{"type":"nope","id":"a"}', "unknown_type", "a"),
        ('{"type":"handoff.request","id":1,"data":{}}', "invalid_frame", 1),
        ('{"type":"message.create","id":"a","data":{"conversation_id":"c"}}', "invalid_frame", "a"),
        ('{"type":"message.create","id":"a","data":{"conversation_id":"c","content":""}}', "invalid_frame", "a"),
        ('{"type":"message.create","id":"a","data":{"conversation_id":"c","content":"x","n":1}}', "invalid_frame", "a"),
        ('{"type":"message.create","id":"a","data":{"conversation_id":5,"content":"x"}}', "invalid_frame", "a"),
        ('{"type":"message.create","id":"a"}', "invalid_frame", "a"),
        ('{"type":"response.cancel","id":"a","data":null}', "invalid_frame", "a"),
        ('{"type":"session.hello","id":"a","data":{"resume":[{"response_id":"r"}]}}', "invalid_frame", "a"),
        (
            '{"type":"session.hello","id":"a","data":{"resume":[{"response_id":"r","last_seq":-1}]}}',
            "invalid_frame",
            "a",
        ),
        ('{"type":"ping","id":true}', "invalid_frame", None),
        ('{"type":"ping","id":1.5}', "invalid_frame", None),
        ('{"type":"ping","id":123456789012345678901234567890}', "invalid_frame", None),
        ('{"type":"ping","id":"' + "x" * 129 + '"}', "invalid_frame", None),
    ],
)
async def test_a_bad_frame_gets_an_error_and_the_socket_lives(
    live: LiveServer, ann: Person, text: str, code: str, reply_to: str | int | None
) -> None:
    async with ann.socket() as socket:
        await socket.connection.send(text)
        error = await socket.receive()
        assert (error["type"], error["data"]["code"], error.get("reply_to")) == ("error", code, reply_to)
        assert error["data"]["message"]
        assert (await socket.ask("ping"))["type"] == "pong"


@pytest.mark.parametrize(
    ("kind", "data", "code"),
    [
        ("message.create", {"conversation_id": "nope", "content": "x"}, "not_found"),
        ("message.create", {"conversation_id": "THEIRS", "content": "x"}, "not_found"),
        ("message.create", {"conversation_id": "MINE", "content": " \n\t"}, "content_empty"),
        ("message.create", {"conversation_id": "MINE", "content": "a\x00b"}, "invalid_input"),
        ("message.create", {"conversation_id": "MINE", "content": "x" * 131073}, "content_too_large"),
        ("message.create", {"conversation_id": "MINE", "content": "x", "parent_id": "nope"}, "not_found"),
        ("response.regenerate", {"parent_id": "nope"}, "not_found"),
        ("response.cancel", {"response_id": "nope"}, "not_found"),
        ("response.cancel", {"response_id": "\x00"}, "not_found"),
        ("conversation.subscribe", {"conversation_id": "THEIRS"}, "not_found"),
        ("conversation.unsubscribe", {"conversation_id": "THEIRS"}, "not_found"),
    ],
)
async def test_what_cannot_be_done_is_answered_with_its_reason(
    live: LiveServer, ann: Person, bob: Person, kind: str, data: dict[str, str], code: str
) -> None:
    places = {"MINE": await ann.conversation(), "THEIRS": await bob.conversation()}
    async with ann.socket() as socket:
        error = await socket.ask(kind, **{name: places.get(value, value) for name, value in data.items()})
        assert (error["type"], error["data"]["code"]) == ("error", code)
        assert (await socket.ask("ping"))["type"] == "pong"


async def test_a_binary_frame_closes_the_socket(live: LiveServer, ann: Person) -> None:
    async with ann.socket() as socket:
        await socket.connection.send(b'{"type":"ping"}')
        assert await socket.close_code() == 1003


async def test_a_text_frame_that_is_not_utf8_closes_the_socket(live: LiveServer, ann: Person) -> None:
    async with ann.socket() as socket, ann.socket() as other:
        await socket.connection.send(b'{"type":"ping","id":"\xff"}', text=True)
        assert await socket.close_code() == 1007
        await other.ask("ping")


async def test_a_frame_beyond_the_limit_closes_the_socket(live: LiveServer, ann: Person) -> None:
    async with ann.socket() as socket:
        await socket.connection.send(json.dumps({"type": "ping", "id": "x" * 262144}))
        assert await socket.close_code() == 1009


async def test_a_flood_of_frames_closes_the_socket(tmp_path: Path, sqlite_url: str) -> None:
    async with ann_on(tmp_path, sqlite_url, frames_per_second=1) as (_, ann), ann.socket() as socket:
        for _ in range(15):
            await socket.connection.send('{"type":"ping"}')
        assert await socket.close_code() == 4029
        assert sum(frame["type"] == "pong" for frame in socket.frames) <= 11


# --- silence ---------------------------------------------------------------------------------------------------------


async def test_a_silent_socket_is_closed(tmp_path: Path, sqlite_url: str) -> None:
    async with ann_on(tmp_path, sqlite_url, socket_idle_s=0.2) as (_, ann), ann.socket() as socket:
        assert await socket.close_code() == 4008


async def test_a_socket_is_not_silent_while_an_answer_streams_to_it(tmp_path: Path, sqlite_url: str) -> None:
    async with ann_on(tmp_path, sqlite_url, socket_idle_s=0.2) as (live, ann), ann.socket() as socket:
        live.engine.queue_script(ENDLESS)
        response_id = (await socket.say(await ann.conversation(), "hello"))["response_id"]
        await asyncio.sleep(0.8)
        await ann.http.post(f"/api/v1/responses/{response_id}/cancel")
        await socket.end_of(response_id)
        assert await socket.close_code() == 4008


async def test_a_client_that_vanishes_is_noticed_by_the_heartbeat(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        ann_on(tmp_path, sqlite_url, heartbeat_s=0.2) as (live, ann),
        ann.socket(ping_interval=None) as socket,
    ):
        # It neither reads nor answers any more, and its network says nothing.
        socket.connection.transport.pause_reading()
        await eventually(lambda: live.context.hub.open_sockets == 0)
        socket.connection.transport.abort()


# --- slow readers ----------------------------------------------------------------------------------------------------


async def test_a_reader_who_does_not_read_is_closed_and_costs_no_more_than_its_buffer(
    tmp_path: Path, sqlite_url: str
) -> None:
    engine_piece = "x" * 100_000
    async with ann_on(tmp_path, sqlite_url, send_timeout_s=0.3, delta_window_ms=0) as (live, ann):
        live.engine.queue_script(Script((engine_piece,), endless=True))
        async with (
            ann.socket(ping_interval=None, max_queue=1, max_size=None) as slow,
            ann.socket(max_size=None) as quick,
        ):
            response_id = (await slow.say(await ann.conversation(), "hello"))["response_id"]
            slow.connection.transport.pause_reading()
            await eventually(lambda: live.context.hub.open_sockets == 1)
            # Nobody else notices.
            assert (await quick.ask("ping"))["type"] == "pong"
            assert (await ann.response(response_id))["status"] == "in_progress"
            await quick.ask("response.cancel", response_id=response_id)
            slow.connection.transport.resume_reading()
            assert await slow.close_code() == 1013


async def test_too_many_waiting_frames_close_the_socket(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        ann_on(tmp_path, sqlite_url, outbox_max_frames=4, frames_per_second=100_000, send_timeout_s=30) as (
            live,
            ann,
        ),
        ann.socket(ping_interval=None, max_queue=1) as socket,
    ):
        socket.connection.transport.pause_reading()
        frame = json.dumps({"type": "nope" * 10_000, "id": "x" * 100})

        async def flood() -> None:
            while live.context.hub.open_sockets:
                await socket.connection.send(frame)

        sending = asyncio.create_task(flood())
        await eventually(lambda: live.context.hub.open_sockets == 0)
        sending.cancel()
        await asyncio.wait([sending])
        socket.connection.transport.resume_reading()
        assert await socket.close_code() == 1013
