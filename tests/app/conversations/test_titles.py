"""Titles by the model: after the first answer, behind everybody, and never over a name that somebody has given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.conversations.titles import INSTRUCTION, cleaned_title
from engine.types import GenerationRequest, Priority, RequestId
from tests.app.responses.chat import Chat, open_chat
from tests.support.clock import SteppedClock
from tests.support.fake_engine import FakeEngine
from tests.support.live_server import eventually
from tests.support.scripts import ENDLESS, Script, default_answer

PATH = "/api/v1/conversations"


def says(text: str) -> Script:
    return Script(pieces=tuple(text.split("|")))


class TitlingEngine(FakeEngine):
    """Answers as any fake does, and every question for a title with `title`."""

    def __init__(self) -> None:
        self.title = says("A Walnut |Tree")
        super().__init__(answer=self._script)

    def _script(self, request: GenerationRequest) -> Script:
        return self.title if self.is_for_a_title(request) else default_answer(request)

    @staticmethod
    def is_for_a_title(request: GenerationRequest) -> bool:
        return request.turns[0].text.startswith(INSTRUCTION)

    @property
    def asked_for_titles(self) -> list[GenerationRequest]:
        return [request for request in self.requests if self.is_for_a_title(request)]


@pytest.fixture
async def chat(tmp_path: Path, database_url: str, clock: SteppedClock) -> AsyncIterator[Chat]:
    async with open_chat(tmp_path, database_url, clock=clock, engine=TitlingEngine(), titles="model") as chat:
        yield chat


def engine_of(chat: Chat) -> TitlingEngine:
    assert isinstance(chat.engine, TitlingEngine)
    return chat.engine


async def body(chat: Chat) -> dict[str, Any]:
    found: dict[str, Any] = (await chat.http.get(f"{PATH}/{chat.id}")).json()
    return found


async def asked(chat: Chat, times: int = 1) -> None:
    """Wait until the engine was asked for so many titles."""
    await eventually(lambda: len(engine_of(chat).asked_for_titles) == times)


async def told(chat: Chat) -> None:
    """Let the model say everything, and what becomes of it be stored."""

    def is_done() -> bool:
        chat.engine.advance()
        return not chat.context.responses.side_requests

    await eventually(is_done)
    await chat.context.database.ping()


async def titled(chat: Chat, title: str) -> None:
    async with asyncio.timeout(30):
        while (await body(chat))["title"] != title:
            chat.engine.advance()
            await asyncio.sleep(0.01)


async def test_the_first_answer_is_followed_by_a_title_of_the_model(chat: Chat) -> None:
    updated: list[str] = []
    chat.context.conversations.on_updated(lambda conversation: updated.append(conversation.title))
    await chat.turn("tell me of walnuts")
    before = await body(chat)
    assert before["title"] == "tell me of walnuts"
    await titled(chat, "A Walnut Tree")
    await eventually(lambda: updated == ["A Walnut Tree"])
    # It is the same version at the same place in the list, and is found by its name.
    assert await body(chat) == {**before, "title": "A Walnut Tree"}
    found = (await chat.http.get(PATH, params={"q": "tree"})).json()["items"]
    assert [item["id"] for item in found] == [chat.id]
    # Once is enough.
    await chat.turn("and on")
    await chat.turn("and on")
    assert len(engine_of(chat).asked_for_titles) == 1


async def test_a_title_is_asked_for_behind_everybody_and_leaves_nothing_in_the_engine(chat: Chat) -> None:
    await chat.turn("tell me of walnuts")
    await asked(chat)
    (request,) = engine_of(chat).asked_for_titles
    assert request.priority is Priority.BACKGROUND
    assert (request.namespace, request.session, request.persona) == (None, None, None)
    assert request.request_id.startswith("side:")
    assert "tell me of walnuts" in request.turns[0].text
    assert request.sampling.max_tokens is not None
    responses = chat.context.responses
    # Nobody's answer: nothing waits for it, and nothing is counted.
    assert responses.dispatcher.alive == 0
    assert responses.dispatcher.queued_tokens == 0
    await titled(chat, "A Walnut Tree")
    assert [session.key.name for session in (await chat.engine.snapshot()).sessions] == [chat.id]
    value = chat.context.metrics.registry.get_sample_value
    assert value("kvasir_responses_total", {"status": "completed"}) == 1
    assert value("kvasir_time_to_first_token_seconds_count") in (0, 1)
    await eventually(lambda: not any(responses.sizes().values()))


async def test_a_name_that_somebody_gives_stays(chat: Chat) -> None:
    await chat.turn("tell me of walnuts")
    await asked(chat)
    # While the model thinks.
    await chat.http.patch(f"{PATH}/{chat.id}", json={"title": "Mine"})
    await told(chat)
    await chat.turn("and on")
    assert (await body(chat))["title"] == "Mine"
    named = (await chat.post("conversations", {"title": "Named"})).json()["id"]
    temporary = (await chat.post("conversations", {"temporary": True})).json()["id"]
    for chat.id in (named, temporary):
        await chat.turn("hello")
    # The same words, but now they are somebody's choice.
    chat.id = (await chat.post("conversations", {})).json()["id"]
    said = await chat.say("my words")
    await chat.http.patch(f"{PATH}/{chat.id}", json={"title": "my words"})
    await chat.ended(said["response"]["id"])
    await chat.turn("and on")
    assert len(engine_of(chat).asked_for_titles) == 1


@pytest.mark.parametrize("script", [says(" |\n"), says('"|"'), says("Title:")])
async def test_a_title_that_says_nothing_is_not_taken_and_not_asked_for_again(chat: Chat, script: Script) -> None:
    engine_of(chat).title = script
    await chat.turn("tell me of walnuts")
    await asked(chat)
    await told(chat)
    await chat.turn("and on")
    assert (await body(chat))["title"] == "tell me of walnuts"


async def test_a_conversation_that_is_deleted_meanwhile_gets_none(chat: Chat) -> None:
    await chat.turn("tell me of walnuts")
    await asked(chat)
    await chat.http.delete(f"{PATH}/{chat.id}")
    await told(chat)
    assert (await chat.http.get(PATH)).json()["items"] == []


async def test_a_server_that_ends_does_not_wait_for_a_title(
    tmp_path: Path, sqlite_url: str, clock: SteppedClock
) -> None:
    engine = TitlingEngine()
    engine.title = ENDLESS
    async with open_chat(tmp_path, sqlite_url, clock=clock, engine=engine, titles="model") as chat:
        await chat.turn("hello")
        await asked(chat)
    assert [str(request_id).startswith("side:") for request_id in engine.cancelled] == [True]


async def test_without_the_setting_the_first_message_is_the_title(
    tmp_path: Path, sqlite_url: str, clock: SteppedClock
) -> None:
    engine = TitlingEngine()
    async with open_chat(tmp_path, sqlite_url, clock=clock, engine=engine, titles="message") as chat:
        await chat.turn("hello")
        await chat.turn("and on")
        assert (await body(chat))["title"] == "hello"
    assert engine.asked_for_titles == []


async def test_what_the_engine_refuses_is_left(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.errors import EngineNotReady

    submit = chat.engine.submit

    async def refuse(request: GenerationRequest) -> None:
        if request.request_id.startswith("side:"):
            refused.append(request.request_id)
            raise EngineNotReady("it is being stopped")
        await submit(request)

    refused: list[RequestId] = []
    monkeypatch.setattr(chat.engine, "submit", refuse)
    await chat.turn("hello")
    await eventually(lambda: len(refused) == 1)
    # And tried again after the next answer.
    await chat.turn("and on")
    await eventually(lambda: len(refused) == 2)
    assert (await body(chat))["title"] == "hello"


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("A Walnut Tree", "A Walnut Tree"),
        ('  "A Walnut Tree."  \nand more', "A Walnut Tree"),
        ("Title: **Walnuts**", "Walnuts"),
        ("Walnuts: a guide", "Walnuts: a guide"),
        ("「北京」", "北京"),
        ("x" * 100, "x" * 59 + "…"),
        ("\n\n", ""),
        ('""', ""),
        ("...", ""),
        ("a\x00b", "a b"),
    ],
)
def test_a_title_is_one_short_line_without_quotes(said: str, title: str) -> None:
    assert cleaned_title(said) == title


async def test_what_a_title_costs_is_on_its_owners_account_and_counts_as_no_answer(chat: Chat) -> None:
    await chat.turn("Why is the walnut tree bare?")
    await asked(chat)
    await told(chat)
    await titled(chat, "A Walnut Tree")
    since = chat.running.clock.now().date().isoformat()
    query = {"group_by": "purpose", "since": since, "until": since}
    listed = (await chat.http.get("/api/v1/me/usage", params=query)).json()
    found = {item["purpose"]: item["usage"] for item in listed["items"]}
    assert (found["answer"]["answers"], found["title"]["answers"], listed["totals"]["answers"]) == (1, 0, 1)
    assert found["title"]["input_tokens"] > found["answer"]["input_tokens"] > 0
    assert found["title"]["output_tokens"] == 2
    assert listed["totals"]["output_tokens"] == found["answer"]["output_tokens"] + 2
