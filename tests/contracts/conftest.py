"""The engines that keep to `EngineClient`: the real one around a tiny model, the fake that the app's tests use, and the remote
one in front of a server that speaks like vLLM, and in front of a second Kvasir.

What a remote engine cannot know or do is in `BEYOND`, test by test, with the reason; all others hold for it too.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from engine.client import EngineClient
from engine.local import LocalEngine
from engine.remote.client import RemoteEngine
from engine.remote.config import RemoteConfig
from tests.support.engine_listener import Listener
from tests.support.fake_cluster import FakeCluster
from tests.support.fake_engine import FakeEngine
from tests.support.second_kvasir import SecondKvasir, second_kvasir
from tests.support.tiny_model import load_tiny_model, tiny_config

CONTEXT_TOKENS = 512
MAX_RUNNING = 4
MAX_WAITING = 3
MAX_WAITING_TOKENS = 700

REAL_URL = "REMOTE_ENGINE_URL"
"""Where a real vLLM answers, if one does (`make test-remote`)."""

NO_IDS = "OpenAI's API takes text and gives text"
NO_PREFIX = "what a persona says first is kept by the cluster, for each namespace apart"
NO_COUNT = "its API counts no prompts, so what does not fit is refused by its answer"
NO_SMALL_BLOCKS = "vLLM on a CPU finds whole blocks of 128 tokens, and these prompts are shorter"
REMOTE = {
    "test_an_answer_given_back_as_ids_is_part_of_the_prompt": NO_IDS,
    "test_the_next_turn_computes_only_what_is_new": NO_IDS,
    "test_answers_of_one_step_arrive_together": "steps are the cluster's, and each answer has a connection of its own",
    "test_a_session_is_active_while_its_turn_runs_and_then_idle": "pages are the cluster's",
    "test_a_held_session_has_no_timer_until_it_is_released": "timers are the cluster's: none is ever told",
    "test_a_dropped_session_is_forgotten_and_no_other": "the salt of the whole namespace changes",
    "test_a_personas_prefix_is_there_for_everybody_who_names_it": NO_PREFIX,
    "test_naming_a_persona_does_not_open_its_text_to_guesses": NO_PREFIX,
    "test_a_persona_that_is_replaced_or_dropped_is_not_found_any_more": NO_PREFIX,
}
BEYOND = {
    "vllm": REMOTE,
    "real": REMOTE
    | dict.fromkeys(
        (
            "test_the_last_token_of_a_prompt_is_always_computed",
            "test_a_request_finds_the_same_with_a_session_and_without",
            "test_a_cancelled_turn_keeps_what_was_before_it",
            "test_dropping_a_namespace_forgets_its_parts_and_nobody_else",
        ),
        NO_SMALL_BLOCKS,
    ),
    "kvasir": REMOTE
    | dict.fromkeys(
        (
            "test_an_answer_is_progress_then_text_then_one_end",
            "test_the_count_of_a_prompt_is_what_usage_says",
            "test_a_cancelled_turn_keeps_what_was_before_it",
            "test_a_prompt_that_can_never_fit_is_refused_with_both_numbers_and_no_event",
            "test_a_queue_that_is_full_of_tokens_refuses_and_serves_the_others",
            "test_old_turns_are_left_out_where_the_policy_says_so_and_the_answer_tells",
            "test_what_is_too_long_by_itself_is_refused_under_every_policy",
        ),
        NO_COUNT,
    ),
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


def make_remote(url: str, **more: Any) -> EngineClient:
    config = RemoteConfig(
        url=url, max_running=MAX_RUNNING, max_waiting=MAX_WAITING, max_waiting_tokens=MAX_WAITING_TOKENS, **more
    )
    return RemoteEngine(config)


@asynccontextmanager
async def in_front_of_vllm() -> AsyncIterator[EngineClient]:
    async with FakeCluster(context_tokens=CONTEXT_TOKENS, piece_bytes=61) as cluster:
        yield (engine := make_remote(cluster.url))
        await engine.stop()


@pytest.fixture(scope="session")
def another_kvasir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecondKvasir]:
    with second_kvasir(tmp_path_factory.mktemp("second-kvasir"), CONTEXT_TOKENS) as another:
        yield another


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test of an engine, for each engine that it is meant for."""
    if "fresh" in metafunc.fixturenames:
        name = metafunc.function.__name__
        kinds = ["local", "fake", "vllm", "kvasir", *(["real"] if REAL_URL in os.environ else [])]
        metafunc.parametrize("fresh", [kind for kind in kinds if name not in BEYOND.get(kind, {})], indirect=True)


@pytest.fixture
async def fresh(request: pytest.FixtureRequest) -> AsyncIterator[EngineClient]:
    async with AsyncExitStack() as stack:
        match request.param:
            case "vllm":
                engine = await stack.enter_async_context(in_front_of_vllm())
            case "kvasir":
                another = request.getfixturevalue("another_kvasir")
                engine = make_remote(another.url, api_key=another.key)
            case "real":
                engine = make_remote(os.environ[REAL_URL], context_tokens=CONTEXT_TOKENS)
            case kind:
                engine = make_local() if kind == "local" else make_fake()
        stack.push_async_callback(engine.stop)
        yield engine


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
async def engine(fresh: EngineClient, listener: Listener) -> EngineClient:
    await fresh.start(listener)
    await fresh.wait_ready()
    return fresh
