"""Writes to the disk in the background: of whom, when, and with which memory."""

from __future__ import annotations

import pytest
import torch

from engine.tiers import writes as writes_module
from engine.tiers.segment_file import session_folder
from engine.types import Namespace, SessionKey
from tests.support.tiers import (
    ANNA,
    BERT,
    FORMAT,
    PATIENCE_S,
    TIMEOUT_S,
    TinyTiers,
    chain,
    contains_anywhere,
    files,
    hanging_disk,
    stored_only,
)


def test_a_session_is_reported_once_when_all_of_it_is_written(tiny: TinyTiers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes_module, "SEGMENT_BYTES", 2 * FORMAT.record_bytes)
    small = TinyTiers(tiny.folder, tiny.clock, disk=tiny.disk)
    pages = chain(7)
    small.put_on_device(pages)
    small.tiers.park(pages[:3])
    small.tiers.store(ANNA, pages)
    small.tiers.store(BERT, [])
    ended: list[SessionKey] = []
    while small.tiers.has_transfers:
        small.woken.clear()
        ended += small.tiers.poll()
        assert not small.tiers.has_transfers or small.woken.wait(PATIENCE_S)
    assert sorted(ended, key=str) == sorted([ANNA, BERT], key=str)
    assert all(page.disk for page in pages)
    assert len(files(small.folder)) == 4
    small.tiers.check_integrity(pages)
    small.tiers.close()


def test_pages_of_another_namespace_are_left_to_their_own_session(tiny: TinyTiers) -> None:
    persona = SessionKey(Namespace.public(), "librarian")
    public, private = chain(2, persona), chain(2)
    tiny.put_on_device([*public, *private])
    tiny.store(ANNA, [*public, *private])
    assert [page.disk is not None for page in [*public, *private]] == [False, False, True, True]
    tiny.store(persona, public)
    assert all(page.disk for page in public)
    assert {path.parent for path in files(tiny.folder)} == {
        tiny.folder / session_folder(key) for key in (ANNA, persona)
    }


def test_what_is_stored_is_not_stored_twice_but_counts_as_used(tiny: TinyTiers) -> None:
    pages, _ = stored_only(tiny)
    [path] = files(tiny.folder)
    before = path.stat().st_mtime
    tiny.clock.advance(100)
    tiny.store(ANNA, pages)
    assert files(tiny.folder) == [path]
    assert path.stat().st_mtime == pytest.approx(before + 100)


def test_a_page_that_lost_its_place_before_its_turn_is_not_written(hanging: TinyTiers) -> None:
    disk = hanging_disk(hanging)
    disk.hangs_at = frozenset({"before writing"})
    many = [chain(1) for _ in range(4)]
    for number, pages in enumerate(many):
        hanging.put_on_device(pages, first=number)
        hanging.tiers.store(ANNA, pages)
    assert disk.has_entered.wait(PATIENCE_S)
    hanging.leave_device(many[3])
    disk.release.set()
    hanging.settle()
    assert [pages[0].disk is not None for pages in many] == [True, True, True, False]


def test_the_rest_of_a_page_that_is_not_full_reaches_no_file(tiny: TinyTiers) -> None:
    """There may be what somebody else said there before."""
    tiny.cache.storage.fill_(0.0)
    tiny.cache.storage[:, 0] = 123.456
    secret = tiny.cache.storage[0, 0, 5].contiguous().view(torch.uint8).numpy().tobytes()
    for park in (False, True):
        pages = chain(1, tail_tokens=3)
        tiny.put_on_device(pages)
        tiny.cache.storage[:, 0, :3] = 1.0
        if park:
            tiny.tiers.park(pages)
        tiny.store(ANNA, pages)
        assert pages[0].disk is not None
    assert not contains_anywhere(tiny.folder, secret)


def test_a_disk_that_hangs_in_a_write_keeps_no_slot(hanging: TinyTiers) -> None:
    """ai-dynamo/dynamo#3730: the buffers of what never reports back are free again."""
    disk = hanging_disk(hanging)
    disk.hangs_at = frozenset({"before writing"})
    pages = chain(16)
    hanging.put_on_device(pages)
    hanging.tiers.park(pages)
    hanging.leave_device(pages)
    hanging.tiers.store(ANNA, pages)
    assert disk.has_entered.wait(PATIENCE_S)
    hanging.clock.advance(TIMEOUT_S)
    assert hanging.tiers.poll() == [ANNA]
    assert [page.host_pins for page in pages] == [0] * 16
    assert hanging.tiers.counters.timed_out == 1
    assert not hanging.tiers.has_transfers
    hanging.victims = pages
    new = chain(16)
    hanging.put_on_device(new)
    hanging.tiers.park(new)
    assert all(page.host is not None for page in new)
    hanging.woken.clear()
    disk.release.set()
    assert hanging.woken.wait(PATIENCE_S)
    hanging.tiers.poll()
    assert [page.disk for page in pages] == [None] * 16
    assert files(hanging.folder) == []


def test_saving_writes_in_order_until_the_deadline(hanging: TinyTiers) -> None:
    disk = hanging_disk(hanging)
    first, second = chain(2), chain(2, BERT)
    hanging.put_on_device([*first, *second])
    hanging.tiers.save([(ANNA, first)], hanging.clock.monotonic() + 5)
    assert all(page.disk for page in first)
    disk.hangs_at = frozenset({"before writing"})
    hanging.clock.advance(1)
    hanging.tiers.save([(BERT, second)], hanging.clock.monotonic())
    assert [page.disk for page in second] == [None, None]
    hanging.tiers.save([], hanging.clock.monotonic())
