from __future__ import annotations

import asyncio
import logging
import random
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from engine.config import EngineConfig
from engine.errors import EngineNotReady, ModelError
from engine.local import LocalEngine
from engine.model.batch import ForwardBatch
from engine.model.loader import LoadedModel
from engine.types import EngineState, FailureCode, FinishReason, GenerationRequest, RequestId
from tests.contracts.test_engine_client import Listener
from tests.support.tiny_model import (
    SPEC,
    TinyDecoder,
    TinyTokenizer,
    load_tiny_model,
    request,
    tiny_config,
    tiny_info,
)


class Started:
    """A local engine whose decoder, tokenizer and loading the test can hold up."""

    def __init__(self, **config: int) -> None:
        self.decoder = TinyDecoder()
        self.tokenizer = TinyTokenizer()
        self.may_load = threading.Event()
        self.listener = Listener()
        self.engine = LocalEngine(tiny_config(**config), load=self.load)

    def load(self, config: EngineConfig, on_progress: Callable[[str], None]) -> LoadedModel:
        on_progress("waiting")
        assert self.may_load.wait(timeout=60)
        on_progress("loaded")
        return LoadedModel(self.decoder, self.tokenizer, tiny_info(), SPEC)  # type: ignore[arg-type]

    async def ready(self) -> LocalEngine:
        self.may_load.set()
        await self.engine.start(self.listener)
        await self.engine.wait_ready()
        return self.engine


@pytest.fixture
async def started() -> AsyncIterator[Started]:
    started = Started(max_running=4, max_step_tokens=32)
    yield started
    started.may_load.set()
    await started.engine.stop()


def test_importing_the_client_side_does_not_import_torch() -> None:
    """The port answers before the model loads, and torch alone takes seconds to import."""
    code = (
        "import sys, engine.local, engine.client; sys.exit(bool({'torch', 'numpy', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_start_returns_while_the_model_loads(started: Started) -> None:
    await started.engine.start(started.listener)
    assert started.engine.state is EngineState.LOADING
    with pytest.raises(EngineNotReady, match="the engine is loading"):
        await started.engine.submit(request("a"))
    waiter = asyncio.create_task(started.engine.wait_ready())
    started.may_load.set()
    await waiter
    assert started.engine.state is EngineState.READY
    with pytest.raises(RuntimeError, match="twice"):
        await started.engine.start(started.listener)


async def test_stopping_while_it_loads_ends_the_thread(started: Started) -> None:
    await started.engine.start(started.listener)
    stopping = asyncio.create_task(started.engine.stop())
    await asyncio.sleep(0)
    started.may_load.set()
    await stopping
    assert started.engine.state is EngineState.STOPPED
    assert started.engine.stats().state is EngineState.STOPPED
    with pytest.raises(EngineNotReady):
        await started.engine.wait_ready()


async def test_stopping_an_engine_that_never_started_is_fine() -> None:
    engine = LocalEngine(tiny_config(), load=load_tiny_model)
    await engine.stop()
    assert engine.state is EngineState.STOPPED


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (ModelError("the folder x has no config.json"), "the folder x has no config.json"),
        (MemoryError("too big"), "The engine failed: MemoryError: too big"),
    ],
)
async def test_a_model_that_cannot_be_loaded_is_said_in_one_sentence(problem: Exception, sentence: str) -> None:
    def load(config: EngineConfig, on_progress: object) -> LoadedModel:
        raise problem

    engine = LocalEngine(tiny_config(), load=load)
    await engine.start(Listener())
    with pytest.raises(EngineNotReady, match=sentence):
        await engine.wait_ready()
    assert engine.state is EngineState.FAILED
    assert engine.failure == sentence
    await engine.stop()
    assert engine.state is EngineState.FAILED


async def test_memory_for_less_than_a_page_is_refused_with_both_numbers() -> None:
    engine = LocalEngine(tiny_config(kv_memory_bytes=100), load=load_tiny_model)
    await engine.start(Listener())
    with pytest.raises(EngineNotReady, match="has 100 bytes, but one page needs 256"):
        await engine.wait_ready()
    await engine.stop()


async def test_an_engine_that_breaks_ends_what_it_has_and_takes_no_more(started: Started) -> None:
    engine = await started.ready()

    all_sent = threading.Event()

    def burn(batch: ForwardBatch) -> None:
        assert all_sent.wait(timeout=60)
        raise RuntimeError("the device is gone")

    started.decoder.before_forward = burn
    names = [f"r{number}" for number in range(20)]
    for name in names:
        await engine.submit(request(name))
    all_sent.set()
    for end in await started.listener.end_of(*names):
        assert end.reason is FinishReason.FAILED
        assert end.failure is not None
        assert end.failure.code in (FailureCode.STEP_FAILED, FailureCode.ENGINE_FAILED)
    while engine.state is not EngineState.FAILED:  # noqa: ASYNC110  # an engine has no event for this
        # The thread says so after the last end, when it is gone.
        await asyncio.sleep(0.01)
    await engine.stop()
    assert engine.state is EngineState.FAILED
    assert engine.failure is not None
    assert "the device is gone" in engine.failure
    # What was counted stays true, also for who reads it afterwards.
    assert engine.stats().state is EngineState.FAILED
    assert engine.stats().steps_total == 3
    assert engine.stats().pages_free == engine.stats().pages_total > 0
    with pytest.raises(EngineNotReady, match="the device is gone"):
        await engine.submit(request("late"))


