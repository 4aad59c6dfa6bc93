"""`/v1/responses`: answers that go on from each other, and what is kept of them."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from app.database import DatabaseAway
from app.openai.response_request import NEUTRAL
from app.openai.response_schemas import ResponseCreate
from engine.types import ContextPolicy, Role
from tests.app.openai.surface import Program, error, open_program, program_of
from tests.support.client import running_app
from tests.support.clock import SteppedClock
from tests.support.fake_engine import FakeEngine
from tests.support.scripts import ENDLESS, failing_script, text_script

Body = dict[str, Any]


async def try_to_respond(program: Program, given: Any = "hello", **more: Any) -> httpx.Response:
    return await program.http.post("/v1/responses", json={"model": "fake", "input": given} | more)


async def respond(program: Program, given: Any = "hello", **more: Any) -> Body:
    answer = await try_to_respond(program, given, **more)
    assert answer.status_code == 200, answer.text
    body: Body = answer.json()
    return body


async def events_of(program: Program, **more: Any) -> list[Body]:
    answer = await try_to_respond(program, stream=True, **more)
    assert answer.status_code == 200, answer.text
    pairs = [event.split("\n", 1) for event in answer.text.strip().split("\n\n")]
    events = [(kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for kind, data in pairs]
    assert all(kind == data["type"] for kind, data in events)
    return [data for _, data in events]


def text_of(body: Body) -> str:
    return "".join(part["text"] for item in body["output"] for part in item["content"])


def said(program: Program) -> list[tuple[Role, str]]:
    return [(turn.role, turn.text) for turn in program.engine.requests[-1].turns]


async def test_a_whole_response_has_the_shape_of_openais(program: Program) -> None:
    program.will_say(text_script("Hello, Ann."))
    body = await respond(program, "Hi", instructions="Be brief.", metadata={"case": "7"}, max_output_tokens=50)
    assert (body["object"], body["status"], body["error"]) == ("response", "completed", None)
    (message,) = body["output"]
    assert (message["type"], message["role"], message["status"]) == ("message", "assistant", "completed")
    assert message["content"] == [{"type": "output_text", "text": "Hello, Ann.", "annotations": [], "logprobs": []}]
    assert (body["instructions"], body["metadata"], body["max_output_tokens"]) == ("Be brief.", {"case": "7"}, 50)
    usage = body["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert said(program) == [(Role.SYSTEM, "Be brief."), (Role.USER, "Hi")]
    assert (await program.http.get(f"/v1/responses/{body['id']}")).json() == body


async def test_the_events_of_a_stream_are_typed_and_numbered(program: Program) -> None:
    program.will_say(text_script("Hello, Ann."))
    events = await events_of(program)
    kinds = [event["type"].removeprefix("response.") for event in events]
    deltas = kinds.count("output_text.delta")
    assert deltas >= 1
    assert kinds == [
        *("created", "in_progress", "output_item.added", "content_part.added"),
        *["output_text.delta"] * deltas,
        *("output_text.done", "content_part.done", "output_item.done", "completed"),
    ]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    assert text == text_of(events[-1]["response"]) == "Hello, Ann."
    assert events[0]["response"]["status"] == "in_progress"
    places = {(event["item_id"], event["output_index"]) for event in events if "item_id" in event}
    assert places == {(events[-1]["response"]["output"][0]["id"], 0)}


async def test_one_goes_on_from_another_and_finds_what_was_computed(program: Program) -> None:
    first = await respond(program, "one two three", instructions="Count.")
    second = await respond(program, "four", previous_response_id=first["id"])
    # Instructions are for one response only, everything else is the chain's.
    assert said(program) == [(Role.USER, "one two three"), (Role.ASSISTANT, text_of(first)), (Role.USER, "four")]
    third = await respond(program, "five", previous_response_id=second["id"])
    assert [text for role, text in said(program) if role is Role.USER] == ["one two three", "four", "five"]
    assert program.engine.requests[-1].turns[1].token_ids is not None
    before = second["usage"]["input_tokens"] + second["usage"]["output_tokens"]
    assert third["usage"]["input_tokens_details"]["cached_tokens"] >= before
    # From the second turn on it is a session, which is moved and not lost when nobody asks for a while.
    (status,) = (await program.engine.snapshot()).sessions
    assert status.turns == 2
    # Another branch from the first.
    branch = await respond(program, "vier", previous_response_id=first["id"])
    assert branch["previous_response_id"] == first["id"]
    assert [text for role, text in said(program) if role is Role.USER] == ["one two three", "vier"]


async def test_what_is_not_to_be_stored_is_not(program: Program) -> None:
    body = await respond(program, store=False)
    assert body["store"] is False
    error(await program.http.get(f"/v1/responses/{body['id']}"), 404, "response_not_found")
    refused = await try_to_respond(program, previous_response_id=body["id"])
    error(refused, 404, "previous_response_not_found", "previous_response_id")


async def test_what_is_deleted_cannot_be_read_or_gone_on_with(program: Program) -> None:
    first = await respond(program)
    second = await respond(program, previous_response_id=first["id"])
    assert len((await program.engine.snapshot()).sessions) == 1
    gone = await program.http.delete(f"/v1/responses/{first['id']}")
    assert gone.json() == {"id": first["id"], "object": "response", "deleted": True}
    assert (await program.engine.snapshot()).sessions == ()
    error(await program.http.get(f"/v1/responses/{first['id']}"), 404, "response_not_found")
    error(await program.http.delete(f"/v1/responses/{first['id']}"), 404, "response_not_found")
    assert (await program.http.get(f"/v1/responses/{second['id']}")).status_code == 200
    for previous in (first["id"], second["id"]):
        refused = await try_to_respond(program, previous_response_id=previous)
        error(refused, 404, "previous_response_not_found", "previous_response_id")


async def test_a_response_is_its_keys_and_its_customers_own(tmp_path: Path, database_url: str) -> None:
    async with (
        running_app(tmp_path, database_url, engine=FakeEngine(delay_s=0)) as running,
        program_of(running, "ann", keys=2) as (one, other),
        running.signed_in("bob") as bob,
    ):
        body = await respond(one, user="alice")
        for stranger in (other, Program(running, bob)):
            path = f"/v1/responses/{body['id']}"
            error(await stranger.http.get(path), 404, "response_not_found")
            error(await stranger.http.delete(path), 404, "response_not_found")
            refused = await try_to_respond(stranger, previous_response_id=body["id"], user="alice")
            error(refused, 404, "previous_response_not_found", "previous_response_id")
        for customer in ({}, {"user": "mallory"}):
            refused = await try_to_respond(one, previous_response_id=body["id"], **customer)
            error(refused, 404, "previous_response_not_found", "previous_response_id")
        await respond(one, previous_response_id=body["id"], user="alice")


async def test_an_answer_that_is_cut_is_incomplete_and_one_that_fails_failed(program: Program) -> None:
    program.will_say(ENDLESS, ENDLESS, failing_script("Hel", "lo"), failing_script("Hel", "lo"))
    cut = await respond(program, max_output_tokens=3)
    assert (cut["status"], cut["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert cut["output"][0]["status"] == "incomplete"
    events = await events_of(program, max_output_tokens=3)
    assert events[-1]["type"] == "response.incomplete"
    error(await try_to_respond(program), 500, "request_failed")
    failed = (await events_of(program))[-1]
    assert (failed["type"], failed["response"]["error"]["code"]) == ("response.failed", "server_error")
    stored = (await program.http.get(f"/v1/responses/{failed['response']['id']}")).json()
    assert (stored["status"], text_of(stored)) == ("failed", "Hello")


async def test_one_that_cannot_be_stored_is_not_said_to_be(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has an id can go on from it."""

    class Away:
        def write(self) -> None:
            raise DatabaseAway("it is restarted")

    monkeypatch.setattr(program.context.openai.responses, "_database", Away())
    error(await try_to_respond(program), 500, "storage_failed")
    last = (await events_of(program))[-1]
    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    assert (await respond(program, store=False))["status"] == "completed"
    assert (await program.usage())["completed"] == 3


