from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import torch

from engine.core import MAX_FAILED_STEPS
from engine.model.batch import ForwardBatch
from engine.types import (
    EngineFailure,
    EngineState,
    FailureCode,
    Finished,
    FinishReason,
    PromptProgress,
    RequestId,
    TextDelta,
)
from tests.support.stepped_engine import TOKENIZER, finished, run, says, submit, text
from tests.support.tiny_model import (
    END,
    PIECES,
    TinyDecoder,
    TinyTokenizer,
    reference_ids,
    request,
    tiny_engine,
)


def fail_on(steps: set[int]) -> Callable[[ForwardBatch], None]:
    """For `before_forward`: raises in these calls, counted from 1."""
    calls = iter(range(1, 10_000))

    def raise_sometimes(batch: ForwardBatch) -> None:
        if next(calls) in steps:
            raise RuntimeError("the device is on fire")

    return raise_sometimes


def test_the_answer_is_what_the_definition_says() -> None:
    engine = tiny_engine()
    one = request("a", max_tokens=40)
    submit(engine, one)
    events = run(engine)
    expected = reference_ids(TOKENIZER.encode_turns(one.turns), 40)
    end = finished(events, "a")
    assert text(events, "a") == TOKENIZER.decode(expected)
    assert end.token_ids == tuple(token for token in expected if token != END)
    assert end.reason is (FinishReason.STOP if expected[-1] == END else FinishReason.LENGTH)
    assert end.usage.output_tokens == len(expected)


def test_an_end_token_ends_the_answer_and_is_no_text() -> None:
    engine = tiny_engine(decoder=says(b" hello", b" world"))
    submit(engine, request("a"))
    events = run(engine)
    assert text(events, "a") == " hello world"
    assert finished(events, "a").reason is FinishReason.STOP
    assert finished(events, "a").token_ids == (PIECES.index(b" hello"), PIECES.index(b" world"))


def test_with_ignore_eos_the_answer_goes_on_to_its_length() -> None:
    engine = tiny_engine(decoder=says(b" hello"))
    submit(engine, request("a", ignore_eos=True, max_tokens=5))
    events = run(engine)
    assert finished(events, "a").reason is FinishReason.LENGTH
    assert finished(events, "a").usage.output_tokens == 5
    assert text(events, "a") == " hello"


def test_a_model_without_end_tokens_ends_by_length() -> None:
    """vllm-project/vllm#32163: a tokenizer without an end token crashed."""
    engine = tiny_engine(decoder=says(b"ab", then=END), tokenizer=TinyTokenizer(frozenset()))
    submit(engine, request("a", max_tokens=6, min_tokens=3))
    assert finished(run(engine), "a").reason is FinishReason.LENGTH


def test_the_end_of_the_context_ends_the_answer_by_length_without_sliding() -> None:
    """ggml-org/llama.cpp#8498: dropping old tokens in place produced garbage."""
    engine = tiny_engine(context_tokens=60, tokenizer=TinyTokenizer(frozenset()))
    one = request("a", max_tokens=None)
    submit(engine, one)
    events = run(engine)
    prompt = TOKENIZER.encode_turns(one.turns)
    expected = reference_ids(prompt, 60 - len(prompt), stop_at=frozenset())
    assert finished(events, "a").reason is FinishReason.LENGTH
    assert finished(events, "a").token_ids == tuple(expected)
    assert text(events, "a") == TOKENIZER.decode(expected)


def test_a_stop_string_across_tokens_is_never_shown() -> None:
    engine = tiny_engine(decoder=says(b" hello", b" world", b"ab", b"ab"))
    submit(engine, request("a", stop=("o wo",)))
    events = run(engine)
    assert text(events, "a") == " hell"
    end = finished(events, "a")
    assert end.reason is FinishReason.STOP
    assert end.token_ids is None  # " hell" is not made of whole tokens
    assert end.usage.output_tokens == 2


def test_a_stop_string_at_the_border_of_tokens_leaves_ids_for_what_was_shown() -> None:
    engine = tiny_engine(decoder=says(b" hello", b" world", b"ab"))
    submit(engine, request("a", stop=(" worlda",)))
    events = run(engine)
    assert text(events, "a") == " hello"
    assert finished(events, "a").token_ids == (PIECES.index(b" hello"),)


