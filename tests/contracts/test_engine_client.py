"""What every `EngineClient` keeps to: the real engine around a tiny model, and the fake that the app's tests use."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from engine.client import EngineClient
from engine.errors import EngineNotReady, PromptTooLong, QueueFull
from engine.types import (
    EngineState,
    FailureCode,
    Finished,
    FinishReason,
    PromptProgress,
    Queued,
    RequestId,
    Role,
    TextDelta,
    Turn,
)
from tests.contracts.conftest import CONTEXT_TOKENS, MAX_RUNNING, MAX_WAITING
from tests.support.engine_listener import Listener
from tests.support.tiny_model import request


async def test_nothing_is_taken_before_the_engine_is_ready(fresh: EngineClient) -> None:
    assert fresh.state is EngineState.LOADING
    assert fresh.model is None
    with pytest.raises(EngineNotReady):
        await fresh.submit(request("a"))
    with pytest.raises(EngineNotReady):
        await fresh.check(request("a"))
    fresh.cancel(RequestId("a"))


async def test_a_ready_engine_says_so_and_names_its_model(engine: EngineClient) -> None:
    assert engine.state is EngineState.READY
    assert engine.failure is None
    assert engine.model is not None
    assert engine.model.context_tokens == CONTEXT_TOKENS
    assert engine.stats().state is EngineState.READY


async def test_an_answer_is_progress_then_text_then_one_end(engine: EngineClient, listener: Listener) -> None:
    await engine.submit(request("a", min_tokens=5))
    (end,) = await listener.end_of("a")
    events = listener.events("a")
    kinds = [type(event) for event in events if not isinstance(event, Queued)]
    assert kinds[0] is PromptProgress
    assert kinds[-1] is Finished
    assert kinds.count(Finished) == 1
    progress = [event for event in events if isinstance(event, PromptProgress)]
    assert progress[-1].done_tokens == progress[-1].total_tokens == end.usage.input_tokens
    deltas = [event for event in events if isinstance(event, TextDelta)]
    assert all(delta.text for delta in deltas)
    counts = [delta.output_tokens for delta in deltas]
    assert counts == sorted(counts)
    assert counts[-1] <= end.usage.output_tokens


async def test_the_count_of_a_prompt_is_what_usage_says(engine: EngineClient, listener: Listener) -> None:
    one = request("a", "some words to count")
    counted = await engine.check(one)
    await engine.submit(one)
    (end,) = await listener.end_of("a")
    assert end.usage.input_tokens == counted > 0


async def test_all_times_of_a_whole_answer_are_known(engine: EngineClient, listener: Listener) -> None:
    await engine.submit(request("a"))
    (end,) = await listener.end_of("a")
    usage = end.usage
    assert usage.cached_tokens == 0
    for milliseconds in (usage.queue_ms, usage.prefill_ms, usage.ttft_ms, usage.decode_ms):
        assert milliseconds is not None
        assert milliseconds >= 0


@pytest.mark.parametrize("max_tokens", [1, 2, 7])
async def test_max_tokens_ends_the_answer_by_length(engine: EngineClient, listener: Listener, max_tokens: int) -> None:
    await engine.submit(request("a", max_tokens=max_tokens, ignore_eos=True))
    (end,) = await listener.end_of("a")
    assert end.reason is FinishReason.LENGTH
    assert end.usage.output_tokens == max_tokens


async def test_the_end_of_the_context_ends_the_answer_by_length(engine: EngineClient, listener: Listener) -> None:
    await engine.submit(request("a", max_tokens=None, ignore_eos=True))
    (end,) = await listener.end_of("a")
    assert end.reason is FinishReason.LENGTH
    assert end.usage.input_tokens + end.usage.output_tokens == CONTEXT_TOKENS


async def test_a_stop_string_ends_the_answer_and_is_not_shown(engine: EngineClient, listener: Listener) -> None:
    await engine.submit(request("whole", "alpha beta", ignore_eos=True))
    await listener.end_of("whole")
    text = listener.text("whole")
    stop = text[3:6]
    await engine.submit(request("a", "alpha beta", ignore_eos=True, stop=(stop,)))
    (end,) = await listener.end_of("a")
    assert end.reason is FinishReason.STOP
    assert listener.text("a") == text[: text.index(stop)]


async def test_an_answer_given_back_as_ids_is_part_of_the_prompt(engine: EngineClient, listener: Listener) -> None:
    one = request("a", min_tokens=3)
    await engine.submit(one)
    (end,) = await listener.end_of("a")
    assert end.token_ids
    turns = (*one.turns, Turn(Role.ASSISTANT, listener.text("a"), end.token_ids))
    without = (*one.turns, Turn(Role.ASSISTANT, "", ()))
    assert await engine.check(replace(one, turns=turns)) == await engine.check(replace(one, turns=without)) + len(
        end.token_ids
    )


async def test_answers_of_one_step_arrive_together(engine: EngineClient, listener: Listener) -> None:
    for name in "abc":
        await engine.submit(request(name, ignore_eos=True, max_tokens=200))
    await listener.end_of("a", "b", "c")
    together = [step for step in listener.steps if len({event.request_id for event in step}) == 3]
    assert len(together) > 50


async def test_cancel_ends_an_endless_answer_and_keeps_what_was_shown(engine: EngineClient, listener: Listener) -> None:
    await engine.submit(request("a", max_tokens=None, ignore_eos=True))
    await listener.until(lambda: bool(listener.text("a")))
    for _ in range(3):
        engine.cancel(RequestId("a"))
    (end,) = await listener.end_of("a")
    assert end.reason is FinishReason.CANCELLED
    assert listener.text("a")
    assert 0 < end.usage.output_tokens < CONTEXT_TOKENS
    engine.cancel(RequestId("a"))
    engine.cancel(RequestId("never heard of"))
    await engine.submit(request("b", max_tokens=3))
    await listener.end_of("b")


async def test_cancel_right_after_the_submission_ends_it_once(engine: EngineClient, listener: Listener) -> None:
    await engine.submit(request("a", max_tokens=None, ignore_eos=True))
    engine.cancel(RequestId("a"))
    (end,) = await listener.end_of("a")
    assert end.reason is FinishReason.CANCELLED


async def test_a_prompt_that_can_never_fit_is_refused_with_both_numbers_and_no_event(
    engine: EngineClient, listener: Listener
) -> None:
    long = request("a", "word " * CONTEXT_TOKENS)
    for refused in (engine.submit(long), engine.check(long)):
        with pytest.raises(PromptTooLong) as caught:
            await refused
        assert caught.value.prompt_tokens > CONTEXT_TOKENS
        assert caught.value.available_tokens == CONTEXT_TOKENS - 1
    await engine.submit(request("b"))
    await listener.end_of("b")
    assert listener.events("a") == []


async def test_a_full_queue_refuses_says_when_to_come_back_and_serves_the_others(
    engine: EngineClient, listener: Listener
) -> None:
    """vllm-project/vllm#18826: a burst grew the queue until the process died."""
    names = [f"r{number}" for number in range(MAX_RUNNING + MAX_WAITING)]
    for name in names:
        await engine.submit(request(name, max_tokens=None, ignore_eos=True))
    for _ in range(50):
        with pytest.raises(QueueFull) as caught:
            await engine.submit(request("refused"))
    assert caught.value.waiting == caught.value.limit == MAX_WAITING
    assert caught.value.retry_after_s >= 1
    ends = await listener.end_of(*names)
    assert {end.reason for end in ends} == {FinishReason.LENGTH}
    assert listener.events("refused") == []
    await engine.submit(request("accepted again"))
    await listener.end_of("accepted again")