async def test_messages_may_be_given_as_items(program: Program) -> None:
    first = await respond(program, "one")
    answer = first["output"][0]
    items = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "one"},
        answer,
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "two"}]},
    ]
    await respond(program, items)
    assert said(program) == [
        (Role.SYSTEM, "Be brief."),
        (Role.USER, "one"),
        (Role.ASSISTANT, text_of(first)),
        (Role.USER, "two"),
    ]


async def test_truncation_decides_what_happens_to_a_chain_that_has_outgrown_the_context(program: Program) -> None:
    first = await respond(program, "word " * 1500)
    refused = await try_to_respond(program, "word " * 600, previous_response_id=first["id"])
    error(refused, 400, "context_length_exceeded", "input")
    short = await respond(program, "word " * 600, previous_response_id=first["id"], truncation="auto")
    assert program.engine.requests[-1].context_policy is ContextPolicy.DROP_OLDEST_TURNS
    assert short["usage"]["kvasir"]["dropped_turns"] > 0


REFUSED: list[tuple[Body, str, str]] = [
    ({"tools": [{"type": "web_search"}]}, "tools[0].type", "invalid_value"),
    ({"tools": [{"type": "function", "name": "f"}]}, "tools", "unsupported_parameter"),
    ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
    ({"background": True}, "background", "unsupported_parameter"),
    ({"conversation": "conv_1"}, "conversation", "unsupported_parameter"),
    ({"include": ["file_search_call.results"]}, "include[0]", "invalid_value"),
    ({"top_logprobs": 2}, "top_logprobs", "invalid_value"),
    ({"text": {"format": {"type": "json_schema"}}}, "text.format.schema", "invalid_value"),
    ({"reasoning": {"effort": "high"}}, "reasoning", "unsupported_parameter"),
    ({"n": 2}, "n", "unknown_parameter"),
    ({"max_tokens": 2}, "max_tokens", "unknown_parameter"),
    ({"temperature": 3}, "temperature", "invalid_value"),
    ({"max_output_tokens": 1, "min_tokens": 2}, "min_tokens", "invalid_value"),
    ({"metadata": {"a": 1}}, "metadata[]", "invalid_value"),
    ({"truncation": "sometimes"}, "truncation", "invalid_value"),
    ({"instructions": "a\x00b"}, "instructions", "invalid_value"),
    ({"input": "a\x00b"}, "input", "invalid_value"),
    ({"input": []}, "input", "invalid_value"),
    ({"input": [{"type": "web_search_call"}]}, "input[0].type", "unsupported_parameter"),
    ({"input": [{"type": "function_call_output", "content": "x"}]}, "input[0].content", "invalid_value"),
    ({"input": [{"type": "function_call_output", "call_id": "a", "output": "x"}]}, "input[0]", "unsupported_parameter"),
    ({"input": [{"role": "user", "content": "x", "name": "f"}]}, "input[0].name", "invalid_value"),
    ({"input": [{"content": "x"}]}, "input[0].role", "invalid_value"),
    ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].type", "unsupported_parameter"),
    ({"input": [{"role": "assistant", "content": "x"}]}, "input[0]", "invalid_value"),
    ({"previous_response_id": "resp_1"}, "previous_response_id", "previous_response_not_found"),
]  # fmt: skip


