"""What an administrator sees of everybody's live sessions, and what evicting and kicking one does to those it hits."""

from __future__ import annotations

from pathlib import Path

from app.accounts.models import UserRole
from tests.app.responses.chat import Chat, open_chat
from tests.support.client import problem
from tests.support.fake_engine import FakeEngine
from tests.support.live_server import live_server
from tests.support.scripts import ENDLESS

PATH = "/api/v1/admin/sessions"
UNKNOWN = "0" * 32


async def test_every_session_is_listed_with_whose_it_is_and_nothing_that_was_said(
    tmp_path: Path, database_url: str
) -> None:
    async with (
        open_chat(tmp_path, database_url) as chat,
        chat.running.signed_in("bob") as bob,
        chat.running.signed_in("root", UserRole.ADMIN) as admin,
    ):
        await chat.turn("a secret")
        other = Chat(chat.running, bob, (await bob.post("/api/v1/conversations", json={})).json()["id"])
        await other.turn("hello")
        problem(await chat.http.get(PATH), 403, "forbidden")
        chat.running.clock.advance(2)
        answer = await admin.get(PATH)
        assert "secret" not in answer.text
        body = answer.json()
        assert (body["total"], body["next_cursor"]) == (2, None)
        found = {item["conversation_id"]: item for item in body["items"]}
        assert {found[chat.id]["user"]["username"], found[other.id]["user"]["username"]} == {"ann", "bob"}
        item = found[chat.id]
        assert (item["state"], item["turns"], item["cached_tokens"]) == ("device", 1, 0)
        assert item["tokens"] > 0
        assert item["pages"]["device"] > 0
        assert {"ttft_ms", "seconds_to_timeout", "idle_s", "priority", "last_used_at"} <= item.keys()
        first = (await admin.get(PATH, params={"limit": 1})).json()
        second = (await admin.get(PATH, params={"limit": 1, "cursor": first["next_cursor"]})).json()
        assert [*first["items"], *second["items"]] == body["items"]
        assert (second["total"], second["next_cursor"]) == (2, None)
        own = (await admin.get(PATH, params={"user_id": item["user"]["id"]})).json()
        assert [found["conversation_id"] for found in own["items"]] == [chat.id]
        assert (await admin.get(PATH, params={"state": "host"})).json()["items"] == []
        problem(await admin.get(PATH, params={"state": "lost"}), 400, "invalid_input")


async def test_evicting_goes_one_tier_down_at_a_time_and_is_written_down(tmp_path: Path, sqlite_url: str) -> None:
    async with open_chat(tmp_path, sqlite_url) as chat, chat.running.signed_in("root", UserRole.ADMIN) as admin:
        await chat.turn("hello")
        chat.running.clock.advance(2)
        (item,) = (await admin.get(PATH)).json()["items"]
        path = f"{PATH}/{item['id']}/evict"
        problem(await chat.http.post(path), 403, "forbidden")
        for state in ("host", "disk"):
            assert (await admin.post(path)).status_code == 204
            assert [found["state"] for found in (await admin.get(PATH)).json()["items"]] == [state]
        assert (await admin.post(path)).status_code == 204
        assert (await admin.get(PATH)).json()["items"] == []
        problem(await admin.post(path), 404, "not_found")
        entries = (await admin.get("/api/v1/admin/audit?action=session.evict")).json()["items"]
        assert [entry["target_id"] for entry in entries] == [item["user"]["id"]] * 3
        assert {entry["details"]["name"] for entry in entries} == {chat.id}
        assert {entry["actor"]["username"] for entry in entries} == {"root"}


async def test_a_session_whose_turn_is_answered_is_not_evicted(tmp_path: Path, sqlite_url: str) -> None:
    async with open_chat(tmp_path, sqlite_url) as chat, chat.running.signed_in("root", UserRole.ADMIN) as admin:
        chat.engine.queue_script(ENDLESS)
        await chat.say("hello")
        await chat.engine.received(1)
        (item,) = (await admin.get(PATH)).json()["items"]
        problem(await admin.post(f"{PATH}/{item['id']}/evict"), 409, "session_active")


async def test_a_kick_closes_who_watches_cancels_the_answer_and_leaves_the_conversation(
    tmp_path: Path, sqlite_url: str
) -> None:
    async with (
        live_server(tmp_path, sqlite_url) as live,
        live.person("ann") as ann,
        live.person("root", UserRole.ADMIN) as admin,
    ):
        live.engine.queue_script(ENDLESS)
        conversation, elsewhere = await ann.conversation(), await ann.conversation()
        async with ann.socket() as talking, ann.socket() as watching, ann.socket() as other:
            await watching.ask("conversation.subscribe", conversation_id=conversation)
            await other.ask("conversation.subscribe", conversation_id=elsewhere)
            response_id = (await talking.say(conversation, "hello"))["response_id"]
            await talking.text_arrives(response_id)
            (item,) = (await admin.http.get(PATH)).json()["items"]
            assert (await admin.http.delete(f"{PATH}/{item['id']}")).status_code == 204
            for socket in (talking, watching):
                assert await socket.close_code() == 4009
                assert socket.frames[-1] == {"type": "session.closed", "data": {"reason": "kicked", "code": 4009}}
            assert (await other.ask("ping"))["type"] == "pong"
        assert (await ann.events(response_id))[-1]["type"] == "response.cancelled"
        assert (await admin.http.get(PATH)).json()["items"] == []
        # Its owner may go on with it.
        again = await ann.say(conversation, "hello again")
        assert (await ann.events(again["response"]["id"]))[-1]["type"] == "response.completed"
        entries = (await admin.http.get("/api/v1/admin/audit?action=session.kick")).json()["items"]
        assert [entry["details"]["name"] for entry in entries] == [conversation]


async def test_a_kick_ends_event_streams_without_a_terminal_event(tmp_path: Path, sqlite_url: str) -> None:
    import asyncio

    from tests.support.live_server import eventually

    async with (
        live_server(tmp_path, sqlite_url) as live,
        live.person("ann") as ann,
        live.person("root", UserRole.ADMIN) as admin,
    ):
        live.engine.queue_script(ENDLESS)
        response_id = (await ann.say(await ann.conversation(), "hello"))["response"]["id"]
        reading = asyncio.create_task(ann.events(response_id))
        await eventually(lambda: live.context.hub.sizes()["event_streams"] == 1)
        await live.engine.received(1)
        (item,) = (await admin.http.get(PATH)).json()["items"]
        assert (await admin.http.delete(f"{PATH}/{item['id']}")).status_code == 204
        assert (await reading)[-1]["type"] != "response.completed"


async def test_sessions_that_are_not_there_are_not_found(tmp_path: Path, sqlite_url: str) -> None:
    async with open_chat(tmp_path, sqlite_url) as chat, chat.running.signed_in("root", UserRole.ADMIN) as admin:
        for answer in (await admin.post(f"{PATH}/{UNKNOWN}/evict"), await admin.delete(f"{PATH}/{UNKNOWN}")):
            problem(answer, 404, "not_found")


async def test_without_a_model_the_list_says_so(tmp_path: Path, sqlite_url: str) -> None:
    engine = FakeEngine(ready=False)
    async with (
        open_chat(tmp_path, sqlite_url, engine=engine) as chat,
        chat.running.signed_in("root", UserRole.ADMIN) as admin,
    ):
        problem(await admin.get(PATH), 503, "engine_not_ready")