async def test_who_waits_hears_positions_that_count_down(engine: EngineClient, listener: Listener) -> None:
    names = [f"r{number}" for number in range(MAX_RUNNING + 2)]
    for name in names:
        await engine.submit(request(name, max_tokens=100, ignore_eos=True))
    await listener.end_of(*names)
    positions = [event.position for event in listener.events(names[-1]) if isinstance(event, Queued)]
    assert positions == sorted(positions, reverse=True)
    assert positions[-1] >= 1


async def test_one_name_cannot_be_used_for_two_live_requests(engine: EngineClient, listener: Listener) -> None:
    await engine.submit(request("a", max_tokens=None, ignore_eos=True))
    with pytest.raises(ValueError, match="submitted twice"):
        await engine.submit(request("a"))
    engine.cancel(RequestId("a"))
    await listener.end_of("a")


async def test_whoever_stops_the_engine_returns_when_every_request_has_ended(
    engine: EngineClient, listener: Listener
) -> None:
    for name in ("a", "b"):
        await engine.submit(request(name, max_tokens=None, ignore_eos=True))
    first = asyncio.create_task(engine.stop())
    await asyncio.sleep(0)
    await engine.stop()
    assert listener.finished.keys() == {"a", "b"}
    await first


async def test_stopping_ends_every_request_and_takes_no_more(engine: EngineClient, listener: Listener) -> None:
    names = [f"r{number}" for number in range(MAX_RUNNING + 1)]
    for name in names:
        await engine.submit(request(name, max_tokens=None, ignore_eos=True))
    await engine.stop()
    assert engine.state is EngineState.STOPPED
    for name in names:
        end = listener.finished[RequestId(name)]
        assert end.failure is None or end.failure.code == FailureCode.ENGINE_STOPPED
    assert any(end.reason is FinishReason.FAILED for end in listener.finished.values())
    with pytest.raises(EngineNotReady):
        await engine.submit(request("late"))
    with pytest.raises(EngineNotReady):
        await engine.wait_ready()
    await engine.stop()
