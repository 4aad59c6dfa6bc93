"""A disk store of tiny records, written and read without an engine."""

from __future__ import annotations

from pathlib import Path

from engine.cached_page import CachedPage
from engine.tiers.disk_store import DiskStore
from engine.types import SessionKey
from tests.support.clock import SteppedClock
from tests.support.tiers import ANNA, FORMAT, content, disk_store, wanted

RECORD = FORMAT.record_bytes
FILE_OF_ONE = RECORD + 1000
"""A little more than a file with one page takes."""


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
