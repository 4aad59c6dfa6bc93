"""Asking for a person: by route, by a word in a message, by an engine that fails; and what the model does meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.accounts.models import UserRole
from tests.app.responses.chat import Chat, open_chat, said
from tests.app.service.desk import Agent, conversation, handoff
from tests.support.client import problem
from tests.support.live_server import eventually_equal
from tests.support.scripts import failing_script


async def state(chat: Chat) -> str:
    return str((await conversation(chat))["state"])


async def test_while_a_person_is_waited_for_messages_are_stored_and_the_model_is_silent(chat: Chat) -> None:
    """chatwoot/chatwoot#11025, fazer-ai/agents#433: case C42."""
    await chat.turn("hello")
    body = await handoff(chat, "my invoice")
    assert (body["state"], body["agent"]) == ("queued", None)
    assert body["state_since"] is not None
    answer = await chat.try_to_say("is anybody there?", client_message_id="m1")
    assert (answer.status_code, answer.json()["response"]) == (202, None)
    assert "location" not in answer.headers
    again = await chat.try_to_say("is anybody there?", client_message_id="m1")
    assert (again.status_code, again.json()["message"]["id"]) == (202, answer.json()["message"]["id"])
    follows = await chat.say("hello?", parent_id=answer.json()["message"]["id"])
    assert follows["response"] is None
    contents = [message["content"] for message in await chat.messages()]
    assert contents == ["hello", "You said: hello.", "is anybody there?", "hello?"]
    assert len(chat.engine.requests) == 1


async def test_asking_again_changes_nothing_and_waiting_can_be_ended(chat: Chat) -> None:
    first = await handoff(chat)
    assert await handoff(chat) == first
    withdrawn = await chat.http.delete(f"/api/v1/conversations/{chat.id}/handoff")
    assert (withdrawn.status_code, withdrawn.json()["state"]) == (200, "bot")
    again = await chat.http.delete(f"/api/v1/conversations/{chat.id}/handoff")
    assert (again.status_code, again.json()["state"]) == (200, "bot")
    assert (await chat.turn("still there?"))["content"] == "You said: still there?."


async def test_who_waited_is_answered_with_all_that_was_said_meanwhile(chat_on_sqlite: Chat) -> None:
    chat = chat_on_sqlite
    await chat.turn("hello")
    await handoff(chat)
    await chat.say("one")
    await chat.http.delete(f"/api/v1/conversations/{chat.id}/handoff")
    await chat.turn("two")
    assert said(chat.engine.requests[-1].turns) == [
        ("user", "hello"),
        ("assistant", "You said: hello."),
        ("user", "one"),
        ("user", "two"),
    ]


async def test_where_the_model_is_silent_nothing_is_answered_again(chat_on_sqlite: Chat) -> None:
    chat = chat_on_sqlite
    body = await chat.say("hello")
    await chat.ended(body["response"]["id"])
    await handoff(chat)
    refused = await chat.post(f"conversations/{chat.id}/responses", {"parent_id": body["message"]["id"]})
    assert problem(refused, 409, "model_is_silent")["state"] == "queued"
    waits = await chat.say("and?")
    await chat.http.delete(f"/api/v1/conversations/{chat.id}/handoff")
    # What was said into the silence may be answered now.
    await chat.ended((await chat.regenerate(waits["message"]["id"]))["response"]["id"])
    assert (await chat.messages())[-1]["content"] == "You said: and?."


async def test_conversations_are_found_by_their_state(chat_on_sqlite: Chat) -> None:
    chat = chat_on_sqlite
    await handoff(chat)
    found = {}
    for wanted in ("bot", "queued", "human", "resolved"):
        answer = await chat.http.get("/api/v1/conversations", params={"state": wanted})
        found[wanted] = [item["id"] for item in answer.json()["items"]]
    assert found == {"bot": [], "queued": [chat.id], "human": [], "resolved": []}


async def test_a_word_in_a_message_asks_for_a_person(tmp_path: Path, database_url: str) -> None:
    async with open_chat(tmp_path, database_url, handoff_keywords="human, talk to a person,人工") as chat:
        await chat.turn("superhuman strength")
        body = await chat.say("I want a HUMAN!")
        assert (body["response"], await state(chat)) == (None, "queued")
        assert len(chat.engine.requests) == 1
        async with chat.running.signed_in("agnes", UserRole.AGENT) as http:
            (item,) = (await http.get("/api/v1/inbox")).json()["items"]
        assert (item["cause"], item["reason"], item["user"]["name"]) == ("keyword", "human", "ann")


