"""How many threads compute is set, tested in a moment, and said aloud where it does not help (vllm-project/vllm#10971)."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import torch

from engine import cpu_threads
from engine.cpu_threads import SELF_TEST_REPEATS, use_threads


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


class Clock:
    """What each product takes with so many threads; the machine is busy during some of them."""

    def __init__(self, seconds: dict[int, float], disturbed: frozenset[int] = frozenset()) -> None:
        self._seconds = seconds
        self._disturbed = disturbed
        self._now = 0.0
        self.calls = 0

    def __call__(self) -> float:
        self.calls += 1
        if self.calls % 2 == 0:
            disturbance = 10 if self.calls // 2 in self._disturbed else 1
            self._now += self._seconds[torch.get_num_threads()] * disturbance
        return self._now


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_threads, "usable_cores", lambda: 2)


@pytest.mark.usefixtures("two_cores")
def test_threads_that_help_are_used_and_said_and_tested_with_few_products(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock({1: 1.0, 2: 0.5})
    assert use_threads(None, clock) == 2 == torch.get_num_threads()
    assert clock.calls == 2 * 2 * SELF_TEST_REPEATS
    assert [record.getMessage() for record in caplog.records] == [
        "computing with 2 threads on 2 usable cores, 2.0 times as fast as one"
    ]


@pytest.mark.usefixtures("two_cores")
def test_a_second_thread_that_does_nothing_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert use_threads(None, Clock({1: 1.0, 2: 1.0})) == 2
    assert "2 threads are only 1.0 times as fast as one" in caplog.text


@pytest.mark.usefixtures("two_cores")
def test_what_disturbs_one_product_is_not_taken_for_a_fault(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    use_threads(None, Clock({1: 1.0, 2: 0.5}, disturbed=frozenset({5, 6})))
    assert caplog.text == ""


@pytest.mark.usefixtures("two_cores")
def test_more_threads_than_cores_and_fewer_than_wanted_are_warnings(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert use_threads(3, Clock({1: 1.0, 3: 0.9})) == 3
    assert "3 threads share 2 usable cores" in caplog.text
    caplog.clear()
    set_threads = torch.set_num_threads
    monkeypatch.setattr(torch, "set_num_threads", lambda _count: set_threads(1))
    assert use_threads(2, Clock({1: 1.0})) == 1
    assert "only 1 of 2 threads are in use; OMP_NUM_THREADS may limit them" in caplog.text
