"""So many a second, and a burst after a pause."""

from __future__ import annotations

from app.realtime.token_bucket import TokenBucket
from tests.support.clock import SteppedClock


def test_a_burst_is_possible_and_then_only_the_rate() -> None:
    clock = SteppedClock()
    bucket = TokenBucket(rate=2, burst=5, clock=clock.monotonic)
    assert [bucket.take() for _ in range(6)] == [True] * 5 + [False]
    clock.advance(0.5)
    assert [bucket.take() for _ in range(2)] == [True, False]


def test_a_long_pause_gives_no_more_than_a_burst() -> None:
    clock = SteppedClock()
    bucket = TokenBucket(rate=2, burst=5, clock=clock.monotonic)
    clock.advance(3600)
    assert [bucket.take() for _ in range(6)] == [True] * 5 + [False]
