"""What a server is asked: only what is meant, and only what it understands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.remote.completion_request import NotExpressible, completion_body
from engine.remote.dialect import Dialect, dialect_of
from engine.structure import JsonObject, JsonSchema, Tool, Tools
from engine.types import GenerationRequest, RequestId, Role, SamplingParams, Turn

TURNS = (
    Turn(Role.SYSTEM, "Be brief."),
    Turn(Role.USER, "Hi 😀"),
    Turn(Role.ASSISTANT, "Hi.", (1, 2)),
    Turn(Role.USER, "And?"),
)


def body(dialect: Dialect = Dialect.VLLM, **sampling: object) -> dict[str, object]:
    params = SamplingParams(**sampling)  # type: ignore[arg-type]
    return completion_body(dialect, "m", GenerationRequest(RequestId("r"), TURNS, params), "salted")


def test_neutral_values_are_left_out() -> None:
    assert body() == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi 😀"},
            {"role": "assistant", "content": "Hi."},
            {"role": "user", "content": "And?"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "temperature": 1.0,
        "top_p": 1.0,
        "cache_salt": "salted",
    }


def test_everything_else_is_sent() -> None:
    wanted = {
        "max_tokens": 7, "temperature": 0.0, "top_p": 0.5, "top_k": 3, "min_p": 0.1, "repetition_penalty": 1.1,
        "presence_penalty": 0.2, "frequency_penalty": 0.3, "seed": 5, "stop": ["\n"], "min_tokens": 2, "ignore_eos": True,
    }  # fmt: skip
    assert body(**{**wanted, "stop": ("\n",)}).items() >= wanted.items()


def test_the_salt_goes_where_the_server_takes_it() -> None:
    assert body(Dialect.SGLANG)["cache_salt"] == "salted"
    kvasir = body(Dialect.KVASIR)
    assert kvasir["user"] == "salted"
    assert "cache_salt" not in kvasir
    assert kvasir["stream_options"] == {"include_usage": True}
    assert not {"user", "cache_salt"} & body(Dialect.OPENAI).keys()


@pytest.mark.parametrize(
    ("dialect", "sampling", "name"),
    [
        (Dialect.OPENAI, {"repetition_penalty": 1.1}, "repetition_penalty"),
        (Dialect.OPENAI, {"top_k": 4}, "top_k"),
        (Dialect.OPENAI, {"min_tokens": 4}, "min_tokens"),
        (Dialect.OPENAI, {"stop": ("a", "b", "c", "d", "e")}, "stop for 5 strings"),
    ],
)
def test_what_a_server_cannot_do_is_refused_and_never_left_out(
    dialect: Dialect, sampling: dict[str, object], name: str
) -> None:
    with pytest.raises(NotExpressible, match=name):
        body(dialect, **sampling)


def test_what_an_answer_has_to_be_and_how_likely_its_tokens_were_is_asked_in_openais_words() -> None:
    request = GenerationRequest(
        RequestId("r"), TURNS, SamplingParams(top_logprobs=3), constraint=JsonSchema('{"type":"object"}')
    )
    sent = completion_body(Dialect.OPENAI, "m", request, "salted")
    schema = {"name": "answer", "schema": {"type": "object"}, "strict": True}
    assert sent["response_format"] == {"type": "json_schema", "json_schema": schema}
    assert (sent["logprobs"], sent["top_logprobs"]) == (True, 3)
    any_object = completion_body(Dialect.VLLM, "m", replace(request, constraint=JsonObject()), "salted")
    assert any_object["response_format"] == {"type": "json_object"}


def test_tools_are_refused() -> None:
    request = GenerationRequest(RequestId("r"), TURNS, tools=Tools((Tool("weather"),)))
    with pytest.raises(NotExpressible, match="tools"):
        completion_body(Dialect.VLLM, "m", request, "salted")


def test_a_server_is_known_by_its_name_and_others_are_not_guessed() -> None:
    assert [dialect_of(name) for name in ("vllm", "sglang", "kvasir", "openai", "library", "")] == [
        Dialect.VLLM, Dialect.SGLANG, Dialect.KVASIR, None, None, None,
    ]  # fmt: skip
