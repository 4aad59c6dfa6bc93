from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kv_reserve import KVReserve


def test_a_share_of_the_pool_is_held_back_and_less_where_nobody_can_grow_that_much() -> None:
    reserve = KVReserve(0.3, 100)
    assert reserve.held_back(1000) == 30
    assert reserve.held_back(5) == 5
    assert KVReserve(0.0, 100).held_back(1000) == 0


def test_a_request_is_admitted_when_its_tokens_and_the_reserve_fit() -> None:
    reserve = KVReserve(0.3, 100)
    assert reserve.admits(70, 1000, 100, is_alone=False)
    assert not reserve.admits(71, 1000, 100, is_alone=False)
    assert reserve.admits(95, 5, 100, is_alone=False)


def test_alone_in_the_engine_a_request_may_use_everything() -> None:
    assert KVReserve(0.9, 100).admits(100, 1000, 100, is_alone=True)


@pytest.mark.parametrize("share", [-0.1, 1.0, 2.0])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="0 or more and less than 1"):
        KVReserve(share, 10)


@dataclass
class Answer:
    held: int
    most: int
    ends_at: int


@given(st.integers(0, 2**32), st.floats(0, 0.95), st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_whoever_fits_alone_runs_at_last_and_without_growth_beyond_the_reserve_nobody_is_preempted(
    seed: int, share: float, num_pages: int
) -> None:
    """First come, first served, with the youngest giving way when pages run out: the simplest user of the reserve."""
    rng = random.Random(seed)
    reserve = KVReserve(share, num_pages)
    waiting: list[Answer] = []
    for _ in range(30):
        most = rng.randint(1, num_pages)
        held = rng.randint(1, most)
        waiting.append(Answer(held, most, rng.randint(held, most)))
    running: list[Answer] = []
    preemptions = 0
    always_covered = True
    for _ in range(30 * num_pages * 2):
        while waiting:
            new = waiting[0]
            growth = sum(answer.most - answer.held for answer in [*running, new])
            available = num_pages - sum(answer.held for answer in running)
            if not reserve.admits(new.held, growth, available, is_alone=not running):
                break
            always_covered &= reserve.held_back(growth) == growth or not running
            running.append(waiting.pop(0))
        for answer in list(running):
            if answer in running and answer.held < answer.ends_at:
                while sum(other.held for other in running) == num_pages and running[-1] is not answer:
                    waiting.insert(0, running.pop())
                    preemptions += 1
                if sum(other.held for other in running) < num_pages:
                    answer.held += 1
        running = [answer for answer in running if answer.held < answer.ends_at]
        assert sum(answer.held for answer in running) <= num_pages
    assert not waiting
    assert not running
    assert not (always_covered and preemptions)
