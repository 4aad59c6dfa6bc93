"""What may wait has a bound, by requests and by tokens, and whoever is refused hears which one and when to come back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import QueueFull, QueueUnit
from engine.queue_bounds import DEFAULT_RETRY_AFTER_S, MAX_RETRY_AFTER_S, QueueBounds
from engine.types import RequestId
from tests.support.clock import SteppedClock


def bounds(clock: SteppedClock | None = None, running: int = 2, waiting: int = 3, tokens: int = 100) -> QueueBounds:
    return QueueBounds(running, waiting, tokens, (clock or SteppedClock()).monotonic)


def name(number: int) -> RequestId:
    return RequestId(f"r{number}")


def taken(queue: QueueBounds, number: int, tokens: int) -> None:
    queue.enter(name(number))
    queue.encoded(name(number), tokens)


def test_requests_beyond_the_bound_are_refused_with_its_numbers_also_while_all_are_encoded() -> None:
    queue = bounds()
    for number in range(5):
        queue.enter(name(number))
    with pytest.raises(QueueFull, match="3 requests are waiting and the limit is 3; try again in 5 s") as caught:
        queue.enter(name(5))
    assert (caught.value.waiting, caught.value.limit, caught.value.unit) == (3, 3, QueueUnit.REQUESTS)
    queue.leave(name(0))
    queue.enter(name(5))


def test_tokens_beyond_the_bound_are_refused_with_its_numbers() -> None:
    """vllm-project/vllm#32193: few requests, but long ones."""
    queue = bounds()
    taken(queue, 0, 60)
    taken(queue, 1, 40)
    queue.enter(name(2))
    with pytest.raises(QueueFull, match="100 prompt tokens are waiting and the limit is 100") as caught:
        queue.encoded(name(2), 1)
    assert (caught.value.waiting, caught.value.limit, caught.value.unit) == (100, 100, QueueUnit.TOKENS)
    queue.leave(name(2))
    queue.begun(name(0))
    taken(queue, 2, 60)
    assert queue.waiting_tokens == 100


def test_a_prompt_of_any_length_is_taken_when_nothing_waits() -> None:
    """Otherwise it would be refused for ever, and never with the reason."""
    queue = bounds()
    taken(queue, 0, 50)
    queue.begun(name(0))
    taken(queue, 1, 500)
    queue.enter(name(2))
    with pytest.raises(QueueFull):
        queue.encoded(name(2), 1)


def test_who_has_begun_or_ended_waits_no_longer() -> None:
    queue = bounds()
    for number, tokens in enumerate((10, 20, 30)):
        taken(queue, number, tokens)
    for _ in range(2):
        queue.begun(name(0))
        queue.finished(name(1))
    assert queue.waiting_tokens == 30
    queue.leave(name(2))
    queue.begun(name(7))
    assert queue.waiting_tokens == 0


def test_the_time_to_come_back_follows_the_pace_and_how_much_is_too_much() -> None:
    clock = SteppedClock()
    queue = bounds(clock, waiting=20)
    taken(queue, 0, 20)

    def told(tokens: int) -> int:
        queue.enter(name(99))
        with pytest.raises(QueueFull) as caught:
            queue.encoded(name(99), tokens)
        queue.leave(name(99))
        return caught.value.retry_after_s

    assert told(100) == DEFAULT_RETRY_AFTER_S
    for number in range(1, 6):
        queue.finished(name(number))
        clock.advance(3)
    # An answer takes 15 s / 4, and those that wait have 20 tokens each.
    assert told(100) == 4
    assert told(101) == 8
    assert told(10**6) == MAX_RETRY_AFTER_S


@given(
    moves=st.lists(
        st.tuples(st.sampled_from(["submit", "begin", "finish", "give up"]), st.integers(0, 20), st.integers(1, 80)),
        max_size=80,
    )
)
@settings(max_examples=200, deadline=None)
def test_whatever_happens_the_bounds_hold_and_nothing_is_left_at_the_end(moves: list[tuple[str, int, int]]) -> None:
    queue = bounds()
    live: dict[RequestId, int] = {}
    waiting: dict[RequestId, int] = {}
    for move, number, tokens in moves:
        match move:
            case "submit" if name(number) not in live:
                try:
                    queue.enter(name(number))
                except QueueFull:
                    assert len(live) == 5
                    continue
                try:
                    queue.encoded(name(number), tokens)
                    live[name(number)] = waiting[name(number)] = tokens
                except QueueFull:
                    assert waiting
                    assert sum(waiting.values()) + tokens > 100
                    queue.leave(name(number))
            case "begin" if name(number) in live:
                queue.begun(name(number))
                waiting.pop(name(number), None)
            case "finish" | "give up" if name(number) in live:
                (queue.finished if move == "finish" else queue.leave)(name(number))
                live.pop(name(number))
                waiting.pop(name(number), None)
        assert queue.waiting_tokens == sum(waiting.values())
        assert queue.waiting_tokens <= 100 or len(waiting) == 1
    for one in live:
        queue.finished(one)
    assert queue.waiting_tokens == 0
    for number in range(5):
        queue.enter(name(100 + number))
