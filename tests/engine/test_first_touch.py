"""Memory of the KV cache is asked for ahead of the pages that are used, once, and by a thread that stands behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
import torch

from engine import first_touch
from engine.first_touch import PAUSE_S, FirstTouch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")

REGIONS, PAGES = 3, 100


class Asked:
    """What was asked for, in pages of the first region, and how its thread stood."""

    def __init__(self, storage: torch.Tensor) -> None:
        self._storage = storage
        self.ranges: list[tuple[int, int]] = []
        self.regions = 0
        self.policies: set[int] = set()
        self.may_go = threading.Event()
        self.may_go.set()

    def __call__(self, address: int, size_bytes: int) -> bool:
        assert self.may_go.wait(10)
        page_bytes = self._storage[0, 0].nbytes
        begin = (address - self._storage.data_ptr()) % self._storage[0].nbytes // page_bytes
        pages = begin, begin + size_bytes // page_bytes
        if not self.ranges or self.ranges[-1] != pages:
            self.ranges.append(pages)
        self.regions += 1
        self.policies.add(os.sched_getscheduler(0))
        return True


@pytest.fixture
def storage() -> torch.Tensor:
    return torch.zeros(REGIONS, PAGES, 16)


@pytest.fixture
def asked(storage: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    asked = Asked(storage)
    monkeypatch.setattr(first_touch, "touch", asked)
    yield asked
    asked.may_go.set()


def no_sleep(_seconds: float) -> None:
    """For a thread that nothing has to be left to."""


def reach(touching: FirstTouch, pages: int) -> None:
    touching.reach(pages)
    touching.join()


def test_every_page_is_asked_for_once_in_all_regions_and_well_before_its_use(
    storage: torch.Tensor, asked: Asked
) -> None:
    touching = FirstTouch(storage, 20 * storage[:, 0].nbytes, sleep=no_sleep)
    for used in range(PAGES + 1):
        reach(touching, used)
        assert asked.ranges[-1][1] >= min(PAGES, used + 11)
    ends = [end for _, end in asked.ranges]
    assert [begin for begin, _ in asked.ranges] == [0, *ends[:-1]]
    assert ends[-1] == PAGES
    assert len(asked.ranges) <= PAGES // 10
    assert asked.regions == REGIONS * len(asked.ranges)


def test_whoever_asks_does_not_wait_and_what_is_asked_meanwhile_comes_next(storage: torch.Tensor, asked: Asked) -> None:
    touching = FirstTouch(storage, 20 * storage[:, 0].nbytes, sleep=no_sleep)
    asked.may_go.clear()
    touching.reach(0)
    touching.reach(50)
    assert touching.is_busy
    asked.may_go.set()
    touching.join()
    reach(touching, 50)
    assert asked.ranges == [(0, 20), (20, 70)]


def test_beside_steps_there_is_a_pause_after_each_huge_page(storage: torch.Tensor, asked: Asked) -> None:
    """Two of them in one step made a pause of three times the usual."""
    pauses: list[float] = []
    touching = FirstTouch(storage, 20 * storage[:, 0].nbytes, sleep=pauses.append)
    reach(touching, 0)
    assert not pauses, "before the first step"
    reach(touching, 50)
    assert pauses == [PAUSE_S] * REGIONS
    assert asked.regions == 2 * REGIONS


def test_its_thread_computes_only_where_nobody_else_does(storage: torch.Tensor, asked: Asked) -> None:
    reach(FirstTouch(storage), 0)
    assert asked.policies == {os.SCHED_IDLE}
    assert os.sched_getscheduler(0) != os.SCHED_IDLE


def test_a_process_may_end_while_the_thread_is_at_it() -> None:
    """A thread that comes out of one of torch's calls when Python has ended takes the process down with it, by SIGABRT."""
    code = """
import torch
from engine.first_touch import FirstTouch
touching = FirstTouch(torch.empty(1_000_000, 2, 8))
touching.reach(1)
assert touching.is_busy
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
