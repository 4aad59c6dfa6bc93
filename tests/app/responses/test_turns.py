"""Saying something: stored before it is acknowledged, once however often it is sent, and in the right place of the tree."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from app.database import Database
from app.responses import dispatcher
from app.responses.admission import Admission, Verdict
from app.responses.prompt import Prompt
from engine.types import ModelInfo
from tests.app.responses.chat import Chat, said
from tests.support.client import problem

UNKNOWN = "00000000-0000-4000-8000-000000000000"


async def test_the_message_and_the_promise_of_an_answer_are_stored_before_anything_is_computed(chat: Chat) -> None:
    body = await chat.say("hello", client_message_id="m1")
    question, answer = await chat.messages()
    assert question == {**body["message"], "children": [answer["id"]]}
    assert (question["role"], question["content"], question["status"]) == ("user", "hello", "completed")
    assert (answer["role"], answer["content"], answer["status"]) == ("assistant", "", "queued")
    assert answer["id"] == body["response"]["message_id"]
    assert answer["response_id"] == body["response"]["id"]
    assert body["response"]["parent_id"] == question["id"]
    assert body["response"]["params"]["max_tokens"] == 1024


async def test_the_acknowledgement_says_where_the_answer_is(chat_on_sqlite: Chat) -> None:
    answer = await chat_on_sqlite.try_to_say("hello")
    assert answer.headers["location"] == f"/api/v1/responses/{answer.json()['response']['id']}"


async def test_the_same_client_message_id_is_one_message_with_the_same_acknowledgement(chat: Chat) -> None:
    first = await chat.try_to_say("hello", client_message_id="m1")
    await chat.ended(first.json()["response"]["id"])
    again = await chat.try_to_say("hello", client_message_id="m1")
    assert (again.status_code, again.content) == (202, first.content)
    assert again.headers["idempotent-replayed"] == "true"
    assert len(await chat.messages()) == 2
    assert len(chat.engine.requests) == 1


async def test_the_same_client_message_id_sent_many_times_at_once_is_one_message(chat: Chat) -> None:
    answers = await asyncio.gather(*[chat.try_to_say("hello", client_message_id="m1") for _ in range(12)])
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.content for answer in answers}) == 1
    assert len(await chat.messages()) == 2


@pytest.mark.parametrize("change", [{"content": "hello!"}, {"parent_id": "ANSWER"}])
async def test_another_message_under_a_used_client_message_id_is_refused(chat: Chat, change: dict[str, str]) -> None:
    answer = await chat.turn("hello", client_message_id="m1")
    body = {name: answer["id"] if value == "ANSWER" else value for name, value in change.items()}
    refused = await chat.post(
        f"conversations/{chat.id}/messages", {"content": "hello", "client_message_id": "m1", **body}
    )
    problem(refused, 409, "client_message_id_reused")
    assert len(await chat.messages()) == 2


async def test_client_message_ids_of_two_conversations_do_not_meet(chat: Chat) -> None:
    await chat.turn("hello", client_message_id="m1")
    other = (await chat.post("conversations", {})).json()["id"]
    answer = await chat.post(f"conversations/{other}/messages", {"content": "other", "client_message_id": "m1"})
    assert answer.status_code == 202
    assert answer.json()["message"]["content"] == "other"


async def test_an_idempotency_key_makes_sending_again_safe(chat: Chat) -> None:
    path, body = f"conversations/{chat.id}/messages", {"content": "hello"}
    first = await chat.post(path, body, **{"Idempotency-Key": "k1"})
    again = await chat.post(path, body, **{"Idempotency-Key": "k1"})
    other = await chat.post(path, {"content": "other"}, **{"Idempotency-Key": "k1"})
    assert (first.status_code, again.status_code, again.content) == (202, 202, first.content)
    problem(other, 422, "idempotency_key_reused")
    assert len(await chat.messages()) == 2


# --- the tree --------------------------------------------------------------------------------------------------------


async def test_without_a_parent_a_message_follows_the_newest_one(chat: Chat) -> None:
    first = await chat.turn("one")
    body = await chat.say("two")
    assert body["message"]["parent_id"] == first["id"]


async def test_another_parent_makes_a_branch_whose_prompt_knows_nothing_of_the_first(chat: Chat) -> None:
    first = await chat.turn("one")
    await chat.turn("two")
    await chat.turn("two, but better", parent_id=first["id"])
    assert [message["content"] for message in await chat.messages()] == [
        "one",
        "You said: one.",
        "two, but better",
        "You said: two, but better.",
    ]
    assert said(chat.engine.requests[-1].turns) == [
        ("user", "one"),
        ("assistant", "You said: one."),
        ("user", "two, but better"),
    ]


async def test_a_null_parent_begins_anew(chat: Chat) -> None:
    await chat.turn("one")
    body = await chat.say("one, but better", parent_id=None)
    assert body["message"]["parent_id"] is None
    await chat.ended(body["response"]["id"])
    assert said(chat.engine.requests[-1].turns) == [("user", "one, but better")]


@pytest.mark.parametrize("parent_id", [UNKNOWN, "nonsense", "FOREIGN"])
async def test_a_parent_that_is_not_here_is_not_found(chat: Chat, parent_id: str) -> None:
    if parent_id == "FOREIGN":
        here = chat.id
        chat.id = (await chat.post("conversations", {})).json()["id"]
        parent_id = (await chat.turn("elsewhere"))["id"]
        chat.id = here
    problem(await chat.try_to_say("hello", parent_id=parent_id), 404, "not_found")
    assert await chat.messages() == []


async def test_a_message_cannot_follow_a_message_of_the_user(chat: Chat) -> None:
    body = await chat.say("one")
    problem(await chat.try_to_say("two", parent_id=body["message"]["id"]), 400, "parent_not_an_answer")
    assert len(await chat.messages()) == 2


async def test_regenerating_makes_a_sibling_answer(chat: Chat) -> None:
    first = await chat.turn("hello")
    body = await chat.regenerate(first["parent_id"])
    assert (body["message"]["role"], body["message"]["content"]) == ("assistant", "")
    assert body["message"]["id"] == body["response"]["message_id"] != first["id"]
    await chat.ended(body["response"]["id"])
    question, answer = await chat.messages()
    assert question["children"] == [first["id"], answer["id"]]
    assert said(chat.engine.requests[0].turns) == said(chat.engine.requests[1].turns)


async def test_only_a_message_of_the_user_can_be_answered_again(chat: Chat) -> None:
    answer = await chat.turn("hello")
    path = f"conversations/{chat.id}/responses"
    problem(await chat.post(path, {"parent_id": answer["id"]}), 400, "parent_not_a_user_message")
    problem(await chat.post(path, {"parent_id": UNKNOWN}), 404, "not_found")


async def test_somebody_elses_conversation_and_response_are_not_found(chat: Chat) -> None:
    mine = await chat.turn("secret")
    async with chat.running.signed_in("bob") as bob:
        for method, path, body in [
            ("POST", f"conversations/{chat.id}/messages", {"content": "x"}),
            ("POST", f"conversations/{chat.id}/responses", {"parent_id": mine["parent_id"]}),
            ("GET", f"responses/{mine['response_id']}", None),
            ("GET", f"responses/{mine['response_id']}/events", None),
            ("POST", f"responses/{mine['response_id']}/cancel", None),
        ]:
            refused = (
                await bob.request(method, f"/api/v1/{path}", json=body)
                if body
                else await bob.request(method, f"/api/v1/{path}")
            )
            problem(refused, 404, "not_found")


# --- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "invalid_input"),
        ({"content": ""}, 400, "invalid_input"),
        ({"content": 5}, 400, "invalid_input"),
        ({"content": " \t\r\n\u2003"}, 400, "content_empty"),
        ({"content": "a\x00b"}, 400, "invalid_input"),
        ({"content": "é" * 65537}, 413, "content_too_large"),
        ({"content": "x", "parent_id": 7}, 400, "invalid_input"),
        ({"content": "x", "client_message_id": ""}, 400, "invalid_input"),
        ({"content": "x", "client_message_id": "x" * 129}, 400, "invalid_input"),
        ({"content": "x", "unknown": 1}, 400, "invalid_input"),
        ({"content": "x", "params": {"temperature": 3}}, 400, "invalid_input"),
        ({"content": "x", "params": {"top_p": 0}}, 400, "invalid_input"),
        ({"content": "x", "params": {"max_tokens": 0}}, 400, "invalid_input"),
        ({"content": "x", "params": {"stop": [""]}}, 400, "invalid_input"),
        ({"content": "x", "params": {"stop": ["x"] * 17}}, 400, "invalid_input"),
        ({"content": "x", "params": {"stop": ["x" * 257]}}, 400, "invalid_input"),
        ({"content": "x", "params": {"stop": ["\x00"]}}, 400, "invalid_input"),
        ({"content": "x", "params": {"min_tokens": 5, "max_tokens": 4}}, 400, "invalid_input"),
        ({"content": "x", "params": {"logit_bias": {}}}, 400, "invalid_input"),
    ],
)
async def test_what_cannot_be_taken_is_refused_and_not_stored(
    chat_on_sqlite: Chat, body: dict[str, Any], status: int, code: str
) -> None:
    chat = chat_on_sqlite
    problem(await chat.post(f"conversations/{chat.id}/messages", body), status, code)
    assert await chat.messages() == []


async def test_a_character_that_no_database_takes_is_the_callers_fault_wherever_it_stands(chat: Chat) -> None:
    messages, responses = f"conversations/{chat.id}/messages", f"conversations/{chat.id}/responses"
    problem(await chat.post(messages, {"content": "x", "client_message_id": "a\x00b"}), 400, "invalid_input")
    problem(await chat.post(messages, {"content": "x", "parent_id": "\x00"}), 404, "not_found")
    problem(await chat.post(responses, {"parent_id": "\x00"}), 404, "not_found")
    assert await chat.messages() == []


async def test_the_largest_message_is_taken_and_one_byte_more_is_not(chat: Chat) -> None:
    limit = chat.context.settings.message_max_bytes
    refused = problem(await chat.try_to_say("x" * (limit + 1)), 413, "content_too_large")
    assert (refused["content_bytes"], refused["limit_bytes"]) == (limit + 1, limit)
    assert (await chat.try_to_say("x" * limit)).status_code == 202


async def test_parameters_reach_the_engine_and_the_log_as_they_are_used(chat: Chat) -> None:
    params = {"max_tokens": 3, "temperature": 0, "top_k": 5, "seed": 2**63 - 1, "stop": ["said", "END"]}
    body = await chat.say("hello", params=params)
    await chat.ended(body["response"]["id"])
    sampling = chat.engine.requests[0].sampling
    assert (sampling.max_tokens, sampling.temperature, sampling.top_k) == (3, 0, 5)
    assert (sampling.seed, sampling.stop, sampling.top_p) == (2**63 - 1, ("said", "END"), chat.context.settings.top_p)
    created = (await chat.events(body["response"]["id"]))[0]
    assert created["data"]["params"] == body["response"]["params"]
    assert created["data"]["params"] | params == created["data"]["params"]


@pytest.mark.parametrize("is_read_elsewhere", [False, True])
async def test_a_prompt_is_read_once_and_again_where_it_was_read_behind_another_message(
    chat_on_sqlite: Chat, monkeypatch: pytest.MonkeyPatch, is_read_elsewhere: bool
) -> None:
    chat, judge, read = chat_on_sqlite, Admission.judge, dispatcher.read_prompt
    read_again: list[str] = []

    async def judged(*arguments: Any) -> Verdict:
        verdict = await judge(*arguments)
        return replace(verdict, leaf_id="another") if is_read_elsewhere else verdict

    async def read_prompt(database: Database, conversation_id: str, leaf_id: str, model: ModelInfo | None) -> Prompt:
        read_again.append(leaf_id)
        return await read(database, conversation_id, leaf_id, model)

    monkeypatch.setattr(Admission, "judge", judged)
    monkeypatch.setattr(dispatcher, "read_prompt", read_prompt)
    first = await chat.turn("one")
    await chat.turn("two")
    await chat.ended((await chat.regenerate(first["parent_id"]))["response"]["id"])
    contents = [[words for _, words in said(request.turns)][::2] for request in chat.engine.requests]
    assert contents == [["one"], ["one", "two"], ["one"]]
    assert len(read_again) == (3 if is_read_elsewhere else 0)
