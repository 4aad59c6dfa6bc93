"""Restores: bytes come back as they were, in bounded parts, from the nearest tier, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.cached_page import CachedPage
from engine.kv_cache import KVSpec
from engine.pages import PageId
from engine.tiers import restores as restores_module
from engine.tiers.record_format import RecordFormat
from engine.tiers.restores import RestoreItem
from engine.types import Namespace, SessionKey
from tests.support.clock import SteppedClock
from tests.support.tiers import (
    ANNA,
    FORMAT,
    PATIENCE_S,
    TIMEOUT_S,
    TinyTiers,
    chain,
    disk_store,
    files,
    hanging_disk,
    stored_only,
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_trip_through_host_and_disk_changes_no_byte(tmp_path: Path, dtype: torch.dtype) -> None:
    """sgl-project/sglang#38031, sgl-project/sglang#39830"""
    clock = SteppedClock()
    spec = KVSpec(layers=3, kv_heads=2, head_size=4, dtype=dtype)
    disk = disk_store(tmp_path / "kv", clock, format=RecordFormat.of(spec))
    disk.open()
    tiny = TinyTiers(tmp_path / "kv", clock, disk=disk, spec=spec)
    tiny.cache.storage.view(torch.uint8).random_(0, 256)
    pages = chain(9, tail_tokens=5)
    tiny.put_on_device(pages)
    held = tiny.bytes_of(pages)
    tiny.tiers.park(pages)
    tiny.leave_device(pages)
    assert tiny.restore(pages, first=20).is_complete
    tiny.put_on_device(pages, first=20)
    assert tiny.bytes_of(pages) == held
    tiny.store(ANNA, pages)
    tiny.tiers.leave_host(pages)
    tiny.leave_device(pages)
    assert tiny.restore(pages, first=40).is_complete
    tiny.put_on_device(pages, first=40)
    assert tiny.bytes_of(pages) == held
    assert (tiny.tiers.counters.restored_from_host, tiny.tiers.counters.restored_from_disk) == (9, 9)
    tiny.tiers.close()


def test_one_restore_takes_each_page_from_the_nearest_tier(tiny: TinyTiers) -> None:
    pages, held = stored_only(tiny, num_pages=6)
    assert tiny.restore(pages, first=10).is_complete
    tiny.put_on_device(pages, first=10)
    tiny.tiers.park(pages[2:5])
    tiny.leave_device(pages[2:])
    assert tiny.restore(pages, first=30).is_complete
    tiny.put_on_device(pages, first=30)
    assert tiny.bytes_of(pages) == held
    counters = tiny.tiers.counters
    assert (counters.restored_from_disk, counters.restored_from_host) == (6 + 1, 3)


def test_after_a_restart_pages_come_back_from_the_disk(tiny: TinyTiers) -> None:
    """ggml-org/llama.cpp#26676, LMCache/LMCache#1175"""
    pages, held = stored_only(tiny)
    tiny.tiers.close()
    disk = disk_store(tiny.folder, tiny.clock)
    [session] = disk.open()
    again = TinyTiers(tiny.folder, tiny.clock, disk=disk)
    found = []
    for content, stored in session.pages:
        page = CachedPage(content.key, content.parent, session.key.namespace, content.index, content.packed)
        page.disk = stored
        again.tiers.adopt(page)
        found.append(page)
    assert [page.key for page in found] == [page.key for page in pages]
    assert again.restore(found, first=20).is_complete
    again.put_on_device(found, first=20)
    assert again.bytes_of(found) == held
    again.tiers.check_integrity(found)
    again.tiers.close()


def test_a_restore_is_done_in_bounded_parts(tiny: TinyTiers) -> None:
    pages = chain(10)
    tiny.put_on_device(pages)
    held = tiny.bytes_of(pages)
    tiny.tiers.park(pages)
    tiny.leave_device(pages)
    restore = tiny.tiers.begin_restore([RestoreItem(page, PageId(20 + index)) for index, page in enumerate(pages)])
    done = []
    while not restore.has_ended:
        ended = tiny.tiers.work(4 * FORMAT.record_bytes)
        done.append(restore.done_pages)
    assert done == [4, 8, 10]
    assert ended == [restore]
    tiny.put_on_device(pages, first=20)
    assert tiny.bytes_of(pages) == held


def test_a_budget_below_one_page_still_moves_one(tiny: TinyTiers) -> None:
    pages = chain(2)
    tiny.put_on_device(pages)
    restore = tiny.tiers.begin_restore([RestoreItem(page, PageId(20 + index)) for index, page in enumerate(pages)])
    assert tiny.tiers.work(1) == []
    assert tiny.tiers.next_deadline() == tiny.clock.monotonic()
    assert tiny.tiers.work(1) == [restore]
    assert tiny.tiers.next_deadline() != tiny.clock.monotonic()
    assert tiny.tiers.work(1) == []


