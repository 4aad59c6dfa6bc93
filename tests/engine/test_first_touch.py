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
from engine.first_touch import HUGE_PAGE_BYTES, PAUSE_S, FirstTouch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")

REGIONS, PAGES = 3, 100


class Asked:
    """What was asked for, and how its thread stood."""

    def __init__(self, storage: torch.Tensor) -> None:
        self._storage = storage
        self.pieces: list[tuple[int, int]] = []
        self.priorities: set[tuple[int, int]] = set()
        self.may_go = threading.Event()
        self.may_go.set()

    def __call__(self, address: int, size_bytes: int) -> bool:
        assert self.may_go.wait(10)
        self.pieces.append((address, size_bytes))
        self.priorities.add((os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, threading.get_native_id())))
        return True

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """In pages of a region; all regions have to be asked for the same ones, one region after the other."""
        page_bytes, region_bytes = self._storage[0, 0].nbytes, self._storage[0].nbytes
        whole: list[list[int]] = []
        for address, size_bytes in self.pieces:
            begin = address - self._storage.data_ptr()
            # A piece ends where a huge page does, which may be within a region.
            if whole and whole[-1][1] == begin and begin % region_bytes:
                whole[-1][1] += size_bytes
            else:
                whole.append([begin, begin + size_bytes])
        by_page = [
            (begin % region_bytes // page_bytes, (begin % region_bytes + end - begin) // page_bytes)
            for begin, end in whole
        ]
        assert [begin // region_bytes for begin, _ in whole] == list(range(REGIONS)) * (len(whole) // REGIONS)
        assert by_page == [pages for pages in by_page[::REGIONS] for _ in range(REGIONS)]
        return by_page[::REGIONS]


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


def test_it_is_done_a_huge_page_at_a_time_and_beside_steps_with_a_pause_after_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two of them in one step made a pause of three times the usual."""
    page_bytes = HUGE_PAGE_BYTES // 4
    storage = torch.empty(REGIONS, 20, page_bytes, dtype=torch.uint8)
    asked, pauses = Asked(storage), list[float]()
    monkeypatch.setattr(first_touch, "touch", asked)
    touching = FirstTouch(storage, 10 * REGIONS * page_bytes, sleep=pauses.append)
    reach(touching, 0)
    assert not pauses, "before the first step"
    first = len(asked.pieces)
    reach(touching, 10)
    assert asked.ranges == [(0, 10), (10, 20)]
    assert pauses == [PAUSE_S] * (len(asked.pieces) - first)
    for address, size_bytes in asked.pieces:
        assert address // HUGE_PAGE_BYTES == (address + size_bytes - 1) // HUGE_PAGE_BYTES


def test_its_thread_stands_behind_nobody(storage: torch.Tensor, asked: Asked) -> None:
    """What it asks for locks the memory of the process: whoever needs some waits until that thread has had a core."""
    reach(FirstTouch(storage), 0)
    assert asked.priorities == {(os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))}


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
