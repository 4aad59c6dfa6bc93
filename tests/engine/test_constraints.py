"""A constrained answer is what was asked for, whatever the model would rather say and whatever happens around it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core import Engine
from engine.grammar import MOST_SECONDS
from engine.grammars import Grammars
from engine.structure import JsonObject
from engine.types import Finished, FinishReason, GenerationRequest, Priority, TextDelta
from tests.support.clock import SteppedClock
from tests.support.constrained import constrained, schema_of, submit
from tests.support.random_schemas import schemas
from tests.support.stepped_engine import TOKENIZER, finished, run, text
from tests.support.tiny_model import END, TinyDecoder, TinyTokenizer, repeating_logits, request, tiny_engine

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "tags": {"type": "array", "items": {"enum": ["old", "young"]}, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}


def answer(engine: Engine, one: GenerationRequest) -> tuple[str, Finished]:
    submit(engine, one)
    events = run(engine)
    return text(events, one.request_id), finished(events, one.request_id)


@settings(max_examples=60, deadline=None)
@given(schemas(), st.integers(0, 1 << 20), st.sampled_from([0, 3]))
def test_every_finished_answer_parses_and_is_what_the_schema_accepts(
    schema: dict[str, Any], seed: int, guesses: int
) -> None:
    said, end = answer(tiny_engine(speculation_tokens=guesses), constrained("a", schema_of(schema), seed=seed))
    assert end.failure is None
    assert end.reason in (FinishReason.STOP, FinishReason.LENGTH)
    if end.reason is FinishReason.STOP:
        jsonschema_rs.validate(schema, json.loads(said))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1 << 20))
def test_json_mode_gives_one_object(seed: int) -> None:
    said, end = answer(tiny_engine(), constrained("a", JsonObject(), seed=seed))
    assert end.reason in (FinishReason.STOP, FinishReason.LENGTH)
    assert end.reason is FinishReason.LENGTH or isinstance(json.loads(said), dict)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_it_is_the_same_alone_in_company_and_with_guesses(temperature: float) -> None:
    one = constrained("a", schema_of(PERSON), temperature=temperature, seed=5)
    expected, _ = answer(tiny_engine(decoder=TinyDecoder(repeating_logits)), one)
    json.loads(expected)
    others = [
        constrained("b", schema_of({"type": "array", "items": {"type": "integer"}, "maxItems": 9}), seed=2),
        constrained("c", JsonObject(), temperature=0.0),
        request("d", "abab" * 8, temperature=1.0, seed=3, max_tokens=60),
    ]
    for guesses in (0, 4):
        engine = tiny_engine(decoder=TinyDecoder(repeating_logits), speculation_tokens=guesses)
        submit(engine, *others, one)
        events = run(engine)
        assert text(events, "a") == expected
        json.loads(text(events, "b"))


def test_guesses_that_break_the_grammar_are_cut_and_those_that_keep_it_come_true() -> None:
    """ohdearquant/lattice#243: a draft was accepted unchecked."""
    schema = {"type": "array", "items": {"const": "abababab"}, "minItems": 6, "maxItems": 6}
    question = '["abababab","abababab","abababab"] and then abababab","abab'
    said = {}
    for guesses in (0, 6):
        engine = tiny_engine(decoder=TinyDecoder(repeating_logits), speculation_tokens=guesses, context_tokens=1000)
        said[guesses], _ = answer(engine, constrained("a", schema_of(schema), question, temperature=0.0))
        if guesses:
            assert engine._scheduler.speculation.num_accepted > 10
    assert said[0] == said[6]
    assert json.loads(said[6]) == ["abababab"] * 6


def test_a_preempted_answer_goes_on_where_it_was() -> None:
    one = constrained("a", schema_of(PERSON), seed=9)
    expected, _ = answer(tiny_engine(), replace(one, priority=Priority.BOT))
    engine = tiny_engine(num_pages=8, max_running=4)
    submit(engine, replace(one, priority=Priority.BACKGROUND))
    events = engine.step() + engine.step() + engine.step()
    submit(engine, *(request(f"b{number}", "x" * 30, max_tokens=40) for number in range(3)))
    events += run(engine)
    assert engine._scheduler.num_preemptions > 0
    assert text(events, "a") == expected


