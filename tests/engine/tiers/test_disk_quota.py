"""The disk never takes more than its quota, nor longer than its time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.cached_page import CachedPage
from engine.tiers.segment_file import session_folder
from engine.types import Namespace, SessionKey
from tests.support.clock import SteppedClock
from tests.support.disk_files import FILE_OF_ONE, opened, read, records, write, written
from tests.support.tiers import (
    BERT,
    chain,
    disk_store,
    files,
)


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