async def test_what_cannot_be_as_it_is_is_named_with_its_place(program: Program) -> None:
    for body, param, code in REFUSED:
        error(await try_to_respond(program, **body), 404 if code.endswith("not_found") else 400, code, param)
    assert program.engine.requests == []


def test_every_field_is_either_used_or_refused() -> None:
    used = {
        *("model", "input", "instructions", "previous_response_id", "store", "stream", "max_output_tokens", "metadata"),
        *("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty"),
        *("seed", "stop", "min_tokens", "ignore_eos", "user", "truncation", "text", "include", "top_logprobs"),
        *("tools", "tool_choice", "parallel_tool_calls"),
    }
    assert used | NEUTRAL.keys() == {field.name for field in msgspec.structs.fields(ResponseCreate)}
    assert not used & NEUTRAL.keys()


async def test_a_chain_goes_when_nothing_was_added_to_it_for_as_long_as_it_is_kept(
    tmp_path: Path, database_url: str, clock: SteppedClock
) -> None:
    async with open_program(tmp_path, database_url, clock=clock) as program:
        first = await respond(program)
        clock.advance(timedelta(days=20).total_seconds())
        second = await respond(program, previous_response_id=first["id"])
        for days, status in ((29, 200), (2, 404)):
            clock.advance(timedelta(days=days).total_seconds())
            await program.context.openai.responses.purge()
            for body in (first, second):
                assert (await program.http.get(f"/v1/responses/{body['id']}")).status_code == status