def test_many_restores_from_disk_share_a_bounded_window(tiny: TinyTiers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restores_module, "READ_BYTES", 2 * FORMAT.record_bytes)
    monkeypatch.setattr(restores_module, "MAX_READS", 2)
    small = TinyTiers(tiny.folder, tiny.clock, disk=tiny.disk)
    sessions = [SessionKey(Namespace.user(name), "talk") for name in "abc"]
    stored = [stored_only(small, session, num_pages=7) for session in sessions]
    restores = [
        small.tiers.begin_restore([RestoreItem(page, PageId(8 * number + index)) for index, page in enumerate(pages)])
        for number, (pages, _) in enumerate(stored, start=1)
    ]
    assert small.transfers.reads.num_jobs == 2
    small.settle()
    assert len(small.tiers._restores._buffers) == 2
    assert [restore.done_pages for restore in restores] == [7, 7, 7]
    for number, (pages, held) in enumerate(stored, start=1):
        small.put_on_device(pages, first=8 * number)
        assert small.bytes_of(pages) == held
    small.tiers.close()


def test_nothing_to_restore_is_restored_at_once(tiny: TinyTiers) -> None:
    restore = tiny.tiers.begin_restore([])
    assert tiny.tiers.work() == [restore]
    assert restore.is_complete


def test_a_damaged_page_ends_the_restore_before_it_and_is_forgotten(tiny: TinyTiers) -> None:
    pages, held = stored_only(tiny)
    [path] = files(tiny.folder)
    body = bytearray(path.read_bytes())
    body[-FORMAT.record_bytes - 5] ^= 1
    path.write_bytes(body)
    restore = tiny.restore(pages, first=20)
    assert (restore.done_pages, restore.is_complete) == (2, False)
    assert tiny.bytes_of([PageId(20), PageId(21)]) == held[:2]
    tiny.tiers.poll()
    assert [page.disk for page in pages] == [None] * 4
    assert set(tiny.pruned) == set(pages)
    assert tiny.tiers.counters.disk.damaged == 1
    assert tiny.tiers.counters.failed_restores == 1
    assert tiny.restore(pages, first=20).done_pages == 0


def test_a_page_that_is_nowhere_ends_the_restore(tiny: TinyTiers) -> None:
    pages = chain(3)
    tiny.put_on_device(pages[:1])
    assert tiny.restore(pages, first=20).done_pages == 1


def test_a_disk_that_hangs_ends_the_restore_in_time_and_what_comes_late_touches_nobody(hanging: TinyTiers) -> None:
    """ai-dynamo/dynamo#3730, ggml-org/llama.cpp#27148"""
    pages, held = stored_only(hanging)
    disk = hanging_disk(hanging)
    disk.hangs_at = frozenset({"after reading"})
    restore = hanging.tiers.begin_restore([RestoreItem(page, PageId(20 + index)) for index, page in enumerate(pages)])
    assert disk.has_entered.wait(PATIENCE_S)
    hanging.clock.advance(TIMEOUT_S - 1)
    hanging.tiers.poll()
    assert hanging.tiers.work() == []
    assert hanging.tiers.next_deadline() == TIMEOUT_S
    hanging.clock.advance(1)
    hanging.tiers.poll()
    assert hanging.tiers.work() == [restore]
    assert restore.done_pages == 0
    assert hanging.tiers.counters.timed_out == 1
    assert not hanging.tiers.has_transfers
    # Others do not even wait.
    other = hanging.tiers.begin_restore([RestoreItem(pages[0], PageId(30))])
    hanging.tiers.poll()
    assert hanging.tiers.work() == [other]
    before = hanging.cache.storage.clone()
    hanging.woken.clear()
    disk.hangs_at = frozenset()
    disk.release.set()
    assert hanging.woken.wait(PATIENCE_S)
    hanging.tiers.poll()
    hanging.tiers.work()
    assert torch.equal(hanging.cache.storage, before)
    # And the disk is in use again.
    assert hanging.restore(pages, first=20).is_complete
    hanging.put_on_device(pages, first=20)
    assert hanging.bytes_of(pages) == held


def test_an_abandoned_restore_writes_to_no_page_any_more_and_holds_no_slot(hanging: TinyTiers) -> None:
    stored, _ = stored_only(hanging)
    parked = chain(3)
    hanging.put_on_device(parked)
    hanging.tiers.park(parked)
    hanging.leave_device(parked)
    disk = hanging_disk(hanging)
    disk.hangs_at = frozenset({"before reading"})
    items = [RestoreItem(page, PageId(20 + index)) for index, page in enumerate([*stored, *parked])]
    restore = hanging.tiers.begin_restore(items)
    assert [page.host_pins for page in parked] == [1, 1, 1]
    assert disk.has_entered.wait(PATIENCE_S)
    before = hanging.cache.storage.clone()
    hanging.tiers.abandon(restore)
    hanging.tiers.abandon(restore)
    assert [page.host_pins for page in parked] == [0, 0, 0]
    disk.release.set()
    assert hanging.settle() == []
    assert torch.equal(hanging.cache.storage, before)
    hanging.tiers.check_integrity([*stored, *parked])


def test_a_full_disk_costs_nothing_but_the_copy(tmp_path: Path) -> None:
    clock = SteppedClock()
    disk = disk_store(tmp_path / "kv", clock, limit_bytes=10)
    disk.open()
    tiny = TinyTiers(tmp_path / "kv", clock, disk=disk)
    pages = chain(3)
    tiny.put_on_device(pages)
    tiny.tiers.store(ANNA, pages)
    tiny.settle()
    assert [page.disk for page in pages] == [None] * 3
    assert tiny.tiers.counters.disk.too_large == 1
    tiny.tiers.close()