@pytest.mark.parametrize(
    ("min_tokens", "shown"),
    [(0, ""), (1, "ab"), (2, "abab hello"), (3, "abab hello"), (4, "abab helloab world")],
)
def test_no_stop_string_ends_an_answer_within_its_first_tokens(min_tokens: int, shown: str) -> None:
    """One that began within them has been shown in part, and no longer counts."""
    engine = tiny_engine(decoder=says(b"ab", b"ab", b" hello", b"ab", b" world"))
    submit(engine, request("a", stop=("ab",), min_tokens=min_tokens))
    events = run(engine)
    assert text(events, "a") == shown
    assert finished(events, "a").usage.output_tokens >= min_tokens
    assert finished(events, "a").reason is FinishReason.STOP


def test_text_held_back_for_a_stop_string_is_shown_when_the_answer_ends_otherwise() -> None:
    engine = tiny_engine(decoder=says(b" hello", b" world"))
    submit(engine, request("a", stop=(" world!",)))
    events = run(engine)
    assert text(events, "a") == " hello world"


def test_a_character_split_over_tokens_is_sent_whole() -> None:
    """exo-explore/exo#1691: a split character arrived as replacement marks."""
    engine = tiny_engine(decoder=says("€".encode()[:2], "€".encode()[2:3], "😀".encode()))
    submit(engine, request("a"))
    deltas = [event.text for event in run(engine) if isinstance(event, TextDelta)]
    assert deltas == ["€", "😀"]


def test_an_unfinished_character_is_flushed_once_at_the_end() -> None:
    engine = tiny_engine(decoder=says(b"ab", "€".encode()[:2]))
    submit(engine, request("a"))
    events = run(engine)
    assert text(events, "a") == "ab\ufffd" == TOKENIZER.decode(finished(events, "a").token_ids or ())


def test_progress_is_told_after_every_chunk_of_the_prompt() -> None:
    engine = tiny_engine(max_step_tokens=10)
    submit(engine, request("a", "x" * 21))
    progress = [event for event in run(engine) if isinstance(event, PromptProgress)]
    assert [(event.done_tokens, event.total_tokens, event.cached_tokens) for event in progress] == [
        (10, 24, 0),
        (20, 24, 0),
        (24, 24, 0),
    ]


def test_usage_has_the_times_of_an_injected_clock() -> None:
    now = [100.0]
    engine = tiny_engine(clock=lambda: now[0], max_step_tokens=16, decoder=says(b" hello", b" world"))
    engine.submit(request("a", "x" * 20), TOKENIZER.encode_turns(request("a", "x" * 20).turns), 99.5)
    engine._runner._decoder.before_forward = lambda batch: now.__setitem__(0, now[0] + 2.0)  # type: ignore[attr-defined]
    usage = finished(run(engine), "a").usage
    assert usage.input_tokens == 23
    assert usage.output_tokens == 3
    assert (usage.queue_ms, usage.prefill_ms, usage.ttft_ms, usage.decode_ms) == (500, 4000, 4500, 4000)


# --- cancel ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", range(8))
def test_cancelling_at_any_step_twice_ends_once_and_gives_everything_back(steps: int) -> None:
    """vllm-project/vllm#44100, vllm-project/vllm#10806."""
    decoder = TinyDecoder()
    engine = tiny_engine(max_step_tokens=8, decoder=decoder)
    submit(engine, request("a", "x" * 30, max_tokens=None), request("b"))
    events = [event for _ in range(steps) for event in engine.step()]
    computed = sum(len(batch.token_ids) for batch in decoder.batches)
    engine.cancel(RequestId("a"))
    engine.cancel(RequestId("a"))
    free = engine.stats(EngineState.READY, 1).pages_free
    engine.cancel(RequestId("nobody"))
    events += run(engine)
    end = finished(events, "a")
    assert end.reason is FinishReason.CANCELLED
    assert end.token_ids is not None
    assert TOKENIZER.decode(end.token_ids) == text(events, "a")
    assert (computed == 0) == (steps == 0)
    assert finished(events, "b").reason is not FinishReason.CANCELLED
    stats = engine.stats(EngineState.READY, 1)
    assert stats.pages_free == stats.pages_total
    assert free >= stats.pages_total - 2


def test_a_cancelled_request_in_the_queue_is_never_computed() -> None:
    decoder = TinyDecoder()
    engine = tiny_engine(decoder=decoder)
    submit(engine, request("a"))
    engine.cancel(RequestId("a"))
    (end,) = engine.step()
    assert isinstance(end, Finished)
    assert end.reason is FinishReason.CANCELLED
    assert end.usage.output_tokens == 0
    assert end.usage.queue_ms is end.usage.ttft_ms is None
    assert decoder.batches == []


# --- failures --------------------------------------------------------------------------------------------------------


