"""How likely each token was: the model's own numbers, for exactly the tokens that are shown."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.sampler import Sampler, SamplingState
from engine.types import EngineEvent, Finished, GenerationRequest, SamplingParams, TextDelta, TokenLogprob
from tests.support.stepped_engine import finished, run, says, submit, text
from tests.support.tiny_model import VOCABULARY, TinyDecoder, repeating_logits, request, tiny_engine


def logprobs(events: list[EngineEvent], name: str = "a") -> list[TokenLogprob]:
    found: list[TokenLogprob] = []
    for event in events:
        if isinstance(event, TextDelta | Finished) and event.request_id == name:
            found += event.logprobs
    return found


def asking(one: GenerationRequest, top: int = 0) -> GenerationRequest:
    return replace(one, sampling=replace(one.sampling, top_logprobs=top))


def test_they_are_of_the_models_own_distribution_whatever_is_done_to_it() -> None:
    logits = torch.randn(1, VOCABULARY)
    expected = torch.log_softmax(logits[0], dim=-1)
    params = SamplingParams(
        temperature=0.3, top_k=5, repetition_penalty=1.5, presence_penalty=1.0, min_tokens=3, seed=1, top_logprobs=4
    )
    state = SamplingState(params, [1, 2, 3], VOCABULARY)
    (token,) = Sampler(VOCABULARY, frozenset({7})).sample(logits.clone(), [state])
    assert token is not None
    assert state.likelihood is not None
    assert state.likelihood.logprob == pytest.approx(float(expected[token]), abs=1e-5)
    best = expected.topk(4)
    assert [token_id for token_id, _ in state.likelihood.top] == best.indices.tolist()
    assert [logprob for _, logprob in state.likelihood.top] == pytest.approx(best.values.tolist(), abs=1e-5)


def test_who_does_not_ask_gets_none() -> None:
    engine = tiny_engine()
    submit(engine, request("a", max_tokens=8), asking(request("b", max_tokens=8)))
    events = run(engine)
    assert logprobs(events) == []
    assert len(logprobs(events, "b")) == finished(events, "b").usage.output_tokens


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([0, 1, 20]), st.integers(0, 1 << 20))
def test_there_is_one_for_each_token_that_is_shown_and_their_bytes_are_the_text(top: int, seed: int) -> None:
    engine = tiny_engine()
    submit(engine, asking(request("a", max_tokens=30, temperature=1.0, seed=seed), top))
    events = run(engine)
    found = logprobs(events)
    assert b"".join(one.bytes for one in found).decode(errors="replace") == text(events, "a")
    ids = finished(events, "a").token_ids
    assert ids is not None
    assert len(found) == len(ids)
    assert all(len(one.top) == top and one.logprob <= 0 for one in found)
    assert all(list(one.top) == sorted(one.top, key=lambda other: -other.logprob) for one in found)


def test_an_unfinished_character_waits_for_its_text() -> None:
    engine = tiny_engine(decoder=says("€".encode()[:2], "€".encode()[2:], b" hello"))
    submit(engine, asking(request("a", max_tokens=8)))
    deltas = [event for event in run(engine) if isinstance(event, TextDelta)]
    assert [(delta.text, len(delta.logprobs)) for delta in deltas] == [("€", 2), (" hello", 1)]
    assert deltas[0].logprobs[0].text == "\ufffd"


def test_what_a_stop_string_takes_away_has_none() -> None:
    engine = tiny_engine(decoder=says(b" hello", b" world", b"ab"))
    submit(engine, asking(request("a", max_tokens=8, stop=("orld",))))
    events = run(engine)
    assert text(events, "a") == " hello w"
    assert [one.text for one in logprobs(events)] == [" hello", " world"]


def test_text_that_is_held_back_for_a_stop_string_comes_with_its_own() -> None:
    engine = tiny_engine(decoder=says(b" hello", b" world", b"ab"))
    submit(engine, asking(request("a", max_tokens=8, stop=("hello world!",))))
    deltas = [event for event in run(engine) if isinstance(event, TextDelta)]
    assert [(delta.text, [one.text for one in delta.logprobs]) for delta in deltas] == [
        (" ", [" hello"]),
        ("hello worldab", [" world", "ab"]),
    ]


def test_tokens_without_text_have_theirs_at_the_end() -> None:
    engine = tiny_engine(decoder=says(b" hello"))
    submit(engine, asking(request("a", max_tokens=4, ignore_eos=True)))
    end = finished(run(engine), "a")
    assert [one.text for one in end.logprobs] == ["<end>"] * 3


def test_they_are_the_same_alone_in_company_and_with_guesses() -> None:
    alone, company, guessing = (
        tiny_engine(decoder=TinyDecoder(repeating_logits), speculation_tokens=guesses) for guesses in (0, 0, 4)
    )
    one = asking(request("a", "abcdefgh" * 4, max_tokens=30), 3)
    submit(alone, one)
    submit(company, one, *(request(f"b{number}", "hgfe" * 9, max_tokens=30) for number in range(3)))
    submit(guessing, one)
    expected = logprobs(run(alone))
    assert len(expected) > 20
    for engine in (company, guessing):
        assert logprobs(run(engine)) == expected
