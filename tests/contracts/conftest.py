"""The engines that keep to `EngineClient`: the real one around a tiny model, the fake that the app's tests use, and the remote
one in front of a server that speaks like vLLM.

What a remote engine cannot know or do is in `BEYOND`, test by test, with the reason; all others hold for it too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from engine.client import EngineClient
from engine.local import LocalEngine
from engine.remote.client import RemoteEngine
from engine.remote.config import RemoteConfig
from tests.support.engine_listener import Listener
from tests.support.fake_cluster import FakeCluster
from tests.support.fake_engine import FakeEngine
from tests.support.tiny_model import load_tiny_model, tiny_config

CONTEXT_TOKENS = 512
MAX_RUNNING = 4
MAX_WAITING = 3
MAX_WAITING_TOKENS = 700

NO_IDS = "OpenAI's API takes text and gives text"
NO_PREFIX = "what a persona says first is kept by the cluster, for each namespace apart"
BEYOND = {
    "vllm": {
        "test_an_answer_given_back_as_ids_is_part_of_the_prompt": NO_IDS,
        "test_the_next_turn_computes_only_what_is_new": NO_IDS,
        "test_answers_of_one_step_arrive_together": "steps are the cluster's, and each answer has a connection of its own",
        "test_a_session_is_active_while_its_turn_runs_and_then_idle": "pages are the cluster's",
        "test_a_held_session_has_no_timer_until_it_is_released": "timers are the cluster's: none is ever told",
        "test_a_dropped_session_is_forgotten_and_no_other": "the salt of the whole namespace changes",
        "test_a_personas_prefix_is_there_for_everybody_who_names_it": NO_PREFIX,
        "test_naming_a_persona_does_not_open_its_text_to_guesses": NO_PREFIX,
        "test_a_persona_that_is_replaced_or_dropped_is_not_found_any_more": NO_PREFIX,
    },
}


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


@asynccontextmanager
async def local() -> AsyncIterator[EngineClient]:
    yield make_local()


@asynccontextmanager
async def fake() -> AsyncIterator[EngineClient]:
    yield make_fake()


@asynccontextmanager
async def remote() -> AsyncIterator[EngineClient]:
    async with FakeCluster(context_tokens=CONTEXT_TOKENS, piece_bytes=61) as cluster:
        config = RemoteConfig(
            url=cluster.url,
            max_running=MAX_RUNNING,
            max_waiting=MAX_WAITING,
            max_waiting_tokens=MAX_WAITING_TOKENS,
        )
        engine = RemoteEngine(config)
        yield engine
        await engine.stop()


ENGINES: dict[str, Callable[[], AbstractAsyncContextManager[EngineClient]]] = {
    "local": local,
    "fake": fake,
    "vllm": remote,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test of an engine, for each engine that it is meant for."""
    if "fresh" in metafunc.fixturenames:
        name = metafunc.function.__name__
        metafunc.parametrize("fresh", [kind for kind in ENGINES if name not in BEYOND.get(kind, {})], indirect=True)


@pytest.fixture
async def fresh(request: pytest.FixtureRequest) -> AsyncIterator[EngineClient]:
    async with ENGINES[request.param]() as engine:
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
