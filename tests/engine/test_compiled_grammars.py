"""The whole local engine: constraints are compiled beside everything else, and what is refused has cost nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from engine.errors import ConstraintRefused
from engine.local import LocalEngine
from engine.types import FinishReason
from tests.support.constrained import constrained, schema_of
from tests.support.engine_listener import Listener
from tests.support.tiny_model import load_tiny_model, request, tiny_config


@pytest.fixture
async def running() -> AsyncIterator[tuple[LocalEngine, Listener]]:
    engine, listener = LocalEngine(tiny_config(), load=load_tiny_model), Listener()
    await engine.start(listener)
    await engine.wait_ready()
    yield engine, listener
    await engine.stop()


async def test_an_answer_is_held_to_its_schema(running: tuple[LocalEngine, Listener]) -> None:
    engine, listener = running
    await engine.submit(constrained("a", schema_of({"enum": ["one", "two"]})))
    await engine.submit(request("b"))
    end, _ = await listener.end_of("a", "b")
    assert end.reason is FinishReason.STOP
    assert json.loads(listener.text("a")) in ("one", "two")


async def test_a_schema_that_is_refused_is_refused_when_it_is_counted_and_when_it_is_submitted(
    running: tuple[LocalEngine, Listener],
) -> None:
    engine, listener = running
    wrong = constrained("a", schema_of({"not": {}}))
    with pytest.raises(ConstraintRefused, match="not"):
        await engine.check(wrong)
    with pytest.raises(ConstraintRefused, match="not"):
        await engine.submit(wrong)
    assert engine.stats().waiting_requests == 0
    await engine.submit(constrained("a", schema_of({"const": 1})))
    (end,) = await listener.end_of("a")
    assert end.reason is FinishReason.STOP
