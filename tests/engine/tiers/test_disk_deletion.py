"""A deleted session or user is in no file, also not in one that was just being written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from engine.page_keys import PageKeys
from engine.types import Namespace, SessionKey
from tests.support.clock import SteppedClock
from tests.support.disk_files import opened, records, write, written
from tests.support.tiers import (
    ANNA,
    BERT,
    KEYS,
    chain,
    contains_anywhere,
    content,
    disk_store,
    files,
    token_bytes,
)


def test_a_deleted_session_is_in_no_file(tmp_path: Path, clock: SteppedClock) -> None:
    folder = tmp_path / "kv"
    store = opened(folder, clock)
    gone, stays = chain(2), chain(2, BERT)
    gone_records, stay_records = records(2, 11), records(2, 77)
    written(store, gone, gone_records)
    written(opened(folder, clock, fingerprint="older model"), gone, gone_records)
    written(store, stays, stay_records, BERT)
    assert contains_anywhere(folder, token_bytes(gone[0]))
    assert contains_anywhere(folder, gone_records[1])
    store.delete_session(ANNA)
    for page, record in zip(gone, gone_records, strict=True):
        assert not contains_anywhere(folder, token_bytes(page))
        assert not contains_anywhere(folder, record)
    assert contains_anywhere(folder, token_bytes(stays[1]))
    assert store.used_bytes == sum(path.stat().st_size for path in files(folder))
    assert disk_store(folder, clock).open()[0].key == BERT
    store.delete_session(ANNA)


def test_a_deleted_user_is_in_no_file_whatever_part_and_session(tmp_path: Path, clock: SteppedClock) -> None:
    folder = tmp_path / "kv"
    store = opened(folder, clock)
    for part in ("", "customer 1", "customer 2"):
        for name in ("a", "b"):
            session = SessionKey(Namespace.user("anna", part), name)
            written(store, chain(1, session), records(1), session)
    stays = written(store, chain(1, BERT), records(1), BERT)
    public = SessionKey(Namespace.public(), "persona")
    kept = written(store, chain(1, public), records(1), public)
    store.delete_namespace(Namespace.user("anna"))
    assert {str(path.relative_to(folder)) for path in files(folder)} == {stays, kept}
    assert len(store.take_gone()) == 6


@pytest.mark.parametrize("moment", ["begun", "renamed"])
def test_a_file_that_is_being_written_when_its_session_is_deleted_never_stays(
    tmp_path: Path, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    folder = tmp_path / "kv"
    store = opened(folder, clock)
    pages, of = chain(1), records(1)
    deleted: list[bool] = []
    real = os.fsync

    def delete_meanwhile(descriptor: int) -> None:
        suffix = ".tmp" if moment == "begun" else ".kv"
        if not deleted and any(path.suffix == suffix for path in files(folder)):
            deleted.append(True)
            store.delete_session(ANNA)
            assert not contains_anywhere(folder, token_bytes(pages[0]))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", delete_meanwhile)
    assert write(store, pages, of) is None
    assert deleted
    assert files(folder) == []
    assert store.used_bytes == 0
    assert store.counters.write_failures == 0


@pytest.mark.parametrize("looks", [1, 2, 3])
def test_what_nobody_wants_any_more_does_not_become_a_file(tmp_path: Path, clock: SteppedClock, looks: int) -> None:
    store = opened(tmp_path / "kv", clock)
    wishes = iter([True] * (looks - 1) + [False])
    assert store.write(ANNA, [content(chain(1)[0])], [memoryview(records(1)[0])], lambda: next(wishes)) is None
    assert files(tmp_path / "kv") == []
    assert store.used_bytes == 0


def test_what_is_not_wanted_before_its_first_byte_is_never_on_the_disk(
    tmp_path: Path, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(tmp_path / "kv", clock)
    monkeypatch.setattr(os, "write", lambda *_: pytest.fail("a byte was written"))
    assert store.write(ANNA, [content(chain(1)[0])], [memoryview(records(1)[0])], lambda: False) is None
    assert store.counters.write_failures == 0


def test_a_deletion_that_fails_says_so(tmp_path: Path, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(tmp_path / "kv", clock)
    written(store, chain(1), records(1))

    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", read_only)
        with pytest.raises(OSError, match="read-only"):
            store.delete_session(ANNA)
    store.delete_session(ANNA)
    assert files(tmp_path / "kv") == []


def test_a_deletion_that_fails_midway_counts_only_what_is_left(
    tmp_path: Path, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kv"
    store = opened(folder, clock)
    sessions = [SessionKey(Namespace.user("anna"), name) for name in "abc"]
    for session in sessions:
        written(store, chain(1, session), records(1), session)
    (stuck, *_) = files(folder)
    unlink, fsync, num_synced = Path.unlink, os.fsync, iter(range(99))

    def all_but_one(path: Path, missing_ok: bool = False) -> None:
        if path == stuck:
            raise OSError(errno.EIO, "the disk fails")
        unlink(path, missing_ok)

    def all_but_the_first(descriptor: int) -> None:
        if not next(num_synced):
            raise OSError(errno.EIO, "the disk fails")
        fsync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", all_but_one)
        patched.setattr(os, "fsync", all_but_the_first)
        with pytest.raises(OSError, match="the disk fails"):
            store.delete_namespace(Namespace.user("anna"))
    assert files(folder) == [stuck], "one file that cannot be removed keeps no other"
    assert store.used_bytes == stuck.stat().st_size
    store.delete_namespace(Namespace.user("anna"))
    assert files(folder) == []
    assert store.used_bytes == 0


def test_the_secret_beside_the_files_stays(tmp_path: Path, clock: SteppedClock) -> None:
    folder = tmp_path / "kv"
    store = opened(folder, clock)
    (folder / "secret").write_bytes(b"s" * 32)
    written(store, chain(1), records(1))
    store.delete_session(ANNA)
    disk_store(folder, clock).open()
    assert files(folder) == [folder / "secret"]


def test_pages_of_a_key_that_the_index_would_not_give_them_are_of_another_secret() -> None:
    other = PageKeys(b"t" * 32, "fingerprint")
    assert other.root != KEYS.root != PageKeys(b"s" * 32, "another model").root
