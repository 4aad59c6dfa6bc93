"""With guesses or without, an answer is the same in every respect but its time."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from engine.config import PAGE_TOKENS
from engine.core import Engine
from engine.model.batch import ForwardBatch
from engine.pages import PageId
from engine.sequence import Sequence
from engine.speculation import LEAST_PACE, Speculation, accepted
from engine.step_plan import Scheduled
from engine.types import (
    EngineState,
    Finished,
    FinishReason,
    GenerationRequest,
    Namespace,
    PromptProgress,
    RequestId,
    TextDelta,
)
from tests.support.clock import SteppedClock
from tests.support.tiny_model import TinyDecoder, TinyTokenizer, repeating_logits, request, tiny_engine

TOKENIZER = TinyTokenizer()
USERS = (Namespace.user("anna"), Namespace.user("bert"))
CIRCLE = "abcdefgh" * 4


# --- whole engines ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """All that a client may see of an answer, but when."""

    text: str
    token_ids: tuple[int, ...] | None
    reason: FinishReason
    input_tokens: int
    output_tokens: int


def repeating_engine(speculation_tokens: int, **changes: Any) -> Engine:
    return tiny_engine(decoder=TinyDecoder(repeating_logits), speculation_tokens=speculation_tokens, **changes)


def outcomes(engine: Engine, requests: list[GenerationRequest], arrivals: list[int]) -> dict[RequestId, Outcome]:
    """Step until all have ended; `arrivals` says in which step each comes."""
    texts: dict[RequestId, str] = {one.request_id: "" for one in requests}
    ended: dict[RequestId, Outcome] = {}
    step = 0
    while len(ended) < len(requests):
        for one, arrival in zip(requests, arrivals, strict=True):
            if arrival == step:
                engine.submit(one, TOKENIZER.encode_turns(one.turns), 0.0)
        for one_event in engine.step():
            if isinstance(one_event, TextDelta):
                texts[one_event.request_id] += one_event.text
            elif isinstance(one_event, Finished):
                usage = one_event.usage
                ended[one_event.request_id] = Outcome(
                    texts[one_event.request_id],
                    one_event.token_ids,
                    one_event.reason,
                    usage.input_tokens,
                    usage.output_tokens,
                )
            else:
                assert isinstance(one_event, PromptProgress) or engine.has_work
        engine._scheduler.check_integrity()
        step += 1
    assert engine._scheduler.pool.num_free + engine._scheduler.pool.num_evictable == engine._scheduler.pool.num_pages
    return ended


@st.composite
def requests_of(draw: st.DrawFn) -> list[GenerationRequest]:
    found = []
    for number in range(draw(st.integers(2, 5))):
        sampling = {
            "max_tokens": draw(st.sampled_from([1, 2, 5, 17, 40])),
            "temperature": draw(st.sampled_from([0.0, 0.0, 0.3, 0.9])),
            "seed": draw(st.integers(0, 3)),
            "top_k": draw(st.sampled_from([0, 3])),
            "top_p": draw(st.sampled_from([1.0, 0.8])),
            "min_p": draw(st.sampled_from([0.0, 0.1])),
            "repetition_penalty": draw(st.sampled_from([1.0, 1.0, 1.05])),
            "presence_penalty": draw(st.sampled_from([0.0, 0.0, 0.4])),
            "frequency_penalty": draw(st.sampled_from([0.0, 0.0, 0.2])),
            "min_tokens": draw(st.sampled_from([0, 0, 8])),
            "stop": draw(st.sampled_from([(), (), ("cd",), ("h", "fga")])),
            "ignore_eos": draw(st.booleans()),
        }
        text = draw(st.sampled_from(["", "ab", CIRCLE, CIRCLE + "xy" + CIRCLE[3:], "abc" * 9 + "d" * 5]))
        one = request(f"r{number}", text, **sampling)
        found.append(replace(one, namespace=draw(st.sampled_from([None, *USERS])), session="chat"))
    return found


@settings(max_examples=40, deadline=None)
@given(
    requests=requests_of(),
    data=st.data(),
    draft=st.sampled_from([1, 2, 4, 6, 20]),
    num_pages=st.sampled_from([8, 8, 12, 64]),
    max_step_tokens=st.sampled_from([5, 32]),
)
def test_greedy_or_sampled_an_answer_is_the_same_with_guesses_and_without(
    requests: list[GenerationRequest], data: st.DataObject, draft: int, num_pages: int, max_step_tokens: int
) -> None:
    """ohdearquant/lattice#243, ml-explore/mlx-lm#1109: a draft token was accepted unchecked, or rolling back broke the cache.

    Every other one asks again when the first have ended, and so begins with KV that was written beside rejected drafts.
    """
    arrivals = [data.draw(st.integers(0, 12)) + 40 * (number % 2) for number in range(len(requests))]
    size = {"num_pages": num_pages, "max_step_tokens": max_step_tokens, "context_tokens": num_pages * PAGE_TOKENS}
    guessing = repeating_engine(draft, **size)
    assert outcomes(guessing, requests, arrivals) == outcomes(repeating_engine(0, **size), requests, arrivals)
    stats = guessing.stats(EngineState.READY, 1)
    assert stats.accepted_tokens_total <= min(stats.drafted_tokens_total, stats.decoded_tokens_total)
    event(f"guessed: {stats.drafted_tokens_total > 0}, accepted: {stats.accepted_tokens_total > 0}")
    event(f"preempted: {stats.preemptions_total > 0}")


@pytest.mark.parametrize("temperature", [0.0, 0.4])
def test_answers_that_are_preempted_between_guesses_are_the_same_too(temperature: float) -> None:
    requests = [
        request(f"r{number}", "ab" * number, max_tokens=60, temperature=temperature, seed=number, ignore_eos=True)
        for number in range(6)
    ]
    size = {"num_pages": 9, "context_tokens": 9 * PAGE_TOKENS}
    guessing = repeating_engine(6, **size)
    assert outcomes(guessing, requests, [0] * 6) == outcomes(repeating_engine(0, **size), requests, [0] * 6)
    stats = guessing.stats(EngineState.READY, 1)
    assert stats.preemptions_total > 0
    assert stats.accepted_tokens_total > 50


@pytest.mark.parametrize("temperature", [0.0, 0.2])
def test_a_text_that_repeats_takes_a_fraction_of_the_steps(temperature: float) -> None:
    one = request("a", CIRCLE, max_tokens=80, temperature=temperature, seed=1, ignore_eos=True)
    quick, plain = repeating_engine(6), repeating_engine(0)
    assert outcomes(quick, [one], [0]) == outcomes(plain, [one], [0])
    stats = quick.stats(EngineState.READY, 1)
    assert stats.steps_total < 0.6 * plain.stats(EngineState.READY, 1).steps_total
    assert stats.accepted_tokens_total > 20
    assert stats.decoded_tokens_total == 80, "only what became part of the answer is counted"


def test_a_cancel_right_after_a_step_with_a_draft_leaves_no_page_behind() -> None:
    """am17an/llama.cpp#20: the place of a drafting request was never freed."""
    for steps in range(1, 14):
        engine = repeating_engine(6)
        engine.submit(request("a", CIRCLE, max_tokens=80, ignore_eos=True), [*CIRCLE.encode()], 0.0)
        for _ in range(steps):
            engine.step()
        engine.cancel(RequestId("a"))
        engine.cancel(RequestId("a"))
        assert engine._scheduler.pool.num_free == engine._scheduler.pool.num_pages


