"""The engine as the other engines are measured: token ids in, counts of tokens out after each step, nothing of text.

It is the server's own engine thread with the server's scheduler, runner and kernels; only the tokenizer counts instead of making
text, and prompts come as ids. Used by `engine.bench.protocol`, from any thread but the engine's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.bench.counting_tokenizer import CountingTokenizer
from engine.config import EngineConfig
from engine.errors import EngineError, EngineNotReady
from engine.thread import EngineThread, ReadyEngine, Reply, Submit
from engine.types import (
    EngineEvent,
    Finished,
    FinishReason,
    GenerationRequest,
    ModelInfo,
    Priority,
    RequestId,
    SamplingParams,
    TextDelta,
)

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel


@dataclass(frozen=True, slots=True)
class StepCounts:
    """After a step that ended at `at_s`: how many tokens each sequence has."""

    at_s: float
    tokens: tuple[int, ...]


class TokenEngine:
    """Owns an engine thread. One batch at a time."""

    def __init__(self, config: EngineConfig, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._ready: ReadyEngine | None = None
        self._failure: str | None = None
        self._settled = threading.Event()
        self._batch: _Batch | None = None
        self._requests = 0
        self._thread = EngineThread(
            config,
            load=_load_counting,
            clock=clock,
            on_ready=self._become_ready,
            on_step=self._take_step,
            on_failed=self._fail,
        )

    def start(self) -> ModelInfo:
        """Load and warm up; returns what serves. Raises EngineNotReady."""
        self._thread.start()
        self._settled.wait()
        return self._require_ready().model

    def stop(self) -> None:
        """End the thread."""
        self._thread.stop()
        self._thread.join()

    def run(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> tuple[float, list[StepCounts]]:
        """Make exactly `new_tokens` greedy tokens for each prompt, end tokens or not; when it was asked, and what each step gave.

        Raises EngineNotReady, and EngineError where an answer failed.
        """
        self._require_ready()
        batch = self._batch = _Batch(self._clock, len(prompts))
        sampling = SamplingParams(max_tokens=new_tokens, temperature=0.0, ignore_eos=True)
        asked_at = self._clock()
        commands = []
        for place, prompt in enumerate(prompts):
            self._requests += 1
            name = RequestId(f"bench-{self._requests}")
            batch.places[name] = place
            # Nobody reads along, so no stream's pace has to be kept while prompts are read; the others know no such thing.
            request = GenerationRequest(name, (), sampling, priority=Priority.BACKGROUND)
            commands.append(Submit(request, list(prompt), asked_at))
        self._thread.send(*commands)
        batch.ended.wait()
        self._batch = None
        if batch.failure is not None:
            raise EngineError(batch.failure)
        return asked_at, batch.steps

    def _require_ready(self) -> ReadyEngine:
        if self._failure is not None or self._ready is None:
            raise EngineNotReady(self._failure or "the engine has not been started")
        return self._ready

    # --- in the engine thread ----------------------------------------------------------------------------------------

    def _become_ready(self, ready: ReadyEngine) -> None:
        self._ready = ready
        self._settled.set()

    def _take_step(self, events: Sequence[EngineEvent], _replies: Sequence[Reply]) -> None:
        self._thread.taken()
        if self._batch is not None:
            self._batch.take(events)

    def _fail(self, message: str) -> None:
        self._failure = message
        self._settled.set()
        if self._batch is not None:
            self._batch.fail(message)


class _Batch:
    """Sequences that are computed together, and what is known of them."""

    def __init__(self, clock: Callable[[], float], size: int) -> None:
        self._clock = clock
        self._tokens = [0] * size
        self._left = size
        self.places: dict[RequestId, int] = {}
        self.steps: list[StepCounts] = []
        self.failure: str | None = None
        self.ended = threading.Event()

    def take(self, events: Sequence[EngineEvent]) -> None:
        now = self._clock()
        for event in events:
            if isinstance(event, TextDelta):
                self._tokens[self.places[event.request_id]] = event.output_tokens
            elif isinstance(event, Finished):
                self._tokens[self.places[event.request_id]] = event.usage.output_tokens
                self._left -= 1
                if event.reason is FinishReason.FAILED and event.failure is not None:
                    self.failure = event.failure.message
        self.steps.append(StepCounts(now, tuple(self._tokens)))
        if not self._left:
            self.ended.set()

    def fail(self, message: str) -> None:
        self.failure = message
        self.ended.set()


def _load_counting(config: EngineConfig, on_progress: Callable[[str], None]) -> LoadedModel:
    # Imported here, because the engine's thread sets things up before torch is imported.
    from engine.model.loader import load_model

    loaded = load_model(config, on_progress=on_progress)
    return replace(loaded, tokenizer=CountingTokenizer(loaded.tokenizer))
