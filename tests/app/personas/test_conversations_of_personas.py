"""Conversations that begin with a persona: what is asked, how it is sampled, and what becomes of them when it changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from app.accounts.models import UserRole
from app.personas.models import PersonaVersion
from tests.app.responses.chat import Chat, said
from tests.support.client import RunningApp, problem
from tests.support.scripts import ENDLESS

PATH = "/api/v1/personas"


@dataclass
class House:
    """Somebody who talks, and an administrator who has made the persona `terse`."""

    running: RunningApp
    admin: httpx.AsyncClient
    ann: httpx.AsyncClient

    async def chat(self, persona: str | None = "terse", client: httpx.AsyncClient | None = None) -> Chat:
        http = client or self.ann
        answer = await http.post("/api/v1/conversations", json={"persona": persona})
        assert answer.status_code == 201, answer.text
        assert answer.json()["persona"] == persona
        return Chat(self.running, http, answer.json()["id"])

    async def change(self, **fields: Any) -> None:
        assert (await self.admin.patch(f"{PATH}/terse", json=fields)).status_code == 200

    async def delete(self) -> None:
        assert (await self.admin.delete(f"{PATH}/terse")).status_code == 204


@pytest.fixture
async def house(running: RunningApp) -> AsyncIterator[House]:
    async with running.signed_in("root", UserRole.ADMIN) as admin, running.signed_in("ann") as ann:
        persona = {"name": "terse", "system_prompt": "Be brief.", "params": {"temperature": 1.5, "max_tokens": 40}}
        assert (await admin.post(PATH, json=persona)).status_code == 201
        yield House(running, admin, ann)


async def test_every_prompt_begins_with_what_the_persona_says(house: House) -> None:
    chat = await house.chat()
    await chat.turn("hello")
    await chat.turn("and?")
    for request in chat.engine.requests:
        assert request.persona == "terse"
        assert said(request.turns)[0] == ("system", "Be brief.")
    assert len(chat.engine.requests[1].turns) == 4
    assert [message["role"] for message in await chat.messages()] == ["user", "assistant"] * 2


async def test_without_one_nothing_is_said_before_the_first_message(house: House) -> None:
    chat = await house.chat(None)
    await chat.turn("hello")
    (request,) = chat.engine.requests
    assert request.persona is None
    assert said(request.turns) == [("user", "hello")]


async def test_its_prompt_is_computed_once_for_everybody(house: House) -> None:
    chat = await house.chat()
    chat.engine.advance()
    assert (await chat.turn("hello"))["usage"]["cached_from"]["prefix"] > 2
    async with house.running.signed_in("bob") as bob:
        theirs = await house.chat(client=bob)
        usage = (await theirs.turn("hello"))["usage"]
        assert usage["cached_from"]["prefix"] == usage["cached_tokens"] > 2


async def test_its_sampling_defaults_come_between_the_message_and_the_server(house: House) -> None:
    chat = await house.chat()
    body = await chat.say("hello", params={"max_tokens": 7})
    assert body["response"]["params"]["max_tokens"] == 7
    assert body["response"]["params"]["temperature"] == 1.5
    assert body["response"]["params"]["top_p"] == 0.5
    await chat.ended(body["response"]["id"])
    again = await chat.regenerate(body["message"]["id"])
    assert (again["response"]["params"]["max_tokens"], again["response"]["params"]["temperature"]) == (40, 1.5)


async def test_a_message_that_contradicts_its_defaults_is_refused(house: House) -> None:
    chat = await house.chat()
    problem(await chat.try_to_say("hello", params={"min_tokens": 41}), 400, "invalid_input")
    assert await chat.messages() == []
    await house.change(params={"max_tokens": 5000})
    chat = await house.chat()
    assert (await chat.say("hello", params={"min_tokens": 2000}))["response"]["params"]["max_tokens"] == 5000


async def test_a_persona_that_does_not_exist_begins_no_conversation(house: House) -> None:
    problem(await house.ann.post("/api/v1/conversations", json={"persona": "chatty"}), 400, "unknown_persona")
    problem(await house.ann.post("/api/v1/conversations", json={"persona": "No Name"}), 400, "invalid_input")
    assert (await house.ann.get("/api/v1/conversations")).json()["items"] == []


async def test_conversations_go_on_with_the_version_they_began_with(house: House) -> None:
    """ggml-org/llama.cpp#9811, ikawrakow/ik_llama.cpp#199: changing the shared prompt halted or changed every chat."""
    chat = await house.chat()
    chat.engine.queue_script(ENDLESS)
    running = await chat.say("hello")
    await chat.engine.received(1)
    await chat.shown(running["response"]["id"], " tick")
    await house.change(system_prompt="Be long.")
    assert (await chat.response(running["response"]["id"]))["status"] == "in_progress"
    await chat.cancel(running["response"]["id"])
    await chat.turn("and?")
    await (await house.chat()).turn("hello")
    prompts = [said(request.turns)[0][1] for request in chat.engine.requests]
    assert prompts == ["Be brief.", "Be brief.", "Be long."]


async def test_a_version_goes_with_its_last_conversation(house: House) -> None:
    async def versions() -> set[str]:
        async with house.running.context.database.read() as session:
            return set((await session.scalars(select(PersonaVersion.system_prompt))).all())

    chat = await house.chat()
    await house.change(system_prompt="Be long.")
    await house.change(system_prompt="Be kind.")
    await house.running.context.personas.purge()
    assert await versions() == {"Be brief.", "Be kind."}
    assert (await house.ann.delete(f"/api/v1/conversations/{chat.id}")).status_code == 204
    await house.running.context.personas.purge()
    assert await versions() == {"Be kind."}


async def test_a_conversation_goes_on_as_it_was_when_its_persona_is_deleted(house: House) -> None:
    chat = await house.chat()
    await chat.turn("hello")
    await house.delete()
    assert (await chat.turn("and?"))["status"] == "completed"
    request = chat.engine.requests[-1]
    assert said(request.turns)[0] == ("system", "Be brief.")
    assert [role for role, _ in said(request.turns)] == ["system", "user", "assistant", "user"]
    assert (await chat.http.get(f"/api/v1/conversations/{chat.id}")).json()["persona"] == "terse"
    problem(await chat.post("conversations", {"persona": "terse"}), 400, "unknown_persona")


async def test_one_that_is_made_again_has_nothing_to_do_with_old_conversations(house: House) -> None:
    chat = await house.chat()
    await house.delete()
    again = {"name": "terse", "system_prompt": "Be kind."}
    assert (await house.admin.post(PATH, json=again)).status_code == 201
    await chat.turn("hello")
    assert said(chat.engine.requests[-1].turns)[0] == ("system", "Be brief.")


async def test_the_prompt_counts_when_a_conversation_is_too_long(house: House) -> None:
    await house.change(system_prompt="word " * 1500)
    chat = await house.chat()
    body = problem(await chat.try_to_say("word " * 1500), 400, "context_length_exceeded")
    assert body["prompt_tokens"] > 3000


async def test_an_exported_conversation_says_whose_it_was(house: House) -> None:
    chat = await house.chat()
    exported = (await chat.http.get(f"/api/v1/conversations/{chat.id}/export")).json()
    assert exported["conversation"]["persona"] == "terse"