# --- what is accepted ------------------------------------------------------------------------------------------------


@given(draft=st.lists(st.integers(0, 2), max_size=6), data=st.data())
def test_accepted_is_what_was_sampled_up_to_the_first_that_was_not_guessed(
    draft: list[int], data: st.DataObject
) -> None:
    sampled = data.draw(st.lists(st.none() | st.integers(0, 2), min_size=len(draft) + 1, max_size=len(draft) + 1))
    taken = accepted(draft, sampled)
    assert taken == sampled[: len(taken)]
    assert taken[:-1] == draft[: len(taken) - 1]
    assert len(taken) == len(sampled) or taken[-1] != draft[len(taken) - 1]


# --- who guesses, and how much ---------------------------------------------------------------------------------------


def answer(text: list[int], *, max_tokens: int = 1000, pages: int | None = None) -> Scheduled:
    """A running answer whose last token is to be computed, and which has said `text`."""
    count = -(-len(text) // PAGE_TOKENS) if pages is None else pages
    sequence = Sequence(RequestId("a"), 0, list(text), 1, max_tokens, num_computed=len(text) - 1)
    sequence.pages = [PageId(page) for page in range(count)]
    return Scheduled(sequence, len(text) - 1, len(text))


def sure(**changes: Any) -> Scheduled:
    """One that repeats itself, and has done so for long."""
    item = answer([*range(10)], **changes)
    for token in [*range(10)] * 3:
        item.sequence.lookup.follow(item.sequence.tokens)
        item.sequence.append(token)
    tokens = len(item.sequence.tokens)
    item.sequence.pages = [PageId(page) for page in range(-(-tokens // PAGE_TOKENS))]
    return Scheduled(item.sequence, tokens - 1, tokens)


def unsure() -> Scheduled:
    """One that has said something twice for the first time."""
    return answer([*range(10), 3, 4])


def measured(row_s: float, fixed_s: float = 0.003, draft: int = 6, budget: int = 256) -> Speculation:
    """One that knows what steps take: so much each, and so much more for each row."""
    speculation = Speculation(draft, budget)
    for rows in range(1, 65):
        run = [answer([1, 2])] * rows
        speculation.observe(run, fixed_s + rows * row_s)
    return speculation


def lengths(speculation: Speculation, run: list[Scheduled], spare_pages: int = 100) -> list[int]:
    return [len(item.draft) for item in speculation.with_drafts(run, spare_pages)]


def test_one_answer_that_repeats_itself_guesses_as_much_as_it_may() -> None:
    assert lengths(measured(0.0001), [sure()]) == [6]
    assert lengths(measured(0.0001, draft=3), [sure()]) == [3]


def test_an_answer_that_may_repeat_something_guesses_less() -> None:
    assert 0 < lengths(measured(0.0001), [unsure()])[0] < 6


def test_where_a_row_costs_what_an_answers_token_costs_nobody_guesses() -> None:
    assert lengths(measured(0.001, fixed_s=0.0), [sure()] * 4) == [0] * 4


def test_a_full_batch_guesses_less_than_a_small_one() -> None:
    each = [sum(lengths(measured(0.0005), [sure() for _ in range(size)])) / size for size in (1, 2, 4, 16, 32)]
    assert each == sorted(each, reverse=True)
    assert each[-1] == 0


def test_nothing_is_guessed_beside_a_prompt_and_where_it_is_switched_off() -> None:
    prompt = Scheduled(Sequence(RequestId("p"), 1, [1] * 40, 40, 100), 0, 20)
    assert lengths(measured(0.0), [sure(), prompt]) == [0, 0]
    assert lengths(measured(0.0, draft=0), [sure()]) == [0]


def test_an_answer_guesses_no_more_than_it_may_still_say() -> None:
    for left in range(1, 5):
        assert lengths(measured(0.0), [sure(max_tokens=40 + left)]) == [left - 1]


def test_the_steps_budget_counts_guesses() -> None:
    assert sum(lengths(measured(0.0, budget=9), [sure(), sure(), sure()])) == 6


def test_guesses_take_only_pages_that_nobody_needs() -> None:
    item = sure()
    left_in_page = len(item.sequence.pages) * PAGE_TOKENS - item.end
    assert lengths(measured(0.0, draft=30), [item], spare_pages=0) == [left_in_page]
    # Before the chance has fallen too far.
    assert lengths(measured(0.0, draft=12), [item, sure()], spare_pages=1) == [12, left_in_page]


def test_others_keep_most_of_their_pace_when_one_guesses() -> None:
    speculation = measured(0.0004)
    run = [sure(), *(answer([number, 7]) for number in range(3))]
    drafted = sum(lengths(speculation, run))
    assert 0 < drafted < 6
    assert LEAST_PACE * (0.003 + (4 + drafted) * 0.0004) * 0.97 <= 0.003 + 4 * 0.0004


def test_an_engine_whose_steps_show_that_rows_are_dear_guesses_less() -> None:
    drafted = []
    for row_s in (0.0, 0.001):
        clock = SteppedClock()

        def took(batch: ForwardBatch, clock: SteppedClock = clock, row_s: float = row_s) -> None:
            clock.advance(0.001 + row_s * len(batch.token_ids))

        decoder = TinyDecoder(repeating_logits)
        decoder.before_forward = took
        engine = tiny_engine(decoder=decoder, clock=clock.monotonic, speculation_tokens=6)
        outcomes(engine, [request("a", CIRCLE, max_tokens=200, ignore_eos=True)], [0])
        drafted.append(engine.stats(EngineState.READY, 1).drafted_tokens_total)
    assert drafted[1] < drafted[0] / 2


def test_ids_beyond_the_vocabulary_can_be_in_a_draft_and_are_never_said() -> None:
    chance = random.Random(5)
    prompt = [*(chance.randrange(60, 70) for _ in range(20)), TOKENIZER.vocabulary_size + 2, 66, 67] * 2
    results = []
    for draft in (0, 6):
        engine = repeating_engine(draft)
        engine.submit(
            request("a", max_tokens=20, temperature=0.5, seed=3, repetition_penalty=1.02, ignore_eos=True),
            list(prompt),
            0.0,
        )
        sequence = engine._answers[RequestId("a")].sequence
        while engine.has_work:
            engine.step()
        results.append(sequence.tokens)
    assert results[0] == results[1]
    assert max(results[0][len(prompt) :]) < TOKENIZER.vocabulary_size
