"""The tiers as the engine thread sees them: the host's memory, and whether fetching is worth it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.pages import PageId
from engine.snapshot import TierStatus
from engine.tiers import rate
from engine.tiers.restores import RestoreItem
from engine.tiers.tiers import Tiers
from tests.support.clock import SteppedClock
from tests.support.tiers import (
    ANNA,
    BERT,
    FORMAT,
    SPEC,
    HangingDisk,
    TinyTiers,
    chain,
    disk_store,
    stored_only,
)


def test_the_first_pages_are_parked_when_not_all_fit(tiny: TinyTiers) -> None:
    pages = chain(20)
    tiny.put_on_device(pages)
    tiny.tiers.park(pages)
    assert [page.host is not None for page in pages] == [True] * 16 + [False] * 4
    assert tiny.tiers.host == TierStatus(16, 16 * FORMAT.record_bytes, 16 * FORMAT.record_bytes)
    tiny.tiers.check_integrity(pages)


def test_victims_make_room_and_those_on_no_disk_are_counted_as_lost(tiny: TinyTiers) -> None:
    old, stored = chain(14), stored_only(tiny, BERT, num_pages=2)[0]
    tiny.put_on_device(old)
    tiny.tiers.park(old)
    tiny.leave_device(old)
    tiny.put_on_device(stored, first=40)
    tiny.tiers.park(stored)
    tiny.leave_device(stored)
    new = chain(4)
    tiny.put_on_device(new)
    tiny.victims = [*stored, *old]
    tiny.tiers.park(new)
    assert all(page.host is not None for page in new)
    assert [page.host for page in [*stored, *old[:2]]] == [None] * 4
    assert tiny.tiers.counters.lost_from_host == 2
    assert tiny.pruned == []
    tiny.tiers.check_integrity([*old, *stored, *new])


def test_a_page_that_is_being_read_is_no_victim(tiny: TinyTiers) -> None:
    old = chain(16)
    tiny.put_on_device(old)
    held = tiny.bytes_of(old)
    tiny.tiers.park(old)
    tiny.leave_device(old)
    restore = tiny.tiers.begin_restore([RestoreItem(old[0], PageId(20))])
    new = chain(2)
    tiny.put_on_device(new)
    tiny.victims = old
    tiny.tiers.park(new)
    assert [page.host is not None for page in [*old[:3], *new]] == [True, False, True, True, False]
    assert tiny.tiers.work() == [restore]
    assert tiny.bytes_of([PageId(20)]) == held[:1]


def test_what_is_parked_already_is_not_parked_twice(tiny: TinyTiers) -> None:
    pages = chain(4)
    tiny.put_on_device(pages)
    tiny.tiers.park(pages)
    slots = [page.host for page in pages]
    tiny.tiers.park(pages)
    assert [page.host for page in pages] == slots
    assert tiny.tiers.counters.parked == 4


def test_a_forgotten_page_gives_its_slot_back_when_its_reader_is_done(tiny: TinyTiers) -> None:
    pages = chain(16)
    tiny.put_on_device(pages)
    held = tiny.bytes_of(pages)
    tiny.tiers.park(pages)
    tiny.leave_device(pages)
    restore = tiny.tiers.begin_restore([RestoreItem(page, PageId(20 + index)) for index, page in enumerate(pages)])
    tiny.tiers.forget(pages)
    assert [page.host for page in pages] == [None] * 16
    new = chain(1)
    tiny.put_on_device(new, first=50)
    tiny.tiers.park(new)
    assert new[0].host is None
    assert tiny.tiers.work() == [restore]
    assert tiny.bytes_of([PageId(20 + index) for index in range(16)]) == held
    tiny.tiers.park(new)
    assert new[0].host is not None
    tiny.tiers.check_integrity(new)


def test_under_pressure_pages_are_written_ahead(tiny: TinyTiers) -> None:
    pages = chain(13)
    tiny.put_on_device(pages)
    tiny.behind = [(ANNA, pages[:6])]
    tiny.tiers.park(pages[:12])
    tiny.settle()
    assert [page.disk for page in pages] == [None] * 13
    tiny.tiers.park(pages)
    tiny.settle()
    assert [page.disk is not None for page in pages] == [True] * 6 + [False] * 7


def test_without_host_and_disk_everything_is_simply_lost(tmp_path: Path) -> None:
    tiny = TinyTiers(tmp_path)
    tiers = Tiers(
        tiny.cache,
        None,
        None,
        tiny.transfers,
        clock=tiny.clock.monotonic,
        host_victims=lambda count: [],
        prune=lambda pages: None,
    )
    pages = chain(3)
    tiny.put_on_device(pages)
    done: list[bool] = []
    tiers.park(pages)
    tiers.store(ANNA, pages)
    tiers.save([(ANNA, pages)], 1.0)
    tiers.forget(pages)
    tiers.delete_session(ANNA, done.append)
    tiers.delete_namespace(ANNA.namespace, done.append)
    assert tiers.poll() == []
    assert done == [True, True]
    assert [(page.host, page.disk) for page in pages] == [(None, None)] * 3
    assert (tiers.host, tiers.disk, tiers.has_transfers, tiers.next_deadline()) == (
        TierStatus(),
        TierStatus(),
        False,
        None,
    )
    tiers.check_integrity(pages)


def test_before_anything_was_measured_pages_are_fetched(tiny: TinyTiers) -> None:
    pages, _ = stored_only(tiny)
    assert tiny.tiers.worth_fetching(pages, 1e9)
    assert tiny.tiers.worth_fetching(pages, None)


def test_a_small_read_says_nothing_about_the_disk() -> None:
    measured = rate.Rate()
    measured.measure(rate.LEAST_BYTES - 1, 1.0)
    assert (measured.bytes_per_s, measured.seconds(1 << 30)) == (None, 0.0)
    measured.measure(rate.LEAST_BYTES, 1.0)
    assert measured.bytes_per_s == rate.LEAST_BYTES


def test_pages_are_fetched_only_if_that_is_quicker_than_computing_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate, "LEAST_BYTES", 1)
    clock = SteppedClock()

    class SlowDisk(HangingDisk):
        def _hang(self, where: str) -> None:
            if where == "before reading":
                clock.advance(1.0)

    disk = disk_store(tmp_path / "kv", clock, kind=SlowDisk)
    disk.open()
    tiny = TinyTiers(tmp_path / "kv", clock, disk=disk)
    pages, _ = stored_only(tiny, num_pages=4)
    tiny.restore(pages, first=20)
    assert tiny.tiers.disk_bytes_per_s == pytest.approx(4 * FORMAT.record_bytes)
    assert tiny.tiers.host_bytes_per_s is None
    # Four pages a second: 64 tokens.
    assert tiny.tiers.worth_fetching(pages, 63.0)
    assert not tiny.tiers.worth_fetching(pages, 65.0)
    # Those on the device or in the host do not wait for the disk.
    tiny.put_on_device(pages[:2])
    assert tiny.tiers.worth_fetching(pages, 127.0)
    tiny.tiers.close()


def test_the_spec_of_these_tests_is_that_of_the_engine() -> None:
    assert TinyTiers(Path()).tiers.record_bytes == FORMAT.record_bytes == 2 * SPEC.layers * 16 * 2 * 4 * 4
