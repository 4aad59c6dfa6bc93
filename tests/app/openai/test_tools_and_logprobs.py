"""Calls of tools, how likely tokens were, and answers that have to be JSON: from a request to the engine and back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.openai.completion import ChatChunks, whole_completion
from app.openai.known_answers import KnownAnswers
from engine.structure import JsonObject, JsonSchema, Tool, ToolCall, Tools, ToolUse
from engine.types import (
    Finished,
    FinishReason,
    ModelInfo,
    Namespace,
    Role,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
    Turn,
    Usage,
)
from tests.app.openai.surface import ID, Program, call_that_said, error, events, open_program, user
from tests.support.clock import SteppedClock
from tests.support.fake_engine import FakeEngine

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells it.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        "strict": True,
    },
}


class EngineWithTools(FakeEngine):
    """One whose model's template knows of tools."""

    @property
    def model(self) -> ModelInfo | None:
        model = super().model
        return None if model is None else replace(model, has_tools=True)


@pytest.fixture
async def program(tmp_path: Path, sqlite_url: str, clock: SteppedClock) -> AsyncIterator[Program]:
    async with open_program(tmp_path, sqlite_url, clock=clock, engine=EngineWithTools(delay_s=0)) as program:
        yield program


def finished(**more: Any) -> Finished:
    return Finished(ID, FinishReason.STOP, Usage(input_tokens=3, output_tokens=5), **more)


def test_calls_of_tools_are_a_message_without_content() -> None:
    call = call_that_said(
        ToolCallDelta(ID, 0, "", 1, "call_1", "weather"),
        ToolCallDelta(ID, 0, '{"city":', 2),
        ToolCallDelta(ID, 0, '"Paris"}', 3),
        ToolCallDelta(ID, 1, "{}", 4, "call_2", "time"),
    )
    call.end(finished())
    (choice,) = whole_completion(call, finished()).choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert call.tool_calls == (ToolCall("call_1", "weather", '{"city":"Paris"}'), ToolCall("call_2", "time", "{}"))


def test_chunks_of_a_call_begin_with_its_name_and_go_on_with_its_arguments() -> None:
    call = call_that_said(TextDelta(ID, "Let me see.", 1), ToolCallDelta(ID, 0, "", 2, "call_1", "weather"))
    chunks = ChatChunks(call, include_usage=False)
    said = call.take()
    assert said is not None
    first = chunks.more(said)
    assert call.take() is None
    call.add(ToolCallDelta(ID, 0, '{"city":', 3))
    call.add(ToolCallDelta(ID, 0, '"Paris"}', 4))
    said = call.take()
    assert said is not None
    stream = first + chunks.more(said) + chunks.ending(finished())
    choices = [chunk["choices"][0] for chunk in events(stream.decode())]
    deltas = [choice["delta"] for choice in choices]
    assert deltas[0] == {"content": "Let me see."}
    function = {"name": "weather", "arguments": ""}
    assert deltas[1] == {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}
    arguments = [piece["function"]["arguments"] for piece in deltas[2]["tool_calls"]]
    assert json.loads("".join(arguments)) == {"city": "Paris"}
    assert choices[-1]["finish_reason"] == "tool_calls"


def test_logprobs_come_with_the_text_and_none_is_below_what_json_can_say() -> None:
    never = TokenLogprob("?", b"?", float("-inf"))
    likely = TokenLogprob("é", "é".encode(), -0.5, (TokenLogprob("e", b"e", -1.5),))
    call = call_that_said(TextDelta(ID, "é", 1, (likely,)), top_logprobs=1)
    chunks = ChatChunks(call, include_usage=False)
    said = call.take()
    assert said is not None
    (chunk,) = events((chunks.more(said) + b"data: [DONE]").decode())
    (entry,) = chunk["choices"][0]["logprobs"]["content"]
    assert entry == {
        "token": "é",
        "logprob": -0.5,
        "bytes": [195, 169],
        "top_logprobs": [{"token": "e", "logprob": -1.5, "bytes": [101]}],
    }
    # Tokens at the end that have no text are told of as well.
    end = finished(logprobs=(never,))
    call.end(end)
    assert call.take() is not None
    logprobs = whole_completion(call, end).choices[0].logprobs
    assert logprobs is not None
    assert [each.logprob for each in logprobs["content"]] == [-0.5, -9999.0]


def test_an_answer_behind_other_calls_of_tools_is_not_recognised() -> None:
    answers, ann = KnownAnswers(), Namespace.user("ann")
    called = Turn(Role.ASSISTANT, "", tool_calls=(ToolCall("1", "weather", "{}"),))
    history = (Turn(Role.USER, "hi"), called, Turn(Role.TOOL, "rain", tool_call_id="1"))
    answers.remember(ann, history, "It rains.", (1, 2))
    known = answers.recognised(ann, (*history, Turn(Role.ASSISTANT, "It rains.")))
    assert known[-1].token_ids == (1, 2)
    other = replace(called, tool_calls=(ToolCall("1", "weather", '{"city":"Rome"}'),))
    unknown = answers.recognised(ann, (history[0], other, history[2], Turn(Role.ASSISTANT, "It rains.")))
    assert unknown[-1].token_ids is None


async def test_tools_and_forms_reach_the_engine(program: Program) -> None:
    called = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    history = [
        user("How is it?"),
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
    ]
    await program.complete(history, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False)
    request = program.engine.requests[-1]
    assert request.turns[1].tool_calls == (ToolCall("call_1", "weather", "{}"),)
    assert (request.turns[2].role, request.turns[2].tool_call_id) == (Role.TOOL, "call_1")
    schema = '{"type":"object","properties":{"city":{"type":"string"}}}'
    tool = Tool("weather", "Tells it.", schema, strict=True)
    assert request.tools == Tools((tool,), ToolUse.REQUIRED, None, parallel=False)
    named = {"type": "function", "function": {"name": "weather"}}
    await program.complete(tools=[WEATHER], tool_choice=named, response_format={"type": "json_object"})
    request = program.engine.requests[-1]
    assert request.tools == Tools((tool,), only="weather")
    assert request.constraint == JsonObject()
    form = {"type": "json_schema", "json_schema": {"name": "any", "schema": {"type": "object"}, "strict": True}}
    await program.complete(response_format=form, logprobs=True, top_logprobs=2)
    request = program.engine.requests[-1]
    assert request.constraint == JsonSchema('{"type":"object"}')
    assert request.sampling.top_logprobs == 2


async def test_tools_that_cannot_be_are_named(program: Program) -> None:
    named = {"type": "function", "function": {"name": "time"}}
    refused = await program.try_to_complete(tools=[WEATHER], tool_choice=named)
    error(refused, 400, "invalid_value", "tool_choice")
    error(await program.try_to_complete(tools=[WEATHER, WEATHER]), 400, "invalid_value", "tools")


async def test_the_form_of_a_response_reaches_the_engine(program: Program) -> None:
    form = {"type": "json_schema", "name": "any", "schema": {"type": "object"}, "strict": True}
    body = {
        "model": "fake",
        "input": "hi",
        "text": {"format": form},
        "include": ["message.output_text.logprobs"],
        "top_logprobs": 2,
    }
    answer = await program.http.post("/v1/responses", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["text"] == {"format": form}
    request = program.engine.requests[-1]
    assert request.constraint == JsonSchema('{"type":"object"}')
    assert request.sampling.top_logprobs == 2