def test_the_answer_ends_with_the_json_whatever_the_end_tokens_do() -> None:
    for changes in ({"ignore_eos": True}, {"min_tokens": 200}, {}):
        said, end = answer(tiny_engine(), constrained("a", schema_of({"const": "abc"}), **changes))
        assert (json.loads(said), end.reason) == ("abc", FinishReason.STOP)
    engine = tiny_engine(tokenizer=TinyTokenizer(frozenset()))
    one = constrained("a", schema_of({"const": "abc"}))
    engine.submit(
        one, TOKENIZER.encode_turns(one.turns), 0.0, grammar=Grammars(TinyTokenizer(frozenset())).grammar(one)
    )
    assert text(run(engine), "a") == '"abc"'


def test_min_tokens_and_ignore_eos_hold_back_an_end_that_could_still_wait() -> None:
    digits = schema_of({"type": "integer"})

    def ends_soon(tokens: Any) -> Any:
        logits = repeating_logits(tokens)
        logits[END] += 20.0
        return logits

    short, longer, endless = (
        answer(tiny_engine(decoder=TinyDecoder(ends_soon)), constrained("a", digits, max_tokens=40, **changes))
        for changes in ({}, {"min_tokens": 12}, {"ignore_eos": True})
    )
    assert len(short[0]) < 12 == len(longer[0])
    assert longer[0].startswith(short[0])
    assert endless[1].reason is FinishReason.LENGTH


def test_the_tokens_may_end_before_the_json_does() -> None:
    said, end = answer(tiny_engine(), constrained("a", schema_of(PERSON), max_tokens=5))
    assert end.reason is FinishReason.LENGTH
    assert end.usage.output_tokens == 5
    with pytest.raises(json.JSONDecodeError):
        json.loads(said)


def test_json_that_is_whole_with_the_last_token_has_ended_by_itself() -> None:
    _, end = answer(tiny_engine(), constrained("a", schema_of({"const": "abc"})))
    _, same = answer(tiny_engine(), constrained("a", schema_of({"const": "abc"}), max_tokens=end.usage.output_tokens))
    assert same.reason is FinishReason.STOP


def test_a_stop_string_still_stops() -> None:
    said, end = answer(tiny_engine(), constrained("a", schema_of({"const": "abcdef"}), stop=("de",)))
    assert (said, end.reason) == ('"abc', FinishReason.STOP)


def test_numbers_and_spaces_do_not_run_on() -> None:
    """vllm-project/vllm#38696, vllm-project/vllm#52011: digits and spaces up to the token limit."""

    def digits_for_ever(tokens: Any) -> Any:
        logits = repeating_logits(tokens)
        logits[ord("0") : ord("9") + 1] += 50.0
        logits[ord(" ")] += 45.0
        return logits

    schema = {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    }
    for seed in range(3):
        engine = tiny_engine(decoder=TinyDecoder(digits_for_ever))
        said, end = answer(engine, constrained("a", schema_of({**schema, "additionalProperties": False}), seed=seed))
        assert end.reason is FinishReason.STOP
        assert end.usage.output_tokens < 150
        json.loads(said)


def test_who_has_no_constraint_is_left_alone() -> None:
    one = request("d", "abab" * 8, temperature=1.0, seed=3, max_tokens=60)
    alone, company = tiny_engine(), tiny_engine()
    submit(alone, one)
    submit(company, constrained("a", schema_of(PERSON)), one)
    expected = [event.text for event in run(alone) if isinstance(event, TextDelta)]
    assert [e.text for e in run(company) if isinstance(e, TextDelta) and e.request_id == "d"] == expected


def test_a_grammar_that_takes_too_long_fails_its_own_answer_only() -> None:
    clock = SteppedClock()
    is_compiled = False

    def slow_from_then_on() -> float:
        clock.advance(MOST_SECONDS / 5 if is_compiled else 0.0)
        return clock.monotonic()

    slow, other = constrained("a", schema_of(PERSON)), constrained("b", schema_of(PERSON))
    grammar = Grammars(TOKENIZER, slow_from_then_on).grammar(slow)
    is_compiled = True
    engine = tiny_engine()
    engine.submit(slow, TOKENIZER.encode_turns(slow.turns), 0.0, grammar=grammar)
    submit(engine, other)
    events = run(engine)
    failure = finished(events, "a").failure
    assert failure is not None
    assert "too complex" in failure.message
    assert finished(events, "b").reason is FinishReason.STOP
