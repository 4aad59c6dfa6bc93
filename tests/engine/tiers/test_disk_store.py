"""The disk's tier: what was written comes back, after a restart too, or is counted as a miss; what a crash left goes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from engine.tiers.disk_store import DiskUnusable
from tests.support.clock import SteppedClock
from tests.support.disk_files import RECORD, opened, read, records, write, written
from tests.support.tiers import (
    ANNA,
    BERT,
    chain,
    content,
    disk_store,
    files,
    wanted,
)


def test_pages_come_back_as_they_were(tmp_path: Path, clock: SteppedClock) -> None:
    store = opened(tmp_path / "kv", clock)
    pages, given_records = chain(3, tail_tokens=5), records(3)
    name = written(store, pages, given_records)
    assert read(store, name, pages) == given_records
    assert store.counters.written_pages == store.counters.read_pages == 3


def test_pages_are_read_in_any_order(tmp_path: Path, clock: SteppedClock) -> None:
    store = opened(tmp_path / "kv", clock)
    pages, given_records = chain(4), records(4)
    name = written(store, pages, given_records)
    out = bytearray(3 * RECORD)
    asked = wanted(pages)
    assert store.read(name, [asked[3], asked[0], asked[1]], memoryview(out)) == 3
    assert bytes(out) == given_records[3] + given_records[0] + given_records[1]


def test_after_a_restart_every_session_is_found_again(tmp_path: Path, clock: SteppedClock) -> None:
    """LMCache/LMCache#1175: the files were there and nobody looked."""
    folder = tmp_path / "kv"
    store = opened(folder, clock)
    first, second = chain(2), chain(1, BERT)
    name = written(store, first, records(2))
    more = chain(2, after=first[-1], tail_tokens=3)
    written(store, more, records(2, 50))
    written(store, second, records(1, 99), BERT)
    clock.advance(60)
    again = disk_store(folder, clock)
    found = {session.key: session for session in again.open()}
    assert set(found) == {ANNA, BERT}
    assert found[ANNA].idle_s == pytest.approx(60)
    contents = [page.content for page in found[ANNA].pages]
    assert sorted(contents, key=lambda page: page.index) == [content(page) for page in [*first, *more]]
    assert [(page.content, page.stored.segment) for page in found[ANNA].pages if page.stored.segment == name] == [
        (content(page), name) for page in first
    ]
    assert read(again, name, first) == records(2)
    assert again.used_bytes == store.used_bytes == sum(path.stat().st_size for path in files(folder))


def test_files_and_folders_are_their_owners_alone(tmp_path: Path, clock: SteppedClock) -> None:
    folder = tmp_path / "kv"
    written(opened(folder, clock), chain(1), records(1))
    for path in [folder, *folder.rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o600 if path.is_file() else 0o700)


def test_what_a_crash_left_half_written_is_removed_and_counted(tmp_path: Path, clock: SteppedClock) -> None:
    """LMCache/LMCache#1788"""
    folder = tmp_path / "kv"
    path = folder / written(opened(folder, clock), chain(2), records(2))
    whole = path.read_bytes()
    for number, length in enumerate((0, 10, len(whole) // 2, len(whole))):
        path.with_name(f"{number}.tmp").write_bytes(whole[:length])
    store = disk_store(folder, clock)
    assert [session.key for session in store.open()] == [ANNA]
    assert store.counters.unfinished == 4
    assert files(folder) == [path]


def test_a_file_has_its_name_only_when_it_is_whole(
    tmp_path: Path, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kv"
    store = opened(folder, clock)
    seen: list[str] = []
    real = os.fsync

    def spy(descriptor: int) -> None:
        seen.extend(path.suffix for path in files(folder))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    written(store, chain(1), records(1))
    assert seen[-2:] == [".tmp", ".kv"]


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_disk_is_counted_and_leaves_nothing(
    tmp_path: Path, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    folder = tmp_path / "kv"
    store = opened(folder, clock)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, call, full)
        assert write(store, chain(1), records(1)) is None
    assert store.counters.write_failures == 1
    assert store.used_bytes == 0
    assert files(folder) == []
    assert write(store, chain(1), records(1)) is not None


def test_a_disk_that_cannot_be_read_is_counted_and_not_asked_again(
    tmp_path: Path, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(tmp_path / "kv", clock)
    pages = chain(1)
    name = written(store, pages, records(1))

    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "preadv", broken)
        assert read(store, name, pages) == []
    assert store.counters.read_failures == 1
    assert read(store, name, pages) == []


def test_a_folder_that_cannot_be_used_is_said_at_the_start(tmp_path: Path, clock: SteppedClock) -> None:
    (tmp_path / "kv").write_text("a file, not a folder")
    with pytest.raises(DiskUnusable, match="kv for KV cannot be used"):
        disk_store(tmp_path / "kv", clock).open()
