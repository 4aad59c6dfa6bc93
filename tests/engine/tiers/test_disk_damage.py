"""What is wrong in a file, or of another model, is a miss, counted, and never offered again."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.page_keys import PageKeys
from engine.tiers import disk_store as disk_store_module
from engine.tiers.disk_store import DiskStore
from engine.tiers.segment_file import VERSION, encode_header
from engine.types import Namespace, SessionKey
from tests.support.clock import SteppedClock
from tests.support.disk_files import FILE_OF_ONE, RECORD, opened, read, records, written
from tests.support.tiers import (
    ANNA,
    BERT,
    FORMAT,
    chain,
    disk_store,
    files,
)


def test_every_damaged_byte_is_a_miss_and_counted(tmp_path: Path, clock: SteppedClock) -> None:
    store = opened(tmp_path / "kv", clock)
    pages, given_records = chain(2), records(2)
    sample = (tmp_path / "kv" / written(store, pages, given_records)).read_bytes()
    header_bytes = len(sample) - 2 * RECORD
    places = [*range(0, header_bytes, 3), *range(header_bytes, len(sample), 397), len(sample) - 1]
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
    for asked in (replace(others[0], packed=pages[0].packed), replace(pages[0], packed=others[0].packed)):
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
