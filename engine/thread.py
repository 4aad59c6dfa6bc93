"""The engine thread, the only one: it loads the model, then alternates between taking commands and computing steps.

Made by `engine.local`. Commands come through one queue; everything else goes out through three callbacks, which are called in
this thread and must only hand over. Importing this module must not import torch: a server answers before its model loads.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from engine.config import EngineConfig
from engine.errors import ModelError
from engine.types import (
    EngineEvent,
    EngineFailure,
    EngineState,
    EngineStats,
    FailureCode,
    GenerationRequest,
    ModelInfo,
    PromptProgress,
    RequestId,
)

if TYPE_CHECKING:
    from engine.core import Engine
    from engine.grammar import TokenGrammar
    from engine.model.loader import LoadedModel
    from engine.tokenizer import ChatTokenizer

logger = logging.getLogger(__name__)

HAND_OVER_S = 0.002
"""Longest that the next step waits for the other side to take what came beside a prompt. Computing has every core, so whoever is
to take it would wait there for a timer's tick, 4 ms and more: the first words of an answer, and the next ones of those that
have just waited for a step with a prompt in it. While this thread sleeps there is a core, and it takes 0.1 ms."""

Loader = Callable[[EngineConfig, Callable[[str], None]], "LoadedModel"]
"""Loads the model of a configuration, and reports each stage it begins. Raises ModelError."""


@dataclass(frozen=True, slots=True)
class Submit:
    """A request and its prompt, encoded and known to fit; `dropped_turns` were left out of it."""

    request: GenerationRequest
    prompt_ids: list[int]
    arrived_at: float
    dropped_turns: int = 0
    grammar: TokenGrammar | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    request_id: RequestId


Answer = Callable[[object], None]
"""Hands the result of a `Call` over, at once or in a later step; called once, in the engine thread."""


@dataclass(frozen=True, slots=True)
class Call:
    """Something else to do with the engine, between two steps. The result reaches the caller under `ticket`."""

    ticket: int
    work: Callable[[Engine, Answer], None]


@dataclass(frozen=True, slots=True)
class Wake:
    """A transfer has ended: look."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End the thread; requests that are still there fail."""


Command = Submit | Cancel | Call | Wake | Stop

Reply = tuple[int, object]
"""The ticket of a `Call` and its result, an exception where it failed."""


@dataclass(frozen=True, slots=True)
class ReadyEngine:
    """What the other side needs to accept requests."""

    model: ModelInfo
    tokenizer: ChatTokenizer
    max_sequence_tokens: int


class _Stopped(Exception):
    """Loading was given up because the engine is to stop."""


