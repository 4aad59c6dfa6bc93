"""Lanes: what hangs is given up in time, and what it brings later is thrown away."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from engine.tiers.transfers import Job, Lane, Transfers
from tests.support.clock import SteppedClock
from tests.support.tiers import PATIENCE_S, TIMEOUT_S


class Disk:
    """A call that hangs until it is released."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.released = threading.Event()
        self.calls: list[str] = []

    def hang(self) -> str:
        self.entered.set()
        assert self.released.wait(PATIENCE_S)
        self.calls.append("hung")
        return "late"


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def woken() -> threading.Event:
    return threading.Event()


@pytest.fixture
def lane(clock: SteppedClock, woken: threading.Event) -> Iterator[Lane]:
    lane = Lane("test", TIMEOUT_S, clock.monotonic, woken.set)
    yield lane
    lane.close()


def wait_for(woken: threading.Event) -> None:
    assert woken.wait(PATIENCE_S)
    woken.clear()


def test_a_result_is_handed_over_by_poll_and_by_nothing_else(lane: Lane, woken: threading.Event) -> None:
    results: list[str | None] = []
    lane.submit(Job(lambda: "read", results.append))
    wait_for(woken)
    assert results == []
    assert lane.num_jobs == 1
    lane.poll()
    lane.poll()
    assert results == ["read"]
    assert lane.num_jobs == 0


def test_jobs_run_in_order_in_one_thread_that_is_not_the_callers(lane: Lane) -> None:
    order: list[tuple[int, str]] = []
    results: list[int | None] = []
    for number in range(20):

        def call(number: int = number) -> int:
            order.append((number, threading.current_thread().name))
            return number

        lane.submit(Job(call, results.append))
    while lane.num_jobs:
        lane.wait(PATIENCE_S)
        lane.poll()
    assert order == [(number, "kvasir-test") for number in range(20)]
    assert results == list(range(20))


def test_a_call_that_raises_is_a_failure_and_the_lane_goes_on(
    lane: Lane, woken: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    results: list[str | None] = []

    def broken() -> str:
        raise OSError("the disk is on fire")

    lane.submit(Job(broken, results.append))
    wait_for(woken)
    lane.submit(Job(lambda: "read", results.append))
    wait_for(woken)
    lane.poll()
    assert results == [None, "read"]
    assert lane.num_failed == 1
    assert "the disk is on fire" in caplog.text


def test_a_job_that_never_reports_back_is_given_up_in_time(
    lane: Lane, clock: SteppedClock, woken: threading.Event
) -> None:
    """ai-dynamo/dynamo#3730"""
    disk = Disk()
    results: list[str | None] = []
    lane.submit(Job(disk.hang, results.append))
    assert disk.entered.wait(PATIENCE_S)
    assert lane.next_deadline() == TIMEOUT_S
    clock.advance(TIMEOUT_S - 0.1)
    lane.poll()
    assert results == []
    clock.advance(0.1)
    lane.poll()
    assert results == [None]
    assert lane.num_timed_out == 1
    assert lane.num_jobs == 0
    assert lane.next_deadline() is None
    disk.released.set()
    wait_for(woken)
    lane.poll()
    assert results == [None]


def test_behind_a_call_that_hangs_every_job_fails_at_once_until_it_returns(
    lane: Lane, clock: SteppedClock, woken: threading.Event
) -> None:
    disk = Disk()
    results: list[str | None] = []
    lane.submit(Job(disk.hang, results.append))
    assert disk.entered.wait(PATIENCE_S)
    lane.submit(Job(lambda: "waited", results.append))
    clock.advance(TIMEOUT_S)
    lane.poll()
    assert results == [None, None]
    assert lane.is_stuck
    lane.submit(Job(lambda: "too soon", results.append))
    assert lane.next_deadline() == clock.monotonic()
    lane.poll()
    assert lane.next_deadline() is None
    assert results == [None, None, None]
    assert lane.num_timed_out == 3
    disk.released.set()
    wait_for(woken)
    assert not lane.is_stuck
    lane.submit(Job(lambda: "back", results.append))
    wait_for(woken)
    lane.poll()
    assert results == [None, None, None, "back"]


def test_time_counts_from_when_a_job_begins_and_not_from_when_it_waits(
    lane: Lane, clock: SteppedClock, woken: threading.Event
) -> None:
    disk = Disk()
    results: list[str | None] = []
    lane.submit(Job(disk.hang, results.append))
    assert disk.entered.wait(PATIENCE_S)
    lane.submit(Job(lambda: "second", results.append))
    clock.advance(TIMEOUT_S - 1)
    disk.released.set()
    while lane.num_jobs:
        lane.wait(PATIENCE_S)
        lane.poll()
    assert results == ["late", "second"]


def test_a_cancelled_job_that_waits_is_never_called(lane: Lane, woken: threading.Event) -> None:
    disk = Disk()
    results: list[str | None] = []
    lane.submit(Job(disk.hang, results.append))
    assert disk.entered.wait(PATIENCE_S)
    job = Job(lambda: disk.calls.append("called") or "x", results.append)
    lane.submit(job)
    lane.cancel(job)
    lane.cancel(job)
    lane.poll()
    assert results == [None]
    disk.released.set()
    wait_for(woken)
    lane.poll()
    assert results == [None, "late"]
    assert disk.calls == ["hung"]


def test_a_cancelled_job_that_runs_sees_it_and_its_result_goes_nowhere(lane: Lane, woken: threading.Event) -> None:
    disk = Disk()
    results: list[str | None] = []
    job = Job(disk.hang, results.append)
    lane.submit(job)
    assert disk.entered.wait(PATIENCE_S)
    lane.cancel(job)
    assert not job.is_wanted
    lane.poll()
    assert results == [None]
    disk.released.set()
    wait_for(woken)
    lane.poll()
    assert results == [None]


def test_a_result_that_is_cancelled_before_the_poll_goes_nowhere(lane: Lane, woken: threading.Event) -> None:
    results: list[str | None] = []
    job = Job(lambda: "read", results.append)
    lane.submit(job)
    wait_for(woken)
    lane.cancel(job)
    lane.poll()
    assert results == [None]


def test_closing_does_not_wait_for_a_disk_that_hangs(lane: Lane, clock: SteppedClock) -> None:
    disk = Disk()
    results: list[str | None] = []
    lane.submit(Job(disk.hang, results.append))
    assert disk.entered.wait(PATIENCE_S)
    clock.advance(TIMEOUT_S)
    lane.poll()
    lane.close()
    lane.submit(Job(lambda: "after the end", results.append))
    lane.poll()
    assert results == [None, None]
    disk.released.set()


def test_a_hanging_read_holds_up_neither_writes_nor_deletions(clock: SteppedClock, woken: threading.Event) -> None:
    transfers = Transfers(TIMEOUT_S, clock.monotonic, woken.set)
    disk = Disk()
    results: list[str | None] = []
    transfers.reads.submit(Job(disk.hang, results.append))
    assert disk.entered.wait(PATIENCE_S)
    transfers.writes.submit(Job(lambda: "written", results.append))
    wait_for(woken)
    transfers.deletions.submit(Job(lambda: "deleted", results.append))
    wait_for(woken)
    transfers.poll()
    assert results == ["written", "deleted"]
    disk.released.set()
    wait_for(woken)
    transfers.close()
