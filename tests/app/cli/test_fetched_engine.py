"""The engine whose model is still being fetched: loading meanwhile, then what it became, and a failure as a sentence."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli.fetched_engine import FetchedEngine
from engine.errors import EngineNotReady, ModelError
from engine.snapshot import EngineSnapshot
from engine.types import EngineState, GenerationRequest, Namespace, RequestId, Role, SessionKey, Turn
from tests.support.fake_engine import FakeEngine

REQUEST = GenerationRequest(RequestId("r1"), (Turn(Role.USER, "hello"),))


async def test_it_is_loading_while_the_model_is_fetched_and_then_is_the_engine() -> None:
    may_end = threading.Event()
    fake = FakeEngine()
    made_of: list[Path] = []

    def make(path: Path) -> FakeEngine:
        made_of.append(path)
        return fake

    def fetch() -> Path:
        may_end.wait()
        return Path("models/tiny")

    engine = FetchedEngine(fetch, make)
    await engine.start(lambda events: None)
    assert engine.state is EngineState.LOADING
    assert engine.stats().state is EngineState.LOADING
    assert engine.model is None
    with pytest.raises(EngineNotReady, match="being fetched"):
        await engine.submit(REQUEST)
    engine.cancel(REQUEST.request_id)

    may_end.set()
    await engine.wait_ready()
    assert made_of == [Path("models/tiny")]
    assert engine.state is EngineState.READY
    assert engine.model == fake.model
    assert await engine.check(REQUEST) == await fake.check(REQUEST)
    await engine.submit(REQUEST)
    assert engine.stats() == fake.stats()
    await engine.stop()
    assert engine.state is EngineState.STOPPED


async def test_everything_it_is_asked_goes_to_the_engine_once_that_is_there() -> None:
    may_end = threading.Event()
    fake = FakeEngine()

    def fetch() -> Path:
        may_end.wait()
        return Path("models/tiny")

    engine = FetchedEngine(fetch, lambda path: fake)
    ann = Namespace.user("ann")
    key = SessionKey(ann, "c1")

    def calls() -> list[Awaitable[object]]:
        return [
            engine.set_prefix("terse", [Turn(Role.SYSTEM, "Be brief.")]),
            engine.snapshot(),
            engine.evict_session(key),
            engine.hold_session(key),
            engine.release_session(key),
            engine.drop_session(key),
            engine.drop_namespace(ann),
            engine.drop_prefix("terse"),
        ]

    await engine.start(lambda events: None)
    for call in calls():
        with pytest.raises(EngineNotReady, match="being fetched"):
            await call
    may_end.set()
    await engine.wait_ready()
    await engine.submit(replace(REQUEST, namespace=ann, session="c1"))
    fake.advance_to_end()
    _, snapshot, evicted, held, released, dropped, sessions, _ = [await call for call in calls()]
    assert isinstance(snapshot, EngineSnapshot)
    assert [prefix.name for prefix in snapshot.prefixes] == ["terse"]
    assert (evicted, held, released, dropped, sessions) == (True, True, True, True, 0)
    assert await engine.snapshot() == EngineSnapshot()
    await engine.stop()


async def test_a_model_that_cannot_be_had_is_a_failure_in_one_sentence() -> None:
    def fetch() -> Path:
        raise ModelError("the hub cannot be reached")

    engine = FetchedEngine(fetch, lambda path: FakeEngine())
    await engine.start(lambda events: None)
    with pytest.raises(EngineNotReady, match="the hub cannot be reached"):
        await engine.wait_ready()
    await engine.stop()
    assert (engine.state, engine.failure) == (EngineState.FAILED, "the hub cannot be reached")


async def test_what_nobody_foresaw_is_a_failure_too_and_not_an_endless_wait() -> None:
    def fetch() -> Path:
        raise ZeroDivisionError

    engine = FetchedEngine(fetch, lambda path: FakeEngine())
    await engine.start(lambda events: None)
    with pytest.raises(EngineNotReady, match="the log has more"):
        await engine.wait_ready()
    await engine.stop()


async def test_stopping_does_not_wait_for_a_download() -> None:
    may_end = threading.Event()

    def fetch() -> Path:
        may_end.wait()
        return Path("late")

    engine = FetchedEngine(fetch, lambda path: FakeEngine())
    await engine.start(lambda events: None)
    waiting = asyncio.create_task(engine.wait_ready())
    await asyncio.sleep(0)
    await engine.stop()
    with pytest.raises(EngineNotReady):
        await waiting
    may_end.set()
