"""What `/v1` refuses: always in OpenAI's form, and always with the name of the field that is to blame."""

from __future__ import annotations

import asyncio
import string
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.openai.chat_request import NEUTRAL, require_supported
from app.openai.errors import UnsupportedParameter
from app.openai.messages import ChatMessage
from app.openai.schemas import ChatCompletionCreate
from engine.types import EngineState
from tests.app.openai.surface import Program, assistant, error, open_program, user
from tests.support.fake_engine import FakeEngine
from tests.support.scripts import ENDLESS

KNOWN = {field.name for field in msgspec.structs.fields(ChatCompletionCreate)}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(0, 1) | st.text(string.ascii_letters, max_size=8),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(string.ascii_letters, max_size=4), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(
    name=st.text(string.ascii_letters + "_", min_size=1, max_size=20).filter(lambda name: name not in KNOWN), value=JSON
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_every_unknown_field_is_named(program: Program, name: str, value: Any) -> None:
    refused = error(await program.try_to_complete(**{name: value}), 400, "unknown_parameter", name)
    assert name in refused["message"]


@given(name=st.sampled_from(sorted(NEUTRAL)), value=JSON)
def test_every_unsupported_field_is_named_unless_it_changes_nothing(name: str, value: Any) -> None:
    body = {"model": "fake", "messages": [user("hello")], name: value}
    wanted = msgspec.convert(body, ChatCompletionCreate)
    changes_nothing = value is None or any(type(value) is type(same) and value == same for same in NEUTRAL[name])
    if changes_nothing:
        require_supported(wanted)
    else:
        with pytest.raises(UnsupportedParameter) as refused:
            require_supported(wanted)
        assert refused.value.param == name


def test_every_field_is_either_used_or_refused() -> None:
    """Whoever adds a field says which of the two it is."""
    used = {
        *("model", "messages", "stream", "stream_options", "user", "max_tokens", "max_completion_tokens"),
        *("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty"),
        *("seed", "stop", "min_tokens", "ignore_eos", "logprobs", "top_logprobs", "response_format"),
        *("tools", "tool_choice", "parallel_tool_calls"),
    }
    assert used | NEUTRAL.keys() == KNOWN
    assert not used & NEUTRAL.keys()


@given(name=st.sampled_from(["tool_calls", "function_call", "audio", "refusal", "name"]))
def test_fields_of_a_message_that_cannot_be_said_are_known(name: str) -> None:
    assert name in {field.name for field in msgspec.structs.fields(ChatMessage)}


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"temperature": 2.5}, "temperature", "invalid_value"),
    ({"temperature": "0"}, "temperature", "invalid_value"),
    ({"top_p": 0}, "top_p", "invalid_value"),
    ({"max_tokens": 0}, "max_tokens", "invalid_value"),
    ({"max_tokens": 1, "max_completion_tokens": 2}, "max_tokens", "invalid_value"),
    ({"max_tokens": 1, "min_tokens": 2}, "min_tokens", "invalid_value"),
    ({"stop": ["a"] * 17}, "stop", "invalid_value"),
    ({"stop": ""}, "stop", "invalid_value"),
    ({"n": 2}, "n", "unsupported_parameter"),
    ({"n": True}, "n", "unsupported_parameter"),
    ({"top_logprobs": 3}, "top_logprobs", "invalid_value"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "invalid_value"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type", "invalid_value"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name", "invalid_value"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools", "unsupported_parameter"),
    ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
    ({"response_format": {"type": "xml"}}, "response_format.type", "invalid_value"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "invalid_value"),
    ({"logit_bias": {"1": 5}}, "logit_bias", "unsupported_parameter"),
    ({"stream_options": {"include_usage": True}}, "stream_options", "invalid_value"),
    (
        {"stream": True, "stream_options": {"include_obfuscation": True}},
        "stream_options.include_obfuscation",
        "unsupported_parameter",
    ),
    ({"stream": True, "stream_options": {"more": 1}}, "stream_options.more", "unknown_parameter"),
    ({"user": "x" * 513}, "user", "invalid_value"),
    ({"model": 7}, "model", "invalid_value"),
    ({"messages": []}, "messages", "invalid_value"),
    ({"messages": [{"content": "hello"}]}, "messages[0].role", "invalid_value"),
    ({"messages": [{"role": "user"}]}, "messages[0].content", "invalid_value"),
    ({"messages": [{"role": "user", "content": "hello", "extra": 1}]}, "messages[0].extra", "unknown_parameter"),
    ({"messages": [{"role": "robot", "content": "hello"}]}, "messages[0].role", "invalid_value"),
    (
        {"messages": [{"role": "tool", "content": "7", "tool_call_id": "a"}]},
        "messages[0]",
        "unsupported_parameter",
    ),
    ({"messages": [{**user("hello"), "name": "ann"}]}, "messages[0].name", "unsupported_parameter"),
    (
        {"messages": [user("a"), {**assistant(""), "tool_calls": [{}]}, user("b")]},
        "messages[1].tool_calls[0].id",
        "invalid_value",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        "messages[0].content[0].type",
        "unsupported_parameter",
    ),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text", "invalid_value"),
    ({"messages": [user("a"), assistant("b")]}, "messages[1].role", "invalid_value"),
]


