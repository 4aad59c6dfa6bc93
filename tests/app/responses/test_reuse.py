"""Whose words the engine may use again, what of it is told, and how much may wait for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.types import ContextPolicy, GenerationRequest, Namespace, Priority, RequestId
from tests.app.responses.chat import Chat, open_chat, said
from tests.support.client import problem
from tests.support.fake_engine import FakeEngine
from tests.support.scripts import ENDLESS


async def user_id(chat: Chat) -> str:
    found: str = (await chat.http.get("/api/v1/me")).json()["id"]
    return found


async def test_an_answer_is_asked_for_in_the_name_of_its_conversation_and_its_owner(chat: Chat) -> None:
    await chat.turn("hello")
    (request,) = chat.engine.requests
    assert request.namespace == Namespace.user(await user_id(chat))
    assert (request.session, request.priority) == (chat.id, Priority.INTERACTIVE)
    assert request.context_policy is ContextPolicy.ERROR


async def test_admission_asks_with_the_words_that_are_submitted_then(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the engine would encode every prompt twice."""
    checked: list[GenerationRequest] = []
    check = chat.engine.check

    async def spy(request: GenerationRequest) -> int:
        checked.append(request)
        return await check(request)

    monkeypatch.setattr(chat.engine, "check", spy)
    await chat.turn("hello")
    await chat.turn("and?")
    assert [replace(one, request_id=RequestId("check")) for one in chat.engine.requests] == checked


async def test_the_next_turn_costs_only_its_new_words_and_everybody_is_told(chat: Chat) -> None:
    first = await chat.turn("tell me something long enough to be worth keeping")
    assert first["usage"]["cached_tokens"] == 0
    second = await chat.turn("and?")
    usage = second["usage"]
    history = first["usage"]["input_tokens"] + first["usage"]["output_tokens"]
    assert usage["cached_tokens"] == history
    assert usage["cached_from"] == {"device": history, "host": 0, "disk": 0, "prefix": 0}
    events = await chat.events(second["response_id"])
    progress = [event["data"] for event in events if event["type"] == "response.in_progress"]
    assert {data["cached_tokens"] for data in progress} == {history}
    assert events[-1]["data"]["usage"] == usage


async def test_an_edit_and_another_answer_use_what_they_share_with_the_old_ones(chat: Chat) -> None:
    first = await chat.turn("hello")
    second = await chat.turn("and what about the other thing")
    body = await chat.regenerate(second["parent_id"])
    again = (await chat.ended(body["response"]["id"]))["usage"]
    assert again["cached_tokens"] == again["input_tokens"] - 1
    edited = (await chat.turn("or rather", parent_id=first["id"]))["usage"]
    assert edited["cached_tokens"] >= first["usage"]["input_tokens"] + first["usage"]["output_tokens"]


async def test_the_same_words_of_somebody_else_are_not_found(chat: Chat) -> None:
    """vllm-project/vllm#17045: the usage told what others had asked."""
    await chat.turn("a secret question")
    async with chat.running.signed_in("bob") as bob:
        conversation = (await bob.post("/api/v1/conversations", json={})).json()["id"]
        theirs = Chat(chat.running, bob, conversation)
        assert (await theirs.turn("a secret question"))["usage"]["cached_tokens"] == 0
    chat.id = (await chat.post("conversations", {})).json()["id"]
    assert (await chat.turn("a secret question"))["usage"]["cached_tokens"] > 0


async def test_a_conversation_longer_than_the_context_loses_its_oldest_turns_where_that_is_wanted(
    tmp_path: Path, database_url: str
) -> None:
    """ggml-org/llama.cpp#17284: every further message of a long chat was refused."""
    engine = FakeEngine(context_tokens=60)
    async with open_chat(tmp_path, database_url, engine=engine, context_policy="drop_oldest_turns") as chat:
        answers = [await chat.turn(f"message number {number}") for number in range(6)]
        assert [answer["status"] for answer in answers] == ["completed"] * 6
        assert answers[0]["usage"]["dropped_turns"] == 0
        assert answers[-1]["usage"]["dropped_turns"] > 0
        assert len(await chat.messages()) == 12
        assert said(engine.requests[-1].turns)[0] == ("user", "message number 0")
        refused = await chat.try_to_say("word " * 60)
        problem(refused, 400, "context_length_exceeded")


async def test_when_the_prompts_that_wait_have_too_many_tokens_the_next_is_refused_and_nothing_of_it_stored(
    tmp_path: Path, sqlite_url: str
) -> None:
    engine = FakeEngine(max_running=1)
    async with open_chat(tmp_path, sqlite_url, engine=engine, max_running=1, max_waiting_tokens=100) as chat:
        engine.queue_script(ENDLESS)
        running = await chat.say("hello")
        await engine.received(1)
        await chat.shown(running["response"]["id"], " tick")
        conversations = [(await chat.post("conversations", {})).json()["id"] for _ in range(3)]
        contents = ["word " * 90, "word " * 20, "x"]
        answers = [
            await chat.post(f"conversations/{conversation}/messages", {"content": content})
            for conversation, content in zip(conversations, contents, strict=True)
        ]
        assert [answer.status_code for answer in answers] == [202, 503, 503]
        problem(answers[1], 503, "queue_tokens_full")
        assert int(answers[1].headers["retry-after"]) > 0
        assert (await chat.http.get(f"/api/v1/conversations/{conversations[1]}/messages")).json()["items"] == []
        metrics = (await chat.http.get("/metrics")).text
        assert 'kvasir_rejections_total{reason="queue_tokens_full"} 2.0' in metrics
        await chat.cancel(running["response"]["id"])
        await chat.ended(answers[0].json()["response"]["id"])
        again = await chat.post(f"conversations/{conversations[1]}/messages", {"content": contents[1]})
        assert again.status_code == 202


async def test_one_long_prompt_is_taken_when_no_other_waits(tmp_path: Path, sqlite_url: str) -> None:
    async with open_chat(tmp_path, sqlite_url, max_waiting_tokens=10) as chat:
        assert (await chat.turn("word " * 100))["status"] == "completed"