class EngineThread:
    """Owns the thread and, inside it, the engine. `stats` may be read from anywhere: it is one reference, replaced whole."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        load: Loader,
        clock: Callable[[], float],
        on_ready: Callable[[ReadyEngine], None],
        on_step: Callable[[Sequence[EngineEvent], Sequence[Reply]], None],
        on_failed: Callable[[str], None],
        on_stage: Callable[[str], None] = lambda _stage: None,
    ) -> None:
        self._config = config
        self._load_model = load
        self._clock = clock
        self._on_ready = on_ready
        self._on_step = on_step
        self._replies: list[Reply] = []
        self._on_failed = on_failed
        self._on_stage = on_stage
        # Commands that belong together travel as one, so that no step comes between them.
        self._commands: SimpleQueue[tuple[Command, ...]] = SimpleQueue()
        self._stop_requested = threading.Event()
        self._taken = threading.Event()
        # A daemon, so that a process that dies of something else is not held by a model that is still loading.
        self._thread = threading.Thread(target=self._main, name="kvasir-engine", daemon=True)
        self.stats = EngineStats(EngineState.LOADING)

    def start(self) -> None:
        self._thread.start()

    def send(self, *commands: Command) -> None:
        """Hand over commands that are taken together, between two steps."""
        self._commands.put(commands)

    def stop(self) -> None:
        """Ask the thread to end; `join` waits for it."""
        self._stop_requested.set()
        self.send(Stop())

    def join(self) -> None:
        self._thread.join()

    def taken(self) -> None:
        """The other side has taken what a step brought."""
        self._taken.set()

    def _main(self) -> None:
        try:
            engine, threads = self._start_engine()
            self._serve(engine, threads)
        except _Stopped:
            self.stats = EngineStats(EngineState.STOPPED)
        except ModelError as problem:
            self._fail(str(problem))
        except BaseException as problem:  # whatever ends this thread, the other side has to hear of it
            logger.exception("the engine thread failed")
            self._fail(f"The engine failed: {type(problem).__name__}: {problem}")

    def _start_engine(self) -> tuple[Engine, int]:
        # Threads that wait for each other inside one multiplication spin by default; on a machine that does anything else
        # at the same time, a step then takes ten times as long (kernels/README.md). torch reads this when it is imported.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        # Imported here, because torch alone takes seconds, and by itself, so that a start can say how many.
        self._report_stage("importing torch")
        import torch  # noqa: F401

        self._report_stage("importing the engine")
        from engine.assembly import assemble
        from engine.cpu_threads import use_threads

        self._report_stage("testing the threads")
        threads = use_threads(self._config.threads, self._clock)
        loaded = self._load_model(self._config, self._report_stage)
        engine, ready = assemble(
            self._config,
            loaded,
            clock=self._clock,
            wake=lambda: self.send(Wake()),
            on_progress=self._report_stage,
        )
        self._report_stage("ready")
        self.stats = engine.stats(EngineState.READY, threads)
        self._on_ready(ready)
        return engine, threads

    def _serve(self, engine: Engine, threads: int) -> None:
        while engine.failure is None:
            if not self._take_commands(engine):
                engine.stop(EngineFailure(FailureCode.ENGINE_STOPPED, "The engine was stopped."))
                self._publish(engine.take_events())
                self.stats = engine.stats(EngineState.STOPPED, threads)
                return
            events = engine.step()
            self.stats = engine.stats(EngineState.READY, threads)
            self._publish(events)
        self._fail(engine.failure, engine.stats(EngineState.FAILED, threads))

    def _take_commands(self, engine: Engine) -> bool:
        """Carry out what was sent, waiting for something while there is nothing to compute; false on a stop."""
        wait_s = engine.wait_s()
        try:
            while True:
                for command in self._commands.get(block=wait_s != 0.0, timeout=wait_s):
                    match command:
                        case Submit(request, prompt_ids, arrived_at, dropped_turns, grammar):
                            engine.submit(request, prompt_ids, arrived_at, dropped_turns, grammar)
                        case Cancel(request_id):
                            engine.cancel(request_id)
                        case Call(ticket, work):
                            self._call(engine, ticket, work)
                        case Wake():
                            pass
                        case Stop():
                            return False
                # With the first of a batch there may be time for others to come.
                wait_s = engine.gathering_s()
                if not wait_s and self._commands.empty():
                    return True
        except Empty:
            return True

    def _call(self, engine: Engine, ticket: int, work: Callable[[Engine, Answer], None]) -> None:
        def reply(result: object) -> None:
            self._replies.append((ticket, result))

        try:
            work(engine, reply)
        except Exception as problem:  # whoever asked hears of it; the answers that run have nothing to do with it
            logger.exception("the engine could not do what was asked")
            reply(problem)

    def _publish(self, events: Sequence[EngineEvent]) -> None:
        replies, self._replies = self._replies, []
        if events or replies:
            self._taken.clear()
            self._on_step(events, replies)
            if any(isinstance(event, PromptProgress) for event in events):
                self._taken.wait(HAND_OVER_S)

    def _fail(self, message: str, stats: EngineStats | None = None) -> None:
        self.stats = stats or replace(self.stats, state=EngineState.FAILED, running_requests=0, waiting_requests=0)
        self._on_failed(message)

    def _report_stage(self, stage: str) -> None:
        if self._stop_requested.is_set():
            raise _Stopped
        logger.info("engine: %s", stage)
        self._on_stage(stage)
