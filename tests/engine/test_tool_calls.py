"""Calls of tools by a whole engine: found in what the model says, and forced where the request asks for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core import Engine
from engine.errors import ConstraintRefused
from engine.grammars import Grammars
from engine.structure import JsonObject, Tool, Tools, ToolUse
from engine.tool_dialect import ToolDialect
from engine.types import (
    EngineEvent,
    Finished,
    FinishReason,
    GenerationRequest,
    RequestId,
    SamplingParams,
    TextDelta,
    ToolCallDelta,
)
from tests.support.constrained import schema_of
from tests.support.stepped_engine import Scripted, finished, run, text
from tests.support.tiny_model import END, TinyDecoder, TinyTokenizer, repeating_logits, request, tiny_engine
from tests.support.tool_templates import tool_tokenizer

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"place": {"enum": ["Rome", "Oslo"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["place", "days"],
    "additionalProperties": False,
}
WEATHER = Tool("weather", "The weather", json.dumps(PARAMETERS))
TIME = Tool("time", "The time", '{"type": "object", "properties": {}, "additionalProperties": false}')
TOOLS = Tools((WEATHER, TIME))
SCHEMAS = {"weather": PARAMETERS, "time": {"type": "object", "maxProperties": 0}}

HERMES, LLAMA, MISTRAL = ToolDialect.HERMES, ToolDialect.LLAMA, ToolDialect.MISTRAL


def asking(tools: Tools, name: str = "a", **sampling: Any) -> GenerationRequest:
    return replace(request(name, **{"temperature": 1.0, "seed": 1, "max_tokens": 300, **sampling}), tools=tools)


def answer(
    one: GenerationRequest, dialect: ToolDialect = HERMES, decoder: TinyDecoder | None = None, **more: Any
) -> list[EngineEvent]:
    tokenizer = TinyTokenizer(tool_dialect=dialect)
    engine = tiny_engine(tokenizer=tokenizer, decoder=decoder, **more)
    submit(engine, tokenizer, one)
    return run(engine)


def submit(engine: Engine, tokenizer: TinyTokenizer, *requests: GenerationRequest) -> None:
    grammars = Grammars(tokenizer)
    for one in requests:
        engine.submit(one, tokenizer.encode_turns(one.turns), 0.0, grammar=grammars.grammar(one))


def saying(said: str) -> TinyDecoder:
    return Scripted([*said.encode(), END])


def calls_of(events: Sequence[EngineEvent], name: str = "a") -> list[tuple[str | None, str]]:
    calls: list[tuple[str | None, str]] = []
    ids = set()
    for event in events:
        if isinstance(event, ToolCallDelta) and event.request_id == name:
            if event.call_id is not None:
                assert event.index == len(calls)
                calls.append((event.name, ""))
                ids.add(event.call_id)
            calls[event.index] = (calls[event.index][0], calls[event.index][1] + event.arguments)
    assert len(ids) == len(calls), "each call has an id of its own"
    return calls


def test_a_call_that_the_model_makes_is_told_as_it_comes_and_is_no_text() -> None:
    said = 'Let me see.\n<tool_call>\n{"name": "weather", "arguments": {"place": "Rome"}}\n</tool_call>'
    events = answer(asking(TOOLS, temperature=0.0), decoder=saying(said))
    assert text(events, "a") == "Let me see."
    assert calls_of(events) == [("weather", '{"place": "Rome"}')]
    assert len([event for event in events if isinstance(event, ToolCallDelta)]) > 5
    end = finished(events, "a")
    assert (end.reason, end.token_ids) == (FinishReason.STOP, None)
    assert end.usage.output_tokens == len(said) + 1


def test_a_request_without_tools_has_text_whatever_it_looks_like() -> None:
    said = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    for tools in (None, replace(TOOLS, use=ToolUse.NONE), Tools(())):
        events = answer(replace(request("a", max_tokens=99), tools=tools), decoder=saying(said))
        assert text(events, "a") == said
        assert finished(events, "a").token_ids is not None


def test_an_answer_without_calls_has_its_ids_and_logprobs() -> None:
    events = answer(asking(TOOLS, temperature=0.0, top_logprobs=0), decoder=saying("a < b <tool"))
    assert text(events, "a") == "a < b <tool"
    assert finished(events, "a").token_ids == tuple(b"a < b <tool")
    logprobs = [one for event in events if isinstance(event, TextDelta | Finished) for one in event.logprobs]
    assert "".join(one.text for one in logprobs) == "a < b <tool"


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from([*ToolDialect]), st.integers(0, 1 << 20), st.sampled_from([None, "weather", "time"]), st.booleans()
)
def test_whoever_has_to_call_calls_with_arguments_that_the_schema_accepts(
    dialect: ToolDialect, seed: int, only: str | None, parallel: bool
) -> None:
    tools = replace(TOOLS, use=ToolUse.REQUIRED, only=only, parallel=parallel)
    events = answer(asking(tools, seed=seed, max_tokens=160), dialect)
    end, calls = finished(events, "a"), calls_of(events)
    assert end.reason in (FinishReason.STOP, FinishReason.LENGTH)
    assert end.reason is FinishReason.LENGTH or text(events, "a") == ""
    whole = calls if end.reason is FinishReason.STOP else calls[:-1]
    for name, arguments in whole:
        assert name is not None
        assert only in (None, name)
        jsonschema_rs.validate(SCHEMAS[name], json.loads(arguments))
    if end.reason is FinishReason.STOP:
        assert calls
        assert parallel or len(calls) == 1


@pytest.mark.parametrize("dialect", [*ToolDialect])
def test_forced_calls_in_the_dialects_own_vocabulary(dialect: ToolDialect) -> None:
    """The marks may be control tokens there, which are no text anywhere else."""
    tokenizer = tool_tokenizer(dialect)
    one = asking(replace(TOOLS, use=ToolUse.REQUIRED, parallel=False))
    grammar = Grammars(tokenizer).grammar(one)
    assert grammar is not None
    opening = "" if dialect is LLAMA else dialect.opening
    separator = " [" if dialect is MISTRAL else "\n" if dialect is HERMES else ""
    call = f'{{"name": "weather", "{dialect.arguments_key}": {{"place": "Oslo", "days": 3}}}}'
    ending = "]" if dialect is MISTRAL else "\n</tool_call>" if dialect is HERMES else ""
    ids = [tokenizer.tool_mark_ids[opening]] if opening in tokenizer.tool_mark_ids else tokenizer.encode_answer(opening)
    ids += tokenizer.encode_answer(separator + call + ending)
    for token_id in ids:
        grammar.append(token_id)
    assert grammar.is_complete
    assert tokenizer.tool_decode(ids).replace(" ", "") == (opening + separator + call + ending).replace(" ", "")


def test_strict_arguments_are_kept_to_though_the_model_may_talk() -> None:
    strict = Tools((replace(WEATHER, strict=True), TIME))
    said = 'Hm <tool_call>\n{"name": "weather", "arguments": {"place": "Paris", "days": 100}}'
    events = answer(asking(strict, temperature=0.0), decoder=WantsToSay(said))
    assert text(events, "a").startswith("Hm")
    name, arguments = calls_of(events)[0]
    assert name == "weather"
    jsonschema_rs.validate(PARAMETERS, json.loads(arguments))


class WantsToSay(TinyDecoder):
    """A model that goes on with its text as far as it may, and otherwise says what the tiny one likes."""

    def __init__(self, said: str) -> None:
        wanted = said.encode()

        def logits(tokens: Sequence[int]) -> Any:
            values = repeating_logits(tokens)
            behind = len(tokens) - self.prompt
            if 0 <= behind < len(wanted):
                values[wanted[behind]] += 50.0
            else:
                values[END] += 50.0
            return values

        super().__init__(logits)
        self.prompt = 5


def test_one_call_at_most_where_calls_may_not_be_parallel() -> None:
    call = '<tool_call>\n{"name": "time", "arguments": {}}\n</tool_call>'
    said = f"{call}\n{call}"
    both = answer(asking(TOOLS, temperature=0.0), decoder=WantsToSay(said))
    one = answer(asking(replace(TOOLS, parallel=False), temperature=0.0), decoder=WantsToSay(said))
    assert (len(calls_of(both)), len(calls_of(one))) == (2, 1)


def test_what_is_said_instead_of_a_call_is_held_to_the_constraint() -> None:
    one = replace(asking(TOOLS, temperature=0.0), constraint=schema_of({"enum": ["yes", "no"]}))
    events = answer(one, decoder=WantsToSay('"yes"'))
    assert (text(events, "a"), calls_of(events)) == ('"yes"', [])
    events = answer(one, decoder=WantsToSay('<tool_call>\n{"name": "time", "arguments": {}}\n</tool_call>'))
    assert (text(events, "a"), calls_of(events)) == ("", [("time", "{}")])
    assert json.loads(text(answer(one, decoder=WantsToSay('"perhaps"')), "a")) in ("yes", "no")
    with pytest.raises(ConstraintRefused, match="like any JSON"):
        answer(replace(asking(TOOLS), constraint=JsonObject()), LLAMA)


def test_parameters_that_cannot_be_held_to_are_refused_only_where_they_are_promised() -> None:
    odd = Tool("odd", "", '{"type": "object", "properties": {"a": {"not": {}}}}')
    answer(asking(Tools((odd,)), temperature=0.0), decoder=saying("no"))
    for tools in (Tools((replace(odd, strict=True),)), Tools((odd,), ToolUse.REQUIRED), Tools((odd,), only="odd")):
        with pytest.raises(ConstraintRefused, match=r"\[odd\].*not"):
            answer(asking(tools))
    with pytest.raises(ConstraintRefused, match="'odd'"):
        answer(asking(Tools((replace(odd, parameters="[]"),), ToolUse.REQUIRED)))


def test_calls_are_the_same_in_company_and_with_guesses() -> None:
    tokenizer = TinyTokenizer(tool_dialect=HERMES)
    tools = replace(TOOLS, use=ToolUse.REQUIRED)
    expected = None
    for guesses, others in ((0, 0), (0, 3), (4, 2)):
        engine = tiny_engine(
            tokenizer=tokenizer, decoder=TinyDecoder(repeating_logits), speculation_tokens=guesses, context_tokens=1000
        )
        submit(engine, tokenizer, asking(tools, max_tokens=120))
        submit(
            engine, tokenizer, *(asking(tools, f"b{number}", seed=number, max_tokens=60) for number in range(others))
        )
        calls = calls_of(run(engine))
        assert calls
        expected = expected or calls
        assert calls == expected


def test_a_stop_string_and_the_limit_end_calls_like_text() -> None:
    said = '<tool_call>\n{"name": "weather", "arguments": {"place": "Rome"}}\n</tool_call>'
    events = answer(asking(TOOLS, temperature=0.0, stop=("Ro",)), decoder=saying(said))
    assert calls_of(events) == [("weather", '{"place": "')]
    events = answer(asking(TOOLS, temperature=0.0, max_tokens=50), decoder=saying(said))
    assert finished(events, "a").reason is FinishReason.LENGTH
    assert calls_of(events)[0][0] == "weather"


def test_a_request_is_plain_data() -> None:
    one = GenerationRequest(RequestId("a"), (), SamplingParams(), tools=TOOLS, constraint=JsonObject())
    assert hash(one) == hash(replace(one))
