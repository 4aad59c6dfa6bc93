"""JSON and calls of tools through the official client, from the body to the sampled tokens and back.

The engine is the real one, its model a tiny one of random weights that would say nothing of the kind by itself.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import httpx
import openai
import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel, Field

from engine.config import EngineConfig
from engine.local import LocalEngine
from engine.model.loader import LoadedModel
from engine.tool_dialect import ToolDialect
from tests.app.openai.surface import open_program
from tests.support.tiny_model import SPEC, TinyDecoder, TinyTokenizer, tiny_config, tiny_info

TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a place",
            "parameters": {
                "type": "object",
                "properties": {
                    "place": {"enum": ["Rome", "Oslo"]},
                    "days": {"type": "integer", "minimum": 1, "maximum": 9},
                },
                "required": ["place", "days"],
                "additionalProperties": False,
            },
        },
    },
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "additionalProperties": False}}},
]
QUESTION: Any = {"model": "tiny", "messages": [{"role": "user", "content": "How is the weather?"}], "max_tokens": 250}


class Part(BaseModel):
    kind: Literal["bread", "cheese"]
    grams: int = Field(ge=1, le=999)


class Meal(BaseModel):
    name: Literal["lunch", "supper"]
    parts: list[Part] = Field(max_length=2)
    is_warm: bool
    drink: Literal["tea"] | None


def load(config: EngineConfig, on_progress: Callable[[str], None]) -> LoadedModel:
    tokenizer = TinyTokenizer(tool_dialect=ToolDialect.HERMES)
    return LoadedModel(TinyDecoder(), tokenizer, replace(tiny_info(), has_tools=True), SPEC)


@pytest.fixture
async def client(tmp_path: Path, sqlite_url: str) -> AsyncIterator[AsyncOpenAI]:
    engine = LocalEngine(tiny_config(), load=load)
    async with open_program(tmp_path, sqlite_url, engine=engine, system_prompt="") as program:
        await engine.wait_ready()
        key = program.http.headers["Authorization"].removeprefix("Bearer ")
        transport = httpx.ASGITransport(program.running.app, client=("192.0.2.1", 50000))
        async with httpx.AsyncClient(transport=transport, timeout=120) as http:
            yield AsyncOpenAI(base_url="http://test/v1", api_key=key, http_client=http, max_retries=0)


async def test_a_pydantic_model_is_filled_in(client: AsyncOpenAI) -> None:
    for seed in range(4):
        answer = await client.chat.completions.parse(**QUESTION, seed=seed, response_format=Meal)
        assert answer.choices[0].finish_reason == "stop"
        assert isinstance(answer.choices[0].message.parsed, Meal)


async def test_json_mode_gives_an_object(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(**QUESTION, seed=3, response_format={"type": "json_object"})
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content or ""), dict)


async def test_a_forced_call_is_the_same_whole_and_streamed(client: AsyncOpenAI) -> None:
    """vllm-project/vllm#32152, sgl-project/sglang#8417: arguments doubled, the last brace lost, or two finish pieces."""
    for seed, choice in enumerate(["required", {"type": "function", "function": {"name": "weather"}}]):
        asked: Any = {**QUESTION, "seed": seed, "tools": TOOLS, "tool_choice": choice, "parallel_tool_calls": False}
        whole = (await client.chat.completions.create(**asked)).choices[0]
        assert whole.finish_reason == "tool_calls"
        assert whole.message.content is None
        (call,) = whole.message.tool_calls or []
        assert call.type == "function"
        json.loads(call.function.arguments)
        reasons, names, arguments = [], [], ""
        async for chunk in await client.chat.completions.create(**asked, stream=True):
            (piece,) = chunk.choices
            reasons += [piece.finish_reason] if piece.finish_reason else []
            for delta in piece.delta.tool_calls or []:
                assert delta.function is not None
                names += [delta.function.name] if delta.function.name else []
                arguments += delta.function.arguments or ""
        assert (reasons, names, arguments) == (["tool_calls"], [call.function.name], call.function.arguments)


async def test_a_call_and_its_result_go_back_into_the_chat(client: AsyncOpenAI) -> None:
    asked: Any = {**QUESTION, "seed": 1, "tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}
    message = (await client.chat.completions.create(**asked)).choices[0].message
    assert message.tool_calls
    history: Any = [
        *QUESTION["messages"],
        message.to_dict(),
        {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"},
    ]
    again = await client.chat.completions.create(
        **{**asked, "messages": history, "tool_choice": "none", "max_tokens": 5}
    )
    assert again.choices[0].message.tool_calls is None


async def test_what_cannot_be_promised_is_named(client: AsyncOpenAI) -> None:
    wrong: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "array", "uniqueItems": True}}}
    with pytest.raises(openai.BadRequestError, match="uniqueItems") as refused:
        await client.chat.completions.create(**QUESTION, response_format=wrong)
    assert refused.value.param == "response_format"
    tool = {"name": "odd", "strict": True, "parameters": {"type": "object", "properties": {"a": {"not": {}}}}}
    with pytest.raises(openai.BadRequestError, match=r"\[odd\].*not") as refused:
        await client.chat.completions.create(**QUESTION, tools=[{"type": "function", "function": tool}])
    assert refused.value.param == "tools"
    deep: Any = {}
    for _ in range(300):
        deep = {"properties": {"a": deep}}
    with pytest.raises(openai.BadRequestError, match="levels") as refused:
        await client.chat.completions.create(
            **QUESTION, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": deep}}
        )
    assert refused.value.code == "invalid_schema"
