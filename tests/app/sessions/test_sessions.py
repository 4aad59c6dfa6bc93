"""One's own live sessions over REST."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.identifiers import new_id
from engine.errors import FilesNotDeleted
from engine.types import SessionKey
from tests.app.responses.chat import Chat, open_chat
from tests.support.client import problem
from tests.support.fake_engine import FakeEngine
from tests.support.scripts import ENDLESS

PATH = "/api/v1/sessions"


async def listed(chat: Chat) -> dict[str, dict[str, Any]]:
    """By id, as somebody sees them who looks a second later."""
    chat.running.clock.advance(2)
    body = (await chat.http.get(PATH)).json()
    assert body["next_cursor"] is None
    return {item["id"]: item for item in body["items"]}


async def test_a_session_begins_with_the_first_turn_and_is_told_with_what_it_holds(chat: Chat) -> None:
    assert await listed(chat) == {}
    first = await chat.turn("hello")
    second = await chat.turn("and?")
    (session,) = (await listed(chat)).values()
    assert (session["id"], session["state"], session["turns"]) == (chat.id, "device", 2)
    assert session["tokens"] == second["usage"]["input_tokens"] + second["usage"]["output_tokens"]
    assert session["cached_tokens"] == second["usage"]["cached_tokens"] > first["usage"]["input_tokens"]
    assert session["pages"]["device"] > 0


async def test_nobody_sees_or_drops_what_is_somebody_elses(chat: Chat) -> None:
    await chat.turn("hello")
    async with chat.running.signed_in("bob") as bob:
        theirs = Chat(chat.running, bob, chat.id)
        assert await listed(theirs) == {}
        foreign = problem(await bob.delete(f"{PATH}/{chat.id}"), 404, "not_found")
        unknown = problem(await bob.delete(f"{PATH}/{new_id()}"), 404, "not_found")
        assert {**foreign, "trace_id": ""} == {**unknown, "trace_id": ""}
    assert set(await listed(chat)) == {chat.id}


async def test_a_dropped_session_is_gone_and_its_conversation_is_not(chat: Chat) -> None:
    await chat.turn("hello")
    assert (await chat.http.delete(f"{PATH}/{chat.id}")).status_code == 204
    assert (await chat.http.get(PATH)).json()["items"] == []
    problem(await chat.http.delete(f"{PATH}/{chat.id}"), 404, "not_found")
    assert len(await chat.messages()) == 2
    answer = await chat.turn("and?")
    assert (answer["status"], answer["usage"]["cached_tokens"]) == ("completed", 0)


async def test_dropping_one_in_mid_answer_keeps_what_was_shown(chat: Chat) -> None:
    chat.engine.queue_script(ENDLESS)
    running = await chat.say("hello")
    await chat.engine.received(1)
    await chat.shown(running["response"]["id"], " tick")
    assert (await listed(chat))[chat.id]["state"] == "active"
    assert (await chat.http.delete(f"{PATH}/{chat.id}")).status_code == 204
    assert (await chat.ended(running["response"]["id"]))["status"] == "cancelled"
    assert (await chat.messages())[-1]["content"] == " tick"


async def test_what_cannot_be_told_or_done_now_is_refused_with_a_time(
    tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FakeEngine(ready=False)
    async with open_chat(tmp_path, sqlite_url, engine=engine) as chat:
        for answer in (await chat.http.get(PATH), await chat.http.delete(f"{PATH}/{chat.id}")):
            problem(answer, 503, "engine_not_ready")
            assert int(answer.headers["retry-after"]) > 0

        async def hanging_disk(key: SessionKey) -> bool:
            raise FilesNotDeleted

        engine.become_ready()
        monkeypatch.setattr(engine, "drop_session", hanging_disk)
        problem(await chat.http.delete(f"{PATH}/{chat.id}"), 503, "files_not_deleted")


async def test_an_id_that_cannot_be_one_is_not_found(chat: Chat) -> None:
    problem(await chat.http.delete(f"{PATH}/not an id"), 404, "not_found")
