"""The disk's tier: what was written comes back right or not at all, after a restart too, and never takes more than its quota."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.cached_page import CachedPage
from engine.page_keys import PageKeys
from engine.tiers import disk_store as disk_store_module
from engine.tiers.disk_store import DiskStore, DiskUnusable
from engine.tiers.segment_file import VERSION, encode_header, session_folder
from engine.types import Namespace, SessionKey
from tests.support.clock import SteppedClock
from tests.support.tiers import ANNA, BERT, FORMAT, KEYS, chain, contains_anywhere, content, disk_store, wanted

RECORD = FORMAT.record_bytes
FILE_OF_ONE = RECORD + 1000
"""A little more than a file with one page takes."""


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


def opened(folder: Path, clock: SteppedClock, **settings: object) -> DiskStore:
    store = disk_store(folder, clock, **settings)  # type: ignore[arg-type]
    store.open()
    return store


def records(count: int, seed: int = 0) -> list[bytes]:
    return [bytes((seed + number * 7 + place * 13) % 251 for place in range(RECORD)) for number in range(count)]


def write(store: DiskStore, pages: list[CachedPage], of: list[bytes], session: SessionKey = ANNA) -> str | None:
    return store.write(session, [content(page) for page in pages], [memoryview(record) for record in of])


def written(store: DiskStore, pages: list[CachedPage], of: list[bytes], session: SessionKey = ANNA) -> str:
    name = write(store, pages, of, session)
    assert name is not None
    return name


def read(store: DiskStore, name: str, pages: list[CachedPage]) -> list[bytes]:
    out = bytearray(len(pages) * RECORD)
    good = store.read(name, wanted(pages), memoryview(out))
    return [bytes(out[index * RECORD : (index + 1) * RECORD]) for index in range(good)]


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


# --- coming back -----------------------------------------------------------------------------------------------------


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


# --- damage ----------------------------------------------------------------------------------------------------------


def test_every_damaged_byte_is_a_miss_and_counted(tmp_path: Path, clock: SteppedClock) -> None:
    store = opened(tmp_path / "kv", clock)
    pages, given_records = chain(2), records(2)
    sample = (tmp_path / "kv" / written(store, pages, given_records)).read_bytes()
    header_bytes = len(sample) - 2 * RECORD
    places = [*range(0, header_bytes, 3), *range(header_bytes, len(sample), 97), len(sample) - 1]
    for number, place in enumerate(places):
        name = written(store, pages, given_records)
        path = tmp_path / "kv" / name
        damaged = bytearray(path.read_bytes())
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        got = read(store, name, pages)
        in_second_record = place >= header_bytes + RECORD
        assert got == (given_records[:1] if in_second_record else [])
        assert store.counters.damaged == number + 1
        assert name in store.take_gone()
        assert not path.exists()


def test_a_damaged_file_is_never_offered_again(tmp_path: Path, clock: SteppedClock) -> None:
    """sgl-project/sglang#38031: damaged copies were served for good."""
    store = opened(tmp_path / "kv", clock)
    pages = chain(2)
    name = written(store, pages, records(2))
    path = tmp_path / "kv" / name
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    assert len(read(store, name, pages)) == 1
    assert read(store, name, pages) == []
    assert disk_store(tmp_path / "kv", clock).open() == []


