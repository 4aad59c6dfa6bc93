"""Calls of tools with the official client, from a tiny model of random weights whose template has them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI

from engine.config import EngineConfig
from engine.local import LocalEngine
from engine.model.loader import LoadedModel
from engine.tool_dialect import ToolDialect
from tests.app.openai.surface import program_of
from tests.support.client import running_app
from tests.support.tiny_model import SPEC, TinyDecoder, TinyTokenizer, tiny_config, tiny_info

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"place": {"enum": ["Rome", "Oslo"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["place", "days"],
    "additionalProperties": False,
}
FUNCTION: dict[str, Any] = {"name": "weather", "parameters": PARAMETERS, "strict": True}
ASKED: dict[str, Any] = {"model": "tiny", "temperature": 1.0}


def load(config: EngineConfig, on_progress: Callable[[str], None]) -> LoadedModel:
    tokenizer = TinyTokenizer(tool_dialect=ToolDialect.HERMES)
    return LoadedModel(TinyDecoder(), tokenizer, replace(tiny_info(), name="tiny", has_tools=True), SPEC)  # type: ignore[arg-type]


@pytest.fixture
async def client(tmp_path: Path, sqlite_url: str) -> AsyncIterator[AsyncOpenAI]:
    engine = LocalEngine(tiny_config(max_running=4, max_step_tokens=64), load=load)
    async with (
        running_app(tmp_path, sqlite_url, engine=engine) as running,
        program_of(running, "ann") as programs,
        httpx.AsyncClient(transport=httpx.ASGITransport(running.app, raise_app_exceptions=False)) as http,
    ):
        await engine.wait_ready()
        key = programs[0].http.headers["Authorization"].removeprefix("Bearer ")
        yield AsyncOpenAI(base_url="http://kvasir.test/v1", api_key=key, http_client=http, max_retries=0)


def require_arguments(text: str) -> None:
    arguments = json.loads(text)
    assert arguments.keys() == {"place", "days"}
    assert arguments["place"] in ("Rome", "Oslo")
    assert 1 <= arguments["days"] <= 9


async def test_a_chat_completion_calls_a_tool_and_goes_on_with_what_came_of_it(client: AsyncOpenAI) -> None:
    tools: Any = {"tools": [{"type": "function", "function": FUNCTION}], "tool_choice": "required"}
    question: dict[str, Any] = {"role": "user", "content": "Sun?"}
    made = await client.chat.completions.create(
        messages=[question], max_tokens=300, parallel_tool_calls=False, **ASKED, **tools
    )
    (choice,) = made.choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    (call,) = choice.message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "weather"
    require_arguments(call.function.arguments)
    result = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
    history: Any = [question, choice.message.to_dict(), result]
    async with client.chat.completions.stream(
        messages=history, max_tokens=300, parallel_tool_calls=False, **ASKED, **tools
    ) as stream:
        final = await stream.get_final_completion()
    streamed = final.choices[0].message.tool_calls or []
    assert streamed
    for each in streamed:
        require_arguments(each.function.arguments)


async def test_a_response_calls_a_tool_and_the_next_goes_on_with_what_came_of_it(client: AsyncOpenAI) -> None:
    tools: Any = {
        "tools": [{"type": "function", **FUNCTION}],
        "tool_choice": {"type": "function", "name": "weather"},
        # A model of random weights may go on calling until it is cut off.
        "parallel_tool_calls": False,
    }
    made = await client.responses.create(input="Sun?", max_output_tokens=300, **ASKED, **tools)
    (call,) = made.output
    assert call.type == "function_call"
    require_arguments(call.arguments)
    output: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "rain"}]
    asked: Any = {"input": output, "previous_response_id": made.id, "max_output_tokens": 300, **ASKED, **tools}
    async with client.responses.stream(**asked) as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    kinds = [event.type for event in events]
    assert kinds[:3] == ["response.created", "response.in_progress", "response.output_item.added"]
    assert kinds[-3:] == [
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = "".join(event.delta for event in events if event.type == "response.function_call_arguments.delta")
    assert deltas == "".join(item.arguments for item in final.output if item.type == "function_call")
    # As items, without the store.
    history: Any = [{"role": "user", "content": "Sun?"}, call.to_dict(), *output]
    again = await client.responses.create(input=history, max_output_tokens=300, store=False, **ASKED, **tools)
    assert again.output[0].type == "function_call"