def test_a_failed_step_ends_the_running_answers_and_the_engine_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    decoder = TinyDecoder()
    decoder.before_forward = fail_on({3})
    engine = tiny_engine(decoder=decoder, max_running=2)
    submit(engine, request("a"), request("b"), request("waits"))
    with caplog.at_level(logging.ERROR):
        events = run(engine)
    assert "the device is on fire" in caplog.text
    for name in ("a", "b"):
        end = finished(events, name)
        assert end.reason is FinishReason.FAILED
        assert end.failure is not None
        assert end.failure.code == FailureCode.STEP_FAILED
        assert "fire" not in end.failure.message
        assert TOKENIZER.decode(end.token_ids or ()) == text(events, name)
    waited = finished(events, "waits")
    assert waited.token_ids == tuple(
        token for token in reference_ids(TOKENIZER.encode_turns(request("waits").turns), 16) if token != END
    )
    assert engine.failure is None
    assert engine.stats(EngineState.READY, 1).pages_free == engine.stats(EngineState.READY, 1).pages_total


def test_steps_that_fail_again_and_again_break_the_engine_and_end_everything() -> None:
    decoder = TinyDecoder()
    decoder.before_forward = fail_on(set(range(2, 1000)))
    engine = tiny_engine(decoder=decoder, max_running=1)
    submit(engine, *(request(name) for name in "abcdef"))
    events = run(engine)
    assert engine.failure is not None
    assert "the device is on fire" in engine.failure
    codes = [finished(events, name).failure for name in "abcdef"]
    assert [failure.code for failure in codes if failure] == [FailureCode.STEP_FAILED] * MAX_FAILED_STEPS + [
        FailureCode.ENGINE_FAILED
    ] * (6 - MAX_FAILED_STEPS)


def test_an_answer_whose_logits_are_no_numbers_fails_alone() -> None:
    class Sick(TinyDecoder):
        def forward(self, batch: ForwardBatch, cache: object) -> torch.Tensor:
            logits = super().forward(batch, cache)  # type: ignore[arg-type]
            if len(logits) == 2:
                logits[0, 3] = float("nan")
            return logits

    engine = tiny_engine(decoder=Sick())
    submit(engine, request("sick"), request("well"))
    events = run(engine)
    end = finished(events, "sick")
    assert end.failure is not None
    assert end.failure.code == FailureCode.REQUEST_FAILED
    assert finished(events, "well").failure is None
    assert finished(events, "well").usage.output_tokens > 1


@pytest.mark.parametrize("method", ["push", "flush"])
def test_a_detokeniser_that_fails_ends_its_own_request_only(method: str) -> None:
    """vllm-project/vllm#17448, vllm-project/vllm#21951."""
    tokenizer = TinyTokenizer()
    made = []

    def detokenizer() -> object:
        made.append(TinyTokenizer.detokenizer(tokenizer))
        if len(made) == 1:
            setattr(made[0], method, lambda *ids: 1 / 0)
        return made[-1]

    tokenizer.detokenizer = detokenizer  # type: ignore[assignment]
    engine = tiny_engine(tokenizer=tokenizer)
    submit(engine, request("sick"), request("well"))
    events = run(engine)
    end = finished(events, "sick")
    assert end.reason is FinishReason.FAILED
    assert end.failure is not None
    assert end.failure.code == FailureCode.REQUEST_FAILED
    assert finished(events, "well").failure is None
    assert engine.stats(EngineState.READY, 1).pages_free == engine.stats(EngineState.READY, 1).pages_total


def test_a_request_that_cannot_be_taken_fails_and_nothing_else() -> None:
    engine = tiny_engine(context_tokens=30)
    engine.submit(request("long"), [1] * 30, 0.0)
    submit(engine, request("fine"))
    events = run(engine)
    assert finished(events, "long").failure is not None
    assert finished(events, "fine").failure is None


def test_a_page_that_is_lost_breaks_the_engine_at_idle() -> None:
    engine = tiny_engine()
    engine._scheduler.pool.allocate(1)
    submit(engine, request("a"))
    run(engine)
    assert engine.failure is not None
    assert "pages are counted wrongly" in engine.failure


def test_stopping_ends_everything_with_what_was_shown() -> None:
    engine = tiny_engine(max_running=1)
    submit(engine, request("a", ignore_eos=True), request("b"))
    events = engine.step() + engine.step()
    engine.fail_all(EngineFailure(FailureCode.ENGINE_STOPPED, "The engine was stopped."))
    events += engine.take_events()
    assert not engine.has_work
    assert TOKENIZER.decode(finished(events, "a").token_ids or ()) == text(events, "a") != ""
    assert finished(events, "b").token_ids == ()
    assert all(finished(events, name).failure is not None for name in "ab")