async def test_requests_the_dead_thread_never_answered_still_end(started: Started) -> None:
    engine = await started.ready()
    in_step, go_on = threading.Event(), threading.Event()

    def die(batch: ForwardBatch) -> None:
        in_step.set()
        assert go_on.wait(timeout=60)
        raise SystemExit  # not an Exception: no step catches it

    started.decoder.before_forward = die
    await engine.submit(request("a"))
    await asyncio.to_thread(in_step.wait)
    await engine.submit(request("b"))
    go_on.set()
    for end in await started.listener.end_of("a", "b"):
        assert end.failure is not None
        assert end.failure.code == FailureCode.ENGINE_FAILED
    assert engine.state is EngineState.FAILED


async def test_cancel_while_the_prompt_is_still_encoded_is_not_lost(started: Started) -> None:
    engine = await started.ready()
    may_encode = threading.Event()
    encode = started.tokenizer.encode_turns

    def slow(turns: object) -> list[int]:
        assert may_encode.wait(timeout=60)
        return encode(turns)  # type: ignore[arg-type]

    started.tokenizer.encode_turns = slow  # type: ignore[method-assign]
    steps = len(started.decoder.batches)
    submission = asyncio.create_task(engine.submit(request("a")))
    await asyncio.sleep(0)
    engine.cancel(RequestId("a"))
    may_encode.set()
    await submission
    (end,) = await started.listener.end_of("a")
    assert end.reason is FinishReason.CANCELLED
    assert end.usage.output_tokens == 0
    assert len(started.decoder.batches) == steps


async def test_a_submission_that_is_given_up_while_encoding_leaves_nothing_behind(started: Started) -> None:
    engine = await started.ready()
    may_encode = threading.Event()
    encode = started.tokenizer.encode_turns

    def slow(turns: object) -> list[int]:
        assert may_encode.wait(timeout=60)
        return encode(turns)  # type: ignore[arg-type]

    started.tokenizer.encode_turns = slow  # type: ignore[method-assign]
    submission = asyncio.create_task(engine.submit(request("a")))
    await asyncio.sleep(0)
    submission.cancel()
    with pytest.raises(asyncio.CancelledError):
        await submission
    may_encode.set()
    await engine.submit(request("a"))
    (end,) = await started.listener.end_of("a")
    assert end.reason is not FinishReason.CANCELLED


async def test_a_stop_while_a_prompt_is_encoded_refuses_it(started: Started) -> None:
    engine = await started.ready()
    may_encode = threading.Event()
    encode = started.tokenizer.encode_turns

    def slow(turns: object) -> list[int]:
        assert may_encode.wait(timeout=60)
        return encode(turns)  # type: ignore[arg-type]

    started.tokenizer.encode_turns = slow  # type: ignore[method-assign]
    submission = asyncio.create_task(engine.submit(request("a")))
    await asyncio.sleep(0)
    await engine.stop()
    may_encode.set()
    with pytest.raises(EngineNotReady, match="stopped"):
        await submission
    assert started.listener.events("a") == []


async def test_the_loop_is_free_while_the_engine_computes(started: Started) -> None:
    engine = await started.ready()
    in_step, go_on = threading.Event(), threading.Event()

    def hold(batch: ForwardBatch) -> None:
        in_step.set()
        assert go_on.wait(timeout=60)

    started.decoder.before_forward = hold
    await engine.submit(request("a"))
    await asyncio.to_thread(in_step.wait)
    await engine.submit(request("b"))
    engine.cancel(RequestId("b"))
    assert engine.stats().state is EngineState.READY
    assert await engine.check(request("c")) > 0
    go_on.set()
    await started.listener.end_of("a", "b")


async def test_an_idle_engine_computes_nothing(started: Started) -> None:
    engine = await started.ready()
    await engine.submit(request("a"))
    await started.listener.end_of("a")
    steps = engine.stats().steps_total
    engine.cancel(RequestId("a"))
    assert await engine.check(request("c")) > 0
    assert engine.stats().steps_total == steps


async def test_random_use_ends_at_the_baseline_with_one_end_each(started: Started) -> None:
    """Law 4 through the thread: submissions and cancels fall into steps wherever they happen to."""
    engine = await started.ready()
    rng = random.Random(7)
    names: list[str] = []
    for number in range(150):
        if rng.random() < 0.5:
            name = f"r{number}"
            one: GenerationRequest = request(name, "x" * rng.randint(0, 300), max_tokens=rng.randint(1, 60))
            await engine.submit(one)
            names.append(name)
        elif names:
            engine.cancel(RequestId(rng.choice(names)))
        if rng.random() < 0.3:
            await asyncio.sleep(0)
    await started.listener.end_of(*names)
    await engine.stop()
    stats = engine.stats()
    assert stats.pages_free == stats.pages_total
    assert stats.running_requests == stats.waiting_requests == 0
    assert engine.failure is None


async def test_the_number_of_threads_is_told(started: Started, caplog: pytest.LogCaptureFixture) -> None:
    """vllm-project/vllm#10971: a model left on one core, silently."""
    with caplog.at_level(logging.INFO):
        engine = await started.ready()
    assert "computing with 1 threads on" in caplog.text
    await engine.submit(request("a"))
    await started.listener.end_of("a")
    assert engine.stats().threads == 1


async def test_more_threads_than_cores_is_a_warning_that_says_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    engine = LocalEngine(tiny_config(threads=64), load=load_tiny_model)
    with caplog.at_level(logging.WARNING):
        await engine.start(Listener())
        await engine.wait_ready()
    await engine.stop()
    assert "64 threads share" in caplog.text
    assert "KVASIR_THREADS" in caplog.text
