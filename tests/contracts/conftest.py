"""The two engines that keep to `EngineClient`: the real one around a tiny model, and the fake that the app's tests use."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from engine.client import EngineClient
from engine.local import LocalEngine
from tests.support.engine_listener import Listener
from tests.support.fake_engine import FakeEngine
from tests.support.tiny_model import load_tiny_model, tiny_config

CONTEXT_TOKENS = 512
MAX_RUNNING = 4
MAX_WAITING = 3
MAX_WAITING_TOKENS = 700


def make_local() -> EngineClient:
    config = tiny_config(
        max_running=MAX_RUNNING, max_waiting=MAX_WAITING, max_step_tokens=64, max_waiting_tokens=MAX_WAITING_TOKENS
    )
    return LocalEngine(config, load=load_tiny_model)


def make_fake() -> EngineClient:
    return FakeEngine(
        delay_s=0,
        context_tokens=CONTEXT_TOKENS,
        max_running=MAX_RUNNING,
        max_waiting=MAX_WAITING,
        max_waiting_tokens=MAX_WAITING_TOKENS,
    )


@pytest.fixture(params=[make_local, make_fake], ids=["local", "fake"])
async def fresh(request: pytest.FixtureRequest) -> AsyncIterator[EngineClient]:
    engine: EngineClient = request.param()
    yield engine
    await engine.stop()


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
async def engine(fresh: EngineClient, listener: Listener) -> EngineClient:
    await fresh.start(listener)
    await fresh.wait_ready()
    return fresh