@pytest.mark.parametrize(
    "damage", [lambda body: body[:-1], lambda body: body[:60], lambda body: b"", lambda body: body + b"x"]
)
def test_a_file_of_another_size_is_removed_at_the_start(
    tmp_path: Path, clock: SteppedClock, damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "kv" / written(opened(tmp_path / "kv", clock), chain(2), records(2))
    path.write_bytes(damage(path.read_bytes()))
    os.utime(path, (clock.now().timestamp(), clock.now().timestamp()))
    store = disk_store(tmp_path / "kv", clock)
    assert store.open() == []
    assert store.counters.damaged == 1
    assert files(tmp_path / "kv") == []
    assert store.used_bytes == 0


def test_a_file_that_was_cut_while_it_is_known_is_a_miss(tmp_path: Path, clock: SteppedClock) -> None:
    store = opened(tmp_path / "kv", clock)
    pages = chain(2)
    name = written(store, pages, records(2))
    os.truncate(tmp_path / "kv" / name, RECORD)
    assert read(store, name, pages) == []
    assert store.counters.damaged == 1


def test_a_file_that_vanished_is_a_miss(tmp_path: Path, clock: SteppedClock) -> None:
    store = opened(tmp_path / "kv", clock)
    pages = chain(1)
    name = written(store, pages, records(1))
    (tmp_path / "kv" / name).unlink()
    assert read(store, name, pages) == []
    assert store.take_gone() == [name]
    assert store.used_bytes == 0


def test_a_page_is_only_believed_if_its_tokens_and_key_are_those_wanted(tmp_path: Path, clock: SteppedClock) -> None:
    store = opened(tmp_path / "kv", clock)
    pages, others = chain(1), chain(1)
    for asked in (replace(others[0], tokens=pages[0].tokens), replace(pages[0], tokens=others[0].tokens)):
        name = written(store, pages, records(1))
        assert read(store, name, [asked]) == []
    assert store.counters.damaged == 2


def test_a_file_in_somebody_elses_folder_is_not_his(tmp_path: Path, clock: SteppedClock) -> None:
    folder = tmp_path / "kv"
    store = opened(folder, clock)
    path = folder / written(store, chain(1), records(1))
    theirs = folder / written(store, chain(1, BERT), records(1), BERT)
    path.rename(theirs.with_name("0.kv"))
    again = disk_store(folder, clock)
    assert [session.key for session in again.open()] == [BERT]
    assert again.counters.damaged == 1


# --- other models ----------------------------------------------------------------------------------------------------


def other_version(store: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_store_module, "encode_header", lambda header: encode_header(header, version=VERSION + 1))


@pytest.mark.parametrize(
    "other",
    [
        {"fingerprint": "new weights"},
        {"keys": PageKeys(b"t" * 32, "fingerprint")},
        {"format": replace(FORMAT, dtype="bfloat16")},
        {"format": replace(FORMAT, tensors=FORMAT.tensors[:-1])},
        {"format": replace(FORMAT, tensors=(*FORMAT.tensors[:-1], "scales.2"))},
        {"format": replace(FORMAT, shape=(16, 4, 2))},
    ],
)
def test_what_another_model_wrote_is_a_miss_and_its_session_is_known(
    tmp_path: Path, clock: SteppedClock, other: dict[str, object]
) -> None:
    """vllm-project/vllm#30931: new weights, and old entries kept matching."""
    folder = tmp_path / "kv"
    written(opened(folder, clock), chain(3, tail_tokens=4), records(3))
    store = disk_store(folder, clock, **other)  # type: ignore[arg-type]
    assert store.open() == []
    assert store.counters.foreign == 1
    assert store.foreign_sessions == {ANNA: 36}
    assert store.used_bytes == sum(path.stat().st_size for path in files(folder)) > 0
    # Back with the old model, everything is there.
    assert [session.key for session in disk_store(folder, clock).open()] == [ANNA]


def test_a_file_of_another_version_is_foreign(
    tmp_path: Path, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kv"
    writer = opened(folder, clock)
    other_version(writer, monkeypatch)
    written(writer, chain(1), records(1))
    store = disk_store(folder, clock)
    assert store.open() == []
    assert (store.counters.foreign, store.counters.damaged) == (1, 0)
    assert len(files(folder)) == 1


def test_files_of_other_models_are_the_first_to_go(tmp_path: Path, clock: SteppedClock) -> None:
    folder = tmp_path / "kv"
    mine = written(opened(folder, clock), chain(1), records(1))
    clock.advance(5)
    foreign = written(opened(folder, clock, fingerprint="other"), chain(1, BERT), records(1), BERT)
    store = opened(folder, clock, limit_bytes=2 * FILE_OF_ONE)
    third = SessionKey(Namespace.user("carl"), "talk")
    written(store, chain(1, third), records(1), third)
    assert not (folder / foreign).exists()
    assert (folder / mine).exists()


# --- crashes ---------------------------------------------------------------------------------------------------------


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


# --- quota and time --------------------------------------------------------------------------------------------------


def test_what_is_larger_than_the_quota_is_skipped_before_a_byte_is_written(tmp_path: Path, clock: SteppedClock) -> None:
    """ggml-org/llama.cpp#22629"""
    folder = tmp_path / "kv"
    store = opened(folder, clock, limit_bytes=FILE_OF_ONE)
    name = written(store, chain(1), records(1))
    assert write(store, chain(2, BERT), records(2), BERT) is None
    assert store.counters.too_large == 1
    assert [str(path.relative_to(folder)) for path in files(folder)] == [name]


def test_the_file_used_least_recently_makes_room(tmp_path: Path, clock: SteppedClock) -> None:
    folder = tmp_path / "kv"
    store = opened(folder, clock, limit_bytes=3 * FILE_OF_ONE)
    sessions = [SessionKey(Namespace.user("anna"), f"talk {number}") for number in range(4)]
    paths = [chain(1, session) for session in sessions]
    names = []
    for session, pages in zip(sessions[:3], paths, strict=False):
        names.append(written(store, pages, records(1), session))
        clock.advance(1)
    assert len(read(store, names[0], paths[0])) == 1
    clock.advance(1)
    store.use([names[1]])
    written(store, paths[3], records(1), sessions[3])
    assert [(folder / name).exists() for name in names] == [True, True, False]
    assert store.take_gone() == [names[2]]
    assert store.counters.evicted == 1


def test_a_smaller_quota_holds_from_the_start_on(tmp_path: Path, clock: SteppedClock) -> None:
    folder = tmp_path / "kv"
    store = opened(folder, clock)
    for number in range(4):
        clock.advance(1)
        session = SessionKey(Namespace.user("anna"), f"talk {number}")
        written(store, chain(1, session), records(1), session)
    again = disk_store(folder, clock, limit_bytes=2 * FILE_OF_ONE)
    assert sorted(session.key.name for session in again.open()) == ["talk 2", "talk 3"]
    assert again.used_bytes == sum(path.stat().st_size for path in files(folder)) <= 2 * FILE_OF_ONE


def test_what_nobody_has_used_for_too_long_is_gone(tmp_path: Path, clock: SteppedClock) -> None:
    folder = tmp_path / "kv"
    store = opened(folder, clock, ttl_s=100)
    old, used = chain(1), chain(1, BERT)
    old_name, used_name = written(store, old, records(1)), written(store, used, records(1), BERT)
    clock.advance(90)
    assert len(read(store, used_name, used)) == 1
    clock.advance(20)
    again = disk_store(folder, clock, ttl_s=100)
    assert [session.key for session in again.open()] == [BERT]
    assert again.counters.expired == 1
    assert not (folder / old_name).exists()
    clock.advance(100)
    again.delete_expired()
    assert files(folder) == []
    assert again.take_gone() == [used_name]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    limit=st.integers(0, 5 * FILE_OF_ONE),
    operations=st.lists(st.tuples(st.sampled_from("wwwrdnx"), st.integers(0, 3), st.integers(1, 3)), max_size=14),
)
def test_the_files_never_exceed_the_quota(
    tmp_path_factory: pytest.TempPathFactory, limit: int, operations: list[tuple[str, int, int]]
) -> None:
    folder, clock = tmp_path_factory.mktemp("quota") / "kv", SteppedClock()
    store = opened(folder, clock, limit_bytes=limit)
    names: list[tuple[str, list[CachedPage]]] = []
    for operation, number, size in operations:
        session = SessionKey(Namespace.user(f"user {number % 2}"), f"talk {number}")
        clock.advance(1)
        if operation == "w":
            pages = chain(size, session)
            if name := write(store, pages, records(size), session):
                names.append((name, pages))
        elif operation == "r" and names:
            read(store, *names[number % len(names)])
        elif operation == "d":
            store.delete_session(session)
            assert not (folder / session_folder(session)).exists()
        elif operation == "n":
            store.delete_namespace(session.namespace)
        elif operation == "x":
            store = opened(folder, clock, limit_bytes=limit)
        assert store.used_bytes == sum(path.stat().st_size for path in files(folder)) <= limit


# --- a disk that fails -----------------------------------------------------------------------------------------------


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


# --- deletion --------------------------------------------------------------------------------------------------------


def token_bytes(page: CachedPage) -> bytes:
    return b"".join(token.to_bytes(4, "little") for token in page.tokens)


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


def test_what_nobody_wants_any_more_does_not_become_a_file(tmp_path: Path, clock: SteppedClock) -> None:
    store = opened(tmp_path / "kv", clock)
    pages = chain(1)
    wishes = iter([True, False])
    assert store.write(ANNA, [content(pages[0])], [memoryview(records(1)[0])], lambda: next(wishes)) is None
    assert files(tmp_path / "kv") == []
    assert store.used_bytes == 0


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
