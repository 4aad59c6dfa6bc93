"""The engine in this process: `EngineClient` on the event loop's side, the engine thread on the other.

Made by the server's start. Everything here runs on the loop and never blocks it: the thread loads and computes, a small
executor tokenises. Importing this module must not import torch.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from engine.client import EventListener
from engine.config import EngineConfig
from engine.errors import EngineNotReady, QueueFull
from engine.scheduler import require_room
from engine.thread import Cancel, EngineThread, Loader, ReadyEngine, Submit
from engine.types import (
    EngineEvent,
    EngineFailure,
    EngineState,
    EngineStats,
    FailureCode,
    Finished,
    FinishReason,
    GenerationRequest,
    ModelInfo,
    RequestId,
    Turn,
    Usage,
)

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel

Message = TypeVar("Message")

FINISHES_REMEMBERED = 16
"""Last answers whose pace tells how long a refused client should wait."""

MAX_RETRY_AFTER_S = 60
DEFAULT_RETRY_AFTER_S = 5
"""Told while too few answers have ended to know better."""


def _load_model(config: EngineConfig, on_progress: Callable[[str], None]) -> LoadedModel:
    from engine.model.loader import load_model

    return load_model(config, on_progress=on_progress)


class LocalEngine:
    """Owns the set of live requests: each gets exactly one `Finished`, from the thread or, where that is gone, from here."""

    def __init__(
        self, config: EngineConfig, *, load: Loader = _load_model, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._clock = clock
        self._state = EngineState.LOADING
        self._failure: str | None = None
        self._ready: ReadyEngine | None = None
        self._settled = asyncio.Event()
        self._listener: EventListener | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._live: dict[RequestId, bool] = {}
        """Requests without their `Finished`, and whether the thread has them already."""
        self._cancelled_early: set[RequestId] = set()
        self._finished_at: deque[float] = deque(maxlen=FINISHES_REMEMBERED)
        self._tokenizing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kvasir-tokenizer")
        self._thread = EngineThread(
            config,
            load=load,
            clock=clock,
            on_ready=lambda ready: self._post(self._become_ready, ready),
            on_events=lambda events: self._post(self._receive, events),
            on_failed=lambda message: self._post(self._fail, message),
        )

    @property
    def state(self) -> EngineState:
        return self._state

    @property
    def failure(self) -> str | None:
        return self._failure

    @property
    def model(self) -> ModelInfo | None:
        return self._ready.model if self._ready is not None else None

    async def start(self, listener: EventListener) -> None:
        if self._loop is not None:
            raise RuntimeError("the engine was started twice")
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._thread.start()

    async def wait_ready(self) -> None:
        await self._settled.wait()
        self._require_ready()

    async def check(self, request: GenerationRequest) -> int:
        return len(await self._encode(request.turns))

    async def submit(self, request: GenerationRequest) -> None:
        arrived_at = self._clock()
        self._require_ready()
        self._require_place(request.request_id)
        self._live[request.request_id] = False
        try:
            prompt_ids = await self._encode(request.turns)
            self._require_ready()
        except BaseException:
            self._live.pop(request.request_id, None)
            self._cancelled_early.discard(request.request_id)
            raise
        self._live[request.request_id] = True
        submit = Submit(request, prompt_ids, arrived_at)
        if request.request_id in self._cancelled_early:
            self._cancelled_early.remove(request.request_id)
            self._thread.send(submit, Cancel(request.request_id))
        else:
            self._thread.send(submit)

    def cancel(self, request_id: RequestId) -> None:
        is_sent = self._live.get(request_id)
        if is_sent:
            self._thread.send(Cancel(request_id))
        elif is_sent is not None:
            self._cancelled_early.add(request_id)

    def stats(self) -> EngineStats:
        return self._thread.stats

    async def stop(self) -> None:
        # Asked twice at once, both wait for the thread: who returns from here may count on every end being told.
        if self._state is not EngineState.FAILED:
            self._state = EngineState.STOPPED
        self._settled.set()
        if self._loop is not None:
            self._thread.stop()
            # What the thread has posted before it ended is in the loop's queue before the end of this wait.
            await asyncio.to_thread(self._thread.join)
        self._tokenizing.shutdown(wait=False)
        self._end_orphans(EngineFailure(FailureCode.ENGINE_STOPPED, "The engine was stopped."))

    # --- messages of the thread, on the loop -------------------------------------------------------------------------

    def _post(self, deliver: Callable[[Message], None], message: Message) -> None:
        """Called in the engine thread. Where the loop is closed nobody listens any more, and the thread ends too."""
        if self._loop is None:
            raise RuntimeError("the engine thread runs without having been started")
        try:
            self._loop.call_soon_threadsafe(deliver, message)
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            self._thread.stop()

    def _become_ready(self, ready: ReadyEngine) -> None:
        if self._state is EngineState.LOADING:
            self._ready = ready
            self._state = EngineState.READY
            self._settled.set()

    def _receive(self, events: Sequence[EngineEvent]) -> None:
        for event in events:
            if isinstance(event, Finished):
                self._live.pop(event.request_id, None)
                self._finished_at.append(self._clock())
        if self._listener is not None:
            self._listener(events)

    def _fail(self, message: str) -> None:
        if self._state is not EngineState.STOPPED:
            self._state, self._failure = EngineState.FAILED, message
        self._settled.set()
        self._end_orphans(EngineFailure(FailureCode.ENGINE_FAILED, "The engine broke down and has to be restarted."))

    def _end_orphans(self, failure: EngineFailure) -> None:
        """The thread is gone: requests it took without ending them end here, with nothing known of what they cost."""
        orphans = [request_id for request_id, is_sent in self._live.items() if is_sent]
        if orphans:
            self._receive([Finished(orphan, FinishReason.FAILED, Usage(), failure=failure) for orphan in orphans])

    # --- what can be refused -----------------------------------------------------------------------------------------

    def _require_ready(self) -> ReadyEngine:
        if self._state is not EngineState.READY or self._ready is None:
            raise EngineNotReady(self._failure or f"the engine is {self._state}")
        return self._ready

    def _require_place(self, request_id: RequestId) -> None:
        if request_id in self._live:
            raise ValueError(f"request {request_id} was submitted twice")
        waiting = len(self._live) - self._config.max_running
        if waiting >= self._config.max_waiting:
            raise QueueFull(waiting, self._config.max_waiting, self._retry_after_s())

    def _retry_after_s(self) -> int:
        """Seconds until a place is likely to be free, by the pace of the last answers."""
        if len(self._finished_at) < 2:
            return DEFAULT_RETRY_AFTER_S
        per_answer_s = (self._clock() - self._finished_at[0]) / (len(self._finished_at) - 1)
        return min(MAX_RETRY_AFTER_S, max(1, math.ceil(per_answer_s)))

    async def _encode(self, turns: Sequence[Turn]) -> list[int]:
        ready = self._require_ready()
        loop = asyncio.get_running_loop()
        prompt_ids = await loop.run_in_executor(self._tokenizing, ready.tokenizer.encode_turns, turns)
        require_room(len(prompt_ids), ready.max_sequence_tokens)
        return prompt_ids