async def test_what_cannot_be_as_it_is_is_named_with_its_place(program: Program) -> None:
    for body, param, code in REFUSED:
        error(await program.try_to_complete(**body), 400, code, param)
    assert program.engine.requests == []
    assert (await program.usage())["answers"] == 0


async def test_errors_outside_of_a_body_have_the_same_form(program: Program) -> None:
    stranger = {"Authorization": "Bearer kv_nobody"}
    error(await program.try_to_complete(headers=stranger), 401, "invalid_api_key")
    error(await program.http.get("/v1/models", headers={"Authorization": "Basic x"}), 401, "invalid_api_key")
    error(await program.http.get("/v1/completions"), 404, "unknown_url")
    error(await program.http.get("/v1"), 404, "unknown_url")
    error(await program.http.get("/v1/chat/completions"), 405, "method_not_allowed")
    error(await program.http.get("/v1/models", params={"limit": "5"}), 400, "unknown_parameter")
    error(await program.try_to_complete(model="gpt-4o"), 404, "model_not_found", "model")
    error(
        await program.try_to_complete(headers={"X-Kvasir-Session": "two words"}),
        400,
        "invalid_value",
        "X-Kvasir-Session",
    )
    wrong = {"content-type": "text/plain"}
    error(await program.http.post("/v1/chat/completions", content=b"{}", headers=wrong), 415, "unsupported_media_type")
    right = {"content-type": "application/json"}
    error(await program.http.post("/v1/chat/completions", content=b"{", headers=right), 400, "invalid_input")
    error(await program.http.post("/v1/chat/completions"), 400, "invalid_value")
    # The other surfaces keep their own.
    assert (await program.http.get("/api/v1/nothing")).headers["content-type"] == "application/problem+json"


async def test_a_body_beyond_its_limit_is_a_413(tmp_path: Path, sqlite_url: str) -> None:
    async with open_program(tmp_path, sqlite_url, openai_body_max_bytes=2000) as program:
        error(await program.try_to_complete("x" * 3000), 413, "payload_too_large")


async def test_a_chat_that_can_never_fit_says_how_many_tokens_fit(tmp_path: Path, sqlite_url: str) -> None:
    engine = FakeEngine(delay_s=0, context_tokens=20)
    async with open_program(tmp_path, sqlite_url, engine=engine) as program:
        refused = error(await program.try_to_complete("word " * 40), 400, "context_length_exceeded", "messages")
        assert "20" in refused["message"] or "19" in refused["message"]


async def test_a_full_engine_and_a_limit_say_when_to_come_back(tmp_path: Path, sqlite_url: str) -> None:
    engine = FakeEngine(max_running=1, max_waiting=0)
    async with open_program(tmp_path, sqlite_url, engine=engine, quota_requests_per_minute=3) as program:
        engine.queue_script(ENDLESS)
        first = asyncio.create_task(program.try_to_complete())
        await engine.received(1)
        full = await program.try_to_complete()
        error(full, 503, "queue_full")
        assert int(full.headers["retry-after"]) >= 1
        engine.cancel(engine.requests[0].request_id)
        error(await first, 503, "interrupted")
        for _ in range(2):
            engine.queue_script(ENDLESS)
            again = asyncio.create_task(program.try_to_complete(max_tokens=1))
            await engine.received(len(engine.requests) + 1)
            engine.advance_to_end()
            assert (await again).status_code == 200
        refused = await program.try_to_complete()
        assert error(refused, 429, "quota_exceeded")["type"] == "rate_limit_error"
        assert int(refused.headers["retry-after"]) >= 1
        used = await program.usage()
        assert (used["answers"], used["cancelled"], used["incomplete"]) == (3, 1, 2)


async def test_before_the_model_is_there_and_when_the_server_ends_it_is_a_503(tmp_path: Path, sqlite_url: str) -> None:
    engine = FakeEngine(delay_s=0, ready=False)
    async with open_program(tmp_path, sqlite_url, engine=engine) as program:
        for answer in (await program.try_to_complete(), await program.http.get("/v1/models")):
            error(answer, 503, "engine_not_ready")
            assert answer.headers["retry-after"]
        engine.become_ready()
        assert engine.state is EngineState.READY
        await program.complete()
        program.context.readiness.drain()
        error(await program.try_to_complete(), 503, "draining")
