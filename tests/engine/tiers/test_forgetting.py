"""What is forgotten is in no file, also if it was on its way to one."""

from __future__ import annotations

import pytest

from engine.pages import PageId
from engine.tiers.restores import RestoreItem
from engine.tiers.segment_file import session_folder
from tests.support.tiers import (
    ANNA,
    BERT,
    PATIENCE_S,
    TIMEOUT_S,
    TinyTiers,
    chain,
    contains_anywhere,
    files,
    hanging_disk,
    stored_only,
    token_bytes,
)


def test_a_file_goes_when_the_last_page_in_it_is_forgotten(tiny: TinyTiers) -> None:
    pages, _ = stored_only(tiny)
    tiny.tiers.forget(pages[:3])
    tiny.settle()
    assert len(files(tiny.folder)) == 1
    assert tiny.tiers.disk.pages == 1
    tiny.tiers.forget(pages[3:])
    tiny.settle()
    assert files(tiny.folder) == []
    assert tiny.tiers.disk.used_bytes == 0
    tiny.tiers.check_integrity([])


@pytest.mark.parametrize("moment", ["before writing", "after writing"])
def test_what_is_forgotten_while_it_is_written_is_in_no_file(hanging: TinyTiers, moment: str) -> None:
    disk = hanging_disk(hanging)
    disk.hangs_at = frozenset({moment})
    pages = chain(3)
    hanging.put_on_device(pages)
    hanging.tiers.park(pages)
    hanging.tiers.store(ANNA, pages)
    assert disk.has_entered.wait(PATIENCE_S)
    hanging.tiers.forget(pages)
    disk.release.set()
    hanging.settle()
    assert [page.disk for page in pages] == [None] * 3
    assert files(hanging.folder) == []
    hanging.tiers.check_integrity([])


def test_a_page_that_is_forgotten_while_it_is_written_does_not_cost_the_others(hanging: TinyTiers) -> None:
    disk = hanging_disk(hanging)
    disk.hangs_at = frozenset({"before writing"})
    pages = chain(3)
    hanging.put_on_device(pages)
    held = hanging.bytes_of(pages)
    hanging.tiers.store(ANNA, pages)
    assert disk.has_entered.wait(PATIENCE_S)
    hanging.tiers.forget(pages[1:2])
    disk.release.set()
    hanging.settle()
    assert [page.disk is not None for page in pages] == [True, False, True]
    hanging.leave_device(pages)
    assert hanging.restore([pages[0], pages[2]], first=20).is_complete
    assert hanging.bytes_of([PageId(20), PageId(21)]) == [held[0], held[2]]


@pytest.mark.parametrize("moment", ["before writing", "after writing", None])
@pytest.mark.parametrize("whole_user", [True, False])
def test_a_deletion_reaches_every_file_also_those_on_their_way(
    hanging: TinyTiers, moment: str | None, whole_user: bool
) -> None:
    disk = hanging_disk(hanging)
    gone, held = stored_only(hanging, num_pages=2)
    stays, _ = stored_only(hanging, BERT, num_pages=2)
    coming = [chain(2) for _ in range(4)]
    if moment:
        disk.hangs_at = frozenset({moment})
        for number, pages in enumerate(coming):
            hanging.put_on_device(pages, first=10 + 2 * number)
            hanging.tiers.store(ANNA, pages)
        assert disk.has_entered.wait(PATIENCE_S)
    done: list[bool] = []
    everything = [*gone, *(page for pages in coming for page in pages)]
    hanging.tiers.forget(everything)
    if whole_user:
        hanging.tiers.delete_namespace(ANNA.namespace, done.append)
    else:
        hanging.tiers.delete_session(ANNA, done.append)
    assert done == []
    while not done:
        hanging.woken.clear()
        hanging.tiers.poll()
        assert done or hanging.woken.wait(PATIENCE_S)
    assert done == [True]
    assert not any(contains_anywhere(hanging.folder, token_bytes(page)) for page in everything)
    assert not any(contains_anywhere(hanging.folder, content) for content in held)
    disk.release.set()
    hanging.settle()
    assert {path.parent for path in files(hanging.folder)} == {hanging.folder / session_folder(BERT)}
    assert not any(contains_anywhere(hanging.folder, token_bytes(page)) for page in everything)
    assert hanging.restore(stays, first=30).is_complete
    hanging.tiers.check_integrity(stays)


def test_what_is_stored_while_a_deletion_waits_is_written_after_it(hanging: TinyTiers) -> None:
    """A persona that is changed has its old files deleted and the new ones stored under the same name."""
    disk = hanging_disk(hanging)
    disk.hangs_at = frozenset({"before deleting"})
    hanging.tiers.delete_session(ANNA, lambda is_gone: None)
    assert disk.has_entered.wait(PATIENCE_S)
    pages, others = chain(2), chain(2, BERT)
    hanging.put_on_device([*pages, *others])
    hanging.tiers.store(ANNA, pages)
    hanging.store_only(BERT, others)
    assert [page.disk for page in pages] == [None, None]
    disk.release.set()
    hanging.settle()
    assert all(page.disk is not None and (hanging.folder / page.disk.segment).exists() for page in pages)


def test_pages_that_others_still_have_lose_only_their_place_on_the_disk(tiny: TinyTiers) -> None:
    pages, _ = stored_only(tiny)
    done: list[bool] = []
    tiny.tiers.delete_session(ANNA, done.append)
    assert [page.disk for page in pages] == [None] * 4
    assert set(tiny.pruned) == set(pages)
    tiny.settle()
    assert done == [True]


def test_a_deletion_on_a_disk_that_hangs_is_reported_as_not_done(hanging: TinyTiers) -> None:
    disk = hanging_disk(hanging)
    stored_only(hanging)
    disk.hangs_at = frozenset({"before deleting"})
    done: list[bool] = []
    hanging.tiers.delete_session(ANNA, done.append)
    assert disk.has_entered.wait(PATIENCE_S)
    hanging.clock.advance(TIMEOUT_S)
    hanging.tiers.poll()
    assert done == [False]
    hanging.woken.clear()
    disk.release.set()
    assert hanging.woken.wait(PATIENCE_S)
    hanging.tiers.poll()
    assert done == [False]
    assert files(hanging.folder) == []


def test_a_read_that_hangs_holds_up_no_deletion(hanging: TinyTiers) -> None:
    disk = hanging_disk(hanging)
    pages, _ = stored_only(hanging)
    disk.hangs_at = frozenset({"before reading"})
    hanging.tiers.begin_restore([RestoreItem(pages[0], PageId(20))])
    assert disk.has_entered.wait(PATIENCE_S)
    done: list[bool] = []
    hanging.tiers.delete_session(ANNA, done.append)
    while not done:
        hanging.woken.clear()
        hanging.tiers.poll()
        assert done or hanging.woken.wait(PATIENCE_S)
    assert done == [True]
    assert files(hanging.folder) == []
    disk.release.set()
    [restore] = hanging.settle()
    assert restore.done_pages == 0


def test_files_that_nobody_uses_go_by_themselves(tiny: TinyTiers) -> None:
    pages, _ = stored_only(tiny)
    tiny.clock.advance(4000)
    deadline = tiny.tiers.next_deadline()
    assert deadline is not None
    assert deadline <= 4000
    tiny.tiers.poll()
    tiny.settle()
    tiny.tiers.poll()
    assert files(tiny.folder) == []
    assert set(tiny.pruned) == set(pages)
