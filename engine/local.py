"""The engine in this process: `EngineClient` on the event loop's side, the engine thread on the other.

Made by the server's start. Everything here runs on the loop and never blocks it: the thread loads and computes, a small
executor tokenises. Importing this module must not import torch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from engine.checked_prompts import CheckedPrompts
from engine.client import EventListener
from engine.compiled_grammars import CompiledGrammars
from engine.config import EngineConfig
from engine.errors import EngineError, EngineNotReady
from engine.prompts import Prompt, Prompts
from engine.queue_bounds import QueueBounds
from engine.snapshot import EngineSnapshot
from engine.thread import Call, Cancel, EngineThread, Loader, ReadyEngine, Reply, Submit
from engine.thread_priority import give_way
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
    Namespace,
    Queued,
    RequestId,
    SessionKey,
    Turn,
    Usage,
)

if TYPE_CHECKING:
    from engine.core import Engine
    from engine.model.loader import LoadedModel

Message = TypeVar("Message")
Result = TypeVar("Result")


def _load_model(config: EngineConfig, on_progress: Callable[[str], None]) -> LoadedModel:
    from engine.model.loader import load_model

    return load_model(config, on_progress=on_progress)


class LocalEngine:
    """Owns the set of live requests: each gets exactly one `Finished`, from the thread or, where that is gone, from here."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        load: Loader = _load_model,
        clock: Callable[[], float] = time.monotonic,
        on_stage: Callable[[str], None] = lambda _stage: None,
    ) -> None:
        """`on_stage` is told, in the engine's thread, which part of the start begins; the last is `ready`."""
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
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._tickets = 0
        self._queue = QueueBounds(config.max_running, config.max_waiting, config.max_waiting_tokens, clock)
        self._prompts: Prompts | None = None
        self._checked = CheckedPrompts()
        # Behind the engine: prompts that come together are encoded for longer than a step may take beside running answers.
        self._tokenizing = ThreadPoolExecutor(1, "kvasir-tokenizer", initializer=give_way)
        self._grammars = CompiledGrammars()
        self._thread = EngineThread(
            config,
            load=load,
            clock=clock,
            on_ready=lambda ready: self._post(self._become_ready, ready),
            on_step=lambda events, replies: self._post(self._take_step, (events, replies)),
            on_failed=lambda message: self._post(self._fail, message),
            on_stage=on_stage,
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
        with self._queue.check():
            await self._grammars.grammar(request, self._require_ready().tokenizer)
            prompt = await self._prompt(request)
        self._checked.keep(request, prompt)
        return len(prompt.ids)

    async def submit(self, request: GenerationRequest) -> None:
        arrived_at = self._clock()
        self._require_ready()
        prompt = self._checked.take(request)
        if request.request_id in self._live:
            raise ValueError(f"request {request.request_id} was submitted twice")
        self._queue.enter(request.request_id)
        self._live[request.request_id] = False
        try:
            grammar = await self._grammars.grammar(request, self._require_ready().tokenizer)
            if prompt is None:
                prompt = await self._prompt(request)
            self._require_ready()
            self._queue.encoded(request.request_id, len(prompt.ids))
        except BaseException:
            self._live.pop(request.request_id, None)
            self._cancelled_early.discard(request.request_id)
            self._queue.leave(request.request_id)
            raise
        self._live[request.request_id] = True
        submit = Submit(request, prompt.ids, arrived_at, prompt.dropped_turns, grammar)
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

    async def snapshot(self) -> EngineSnapshot:
        return await self._ask(lambda engine, reply: reply(engine.snapshot()))

    async def evict_session(self, key: SessionKey) -> bool:
        return await self._ask(lambda engine, reply: engine.evict_session(key, reply))

    async def hold_session(self, key: SessionKey) -> bool:
        return await self._ask(lambda engine, reply: reply(engine.hold_session(key, is_held=True)))

    async def release_session(self, key: SessionKey) -> bool:
        return await self._ask(lambda engine, reply: reply(engine.hold_session(key, is_held=False)))

    async def drop_session(self, key: SessionKey) -> bool:
        # First, because a turn of it that is still encoded reaches the thread before the drop, and ends by it.
        await self._with_prompts(lambda prompts: prompts.forget(key))
        return await self._ask(lambda engine, reply: engine.drop_session(key, reply))

    async def drop_namespace(self, namespace: Namespace) -> int:
        await self._with_prompts(lambda prompts: prompts.forget_namespace(namespace))
        return await self._ask(lambda engine, reply: engine.drop_namespace(namespace, reply))

    async def set_prefix(self, name: str, turns: Sequence[Turn]) -> None:
        ready = self._require_ready()
        loop = asyncio.get_running_loop()
        prefix_ids = await loop.run_in_executor(self._tokenizing, ready.tokenizer.prefix_ids, turns)
        is_registered: bool = await self._ask(lambda engine, reply: engine.set_prefix(name, prefix_ids, reply))
        assert is_registered

    async def drop_prefix(self, name: str) -> None:
        is_gone: bool = await self._ask(lambda engine, reply: engine.drop_prefix(name, reply))
        assert is_gone

    async def _ask(self, work: Callable[[Engine, Callable[[Result | EngineError], None]], None]) -> Result:
        """Have the engine thread do something between two steps. Raises EngineNotReady, also when it ends meanwhile."""
        self._require_ready()
        self._tickets += 1
        ticket, asked = self._tickets, asyncio.get_running_loop().create_future()
        self._asked[ticket] = asked
        self._thread.send(Call(ticket, work))
        try:
            result: Result = await asked
            return result
        finally:
            self._asked.pop(ticket, None)

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
        self._grammars.close()
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
            self._prompts = Prompts(ready.tokenizer, ready.max_sequence_tokens)
            self._state = EngineState.READY
            self._settled.set()

    def _take_step(self, step: tuple[Sequence[EngineEvent], Sequence[Reply]]) -> None:
        self._thread.taken()
        events, replies = step
        for ticket, result in replies:
            asked = self._asked.pop(ticket, None)
            if asked is None or asked.done():
                continue
            if isinstance(result, Exception):
                asked.set_exception(result)
            else:
                asked.set_result(result)
        if events:
            self._receive(events)

    def _receive(self, events: Sequence[EngineEvent]) -> None:
        for event in events:
            if isinstance(event, Finished):
                self._live.pop(event.request_id, None)
                self._queue.finished(event.request_id)
            elif not isinstance(event, Queued):
                self._queue.begun(event.request_id)
        if self._listener is not None:
            self._listener(events)

    def _fail(self, message: str) -> None:
        if self._state is not EngineState.STOPPED:
            self._state, self._failure = EngineState.FAILED, message
        self._settled.set()
        self._end_orphans(EngineFailure(FailureCode.ENGINE_FAILED, "The engine broke down and has to be restarted."))

    def _end_orphans(self, failure: EngineFailure) -> None:
        """The thread is gone: requests it took without ending them end here, with nothing known of what they cost."""
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(EngineNotReady(failure.message))
        orphans = [request_id for request_id, is_sent in self._live.items() if is_sent]
        if orphans:
            self._receive([Finished(orphan, FinishReason.FAILED, Usage(), failure=failure) for orphan in orphans])

    # --- what can be refused -----------------------------------------------------------------------------------------

    def _require_ready(self) -> ReadyEngine:
        if self._state is not EngineState.READY or self._ready is None:
            raise EngineNotReady(self._failure or f"the engine is {self._state}")
        return self._ready

    async def _prompt(self, request: GenerationRequest) -> Prompt:
        return await self._with_prompts(lambda prompts: prompts.prompt(request))

    async def _with_prompts(self, work: Callable[[Prompts], Result]) -> Result:
        """Have the one thread that tokenises do something. Raises EngineNotReady, and what `work` raises."""
        self._require_ready()
        prompts = self._prompts
        assert prompts is not None, "it is made when the engine becomes ready"
        return await asyncio.get_running_loop().run_in_executor(self._tokenizing, work, prompts)
