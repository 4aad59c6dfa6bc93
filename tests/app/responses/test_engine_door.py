"""In front of a full engine: nobody is lost, and nobody is overtaken."""

from __future__ import annotations

import asyncio

import pytest

from app.responses.engine_door import EngineDoor
from engine.errors import PromptTooLong
from engine.types import GenerationRequest, RequestId, Role, Turn
from tests.support.fake_engine import FakeEngine
from tests.support.scripts import ENDLESS


def request(name: str, words: int = 1) -> GenerationRequest:
    return GenerationRequest(RequestId(name), (Turn(Role.USER, "word " * words),))


@pytest.fixture
async def engine() -> FakeEngine:
    """One runs, one may wait."""
    engine = FakeEngine(max_running=1, max_waiting=1, answer=lambda request: ENDLESS)
    await engine.start(lambda events: None)
    return engine


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_who_was_refused_is_the_next_to_get_in_however_many_came_after(engine: FakeEngine) -> None:
    door = EngineDoor(engine)
    for name in ("running", "waiting"):
        await door.submit(request(name))
    tasks = [asyncio.create_task(door.submit(request(f"r{number}"))) for number in range(4)]
    await settle()
    assert len(engine.requests) == 2
    for expected in range(4):
        engine.cancel(engine.requests[expected].request_id)
        engine.advance()
        door.has_room()
        await settle()
        assert [one.request_id for one in engine.requests[2:]] == [f"r{number}" for number in range(expected + 1)]
    await asyncio.gather(*tasks)
    await engine.stop()


async def test_a_full_engine_is_asked_again_by_itself(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.responses.engine_door.LONGEST_RETRY_S", 0.001)
    door = EngineDoor(engine)
    for name in ("running", "waiting"):
        await door.submit(request(name))
    late = asyncio.create_task(door.submit(request("late")))
    await settle()
    engine.cancel(RequestId("running"))
    engine.advance()
    async with asyncio.timeout(20):
        await late
    await engine.stop()


async def test_who_leaves_the_line_leaves_it_to_the_next(engine: FakeEngine) -> None:
    door = EngineDoor(engine)
    for name in ("running", "waiting"):
        await door.submit(request(name))
    first, second = (asyncio.create_task(door.submit(request(name))) for name in ("first", "second"))
    await settle()
    first.cancel()
    await asyncio.wait([first])
    engine.cancel(RequestId("running"))
    engine.advance()
    door.has_room()
    async with asyncio.timeout(20):
        await second
    assert engine.requests[-1] == request("second")
    await engine.stop()


async def test_who_leaves_while_the_engine_takes_the_request_takes_it_back(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(request: GenerationRequest) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(engine, "submit", slow)
    leaving = asyncio.create_task(EngineDoor(engine).submit(request("left")))
    await settle()
    leaving.cancel()
    await asyncio.wait([leaving])
    assert engine.cancelled == ["left"]
    await engine.stop()


async def test_one_that_never_fits_holds_up_nobody(engine: FakeEngine) -> None:
    door = EngineDoor(engine)
    with pytest.raises(PromptTooLong):
        await door.submit(request("long", words=5000))
    await door.submit(request("short"))
    await engine.stop()