async def test_a_persona_may_have_keywords_of_its_own(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        open_chat(tmp_path, sqlite_url, handoff_keywords="human") as chat,
        chat.running.signed_in("root", UserRole.ADMIN) as admin,
    ):
        for name, keywords in (("shop", ["clerk"]), ("mute", []), ("plain", None)):
            made = await admin.post(
                "/api/v1/personas", json={"name": name, "system_prompt": "Sell.", "handoff_keywords": keywords}
            )
            assert (made.status_code, made.json()["handoff_keywords"]) == (201, keywords)
        found = {}
        for name in ("shop", "mute", "plain"):
            chat.id = (await chat.post("conversations", {"persona": name})).json()["id"]
            for text in ("a human!", "a clerk!"):
                await chat.say(text)
                found[name, text] = await state(chat)
                await chat.http.delete(f"/api/v1/conversations/{chat.id}/handoff")
        assert {pair for pair, became in found.items() if became == "queued"} == {
            ("shop", "a clerk!"),
            ("plain", "a human!"),
        }
        changed = await admin.patch("/api/v1/personas/shop", json={"handoff_keywords": None})
        assert changed.json()["handoff_keywords"] is None
        assert changed.json()["system_prompt"] == "Sell."


async def test_an_answer_that_fails_asks_for_a_person_where_the_settings_say_so(
    tmp_path: Path, database_url: str
) -> None:
    async with open_chat(tmp_path, database_url, handoff_on_failure=True) as chat:
        chat.engine.queue_script(failing_script("half "))
        await chat.ended((await chat.say("hello"))["response"]["id"])
        await eventually_equal(lambda: state(chat), "queued")
        assert [message["status"] for message in await chat.messages()] == ["completed", "failed"]


async def test_an_answer_that_fails_is_only_that_by_default(chat_on_sqlite: Chat) -> None:
    chat = chat_on_sqlite
    chat.engine.queue_script(failing_script("half "))
    await chat.ended((await chat.say("hello"))["response"]["id"])
    assert await state(chat) == "bot"


@pytest.mark.parametrize(("settings", "status"), [({"handoff_on_failure": True}, 202), ({}, 503)])
async def test_without_a_model_a_message_is_stored_for_a_person_or_refused(
    tmp_path: Path, sqlite_url: str, settings: dict[str, Any], status: int
) -> None:
    async with open_chat(tmp_path, sqlite_url, **settings) as chat:
        chat.engine.fail("it burns")
        answer = await chat.try_to_say("hello")
        assert answer.status_code == status
        assert await state(chat) == ("queued" if status == 202 else "bot")
        assert len(await chat.messages()) == (status == 202)


async def test_a_full_queue_keeps_nobody_from_talking_to_a_person(tmp_path: Path, sqlite_url: str) -> None:
    async with open_chat(tmp_path, sqlite_url, max_running=1, max_waiting=1, handoff_keywords="human") as chat:
        here, chat.id = chat.id, (await chat.post("conversations", {})).json()["id"]
        await chat.say("busy")
        await chat.engine.received(1)
        chat.id = here
        problem(await chat.try_to_say("hello"), 503, "queue_full")
        assert (await chat.say("a human, please"))["response"] is None
        assert (await chat.say("hello"))["response"] is None


async def test_the_model_may_go_on_while_a_person_is_waited_for(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        open_chat(tmp_path, sqlite_url, queued_answers=True) as chat,
        chat.running.signed_in("agnes", UserRole.AGENT) as http,
    ):
        await handoff(chat)
        assert (await chat.turn("hello"))["content"] == "You said: hello."
        await Agent(http, "agnes").does("take", chat.id)
        assert (await chat.say("hello"))["response"] is None


async def test_somebody_elses_conversation_is_not_there(chat: Chat) -> None:
    async with chat.running.signed_in("bob") as bob:
        for method in ("POST", "DELETE"):
            body = {} if method == "POST" else None
            answer = await bob.request(method, f"/api/v1/conversations/{chat.id}/handoff", json=body)
            problem(answer, 404, "not_found")
    assert await state(chat) == "bot"
