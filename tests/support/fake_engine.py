"""A deterministic engine without torch, for the tests of everything above the engine.

It implements `engine.client.EngineClient` on the event loop. A "token" is one text piece. Time is a step: either the test
says `advance(n)`, or the engine takes a step every `delay_s` seconds (for real processes). Default answers are words of the
last user turn; a test queues other `Script`s. `requests` keeps everything that was submitted, `memory` what may be reused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from engine.client import EventListener
from engine.errors import EngineNotReady, QueueFull, QueueUnit
from engine.snapshot import EngineSnapshot
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
    PromptProgress,
    Queued,
    RequestId,
    SessionKey,
    TextDelta,
    Turn,
)
from tests.support.fake_answer import FakeAnswer
from tests.support.fake_memory import FakeMemory, FakePrefix
from tests.support.scripts import Script, default_answer


class FakeEngine:
    """See the module. `delay_s` None means the test advances; `ready` False means it also says when loading ends."""

    def __init__(
        self,
        *,
        delay_s: float | None = None,
        ready: bool = True,
        answer: Callable[[GenerationRequest], Script] = default_answer,
        context_tokens: int = 2048,
        max_running: int = 32,
        max_waiting: int = 256,
        max_waiting_tokens: int = 1_000_000,
        prefill_step_tokens: int = 1_000_000,
        memory: FakeMemory | None = None,
    ) -> None:
        self.memory = memory or FakeMemory()
        self.requests: list[GenerationRequest] = []
        self.cancelled: list[RequestId] = []
        self._answer = answer
        self._scripts: deque[Script] = deque()
        self._delay_s = delay_s
        self._ready_at_start = ready
        self._context_tokens = context_tokens
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._max_waiting_tokens = max_waiting_tokens
        self._prefill_step_tokens = prefill_step_tokens
        self._state = EngineState.LOADING
        self._failure: str | None = None
        self._listener: EventListener | None = None
        self._waiting: dict[RequestId, FakeAnswer] = {}
        self._running: dict[RequestId, FakeAnswer] = {}
        self._settled = asyncio.Event()
        self._arrived = asyncio.Condition()
        self._work = asyncio.Event()
        self._pacer: asyncio.Task[None] | None = None
        self._vocabulary = self.memory.vocabulary
        self._step = 0
        self._prefilled = 0
        self._decoded = 0

    # --- what EngineClient promises ----------------------------------------------------------------------------------

    @property
    def state(self) -> EngineState:
        return self._state

    @property
    def failure(self) -> str | None:
        return self._failure

    @property
    def model(self) -> ModelInfo | None:
        if self._state is not EngineState.READY:
            return None
        return ModelInfo("fake", "FakeForCausalLM", 0, self._context_tokens, 1 << 16, "none", "none", "fake")

    async def start(self, listener: EventListener) -> None:
        if self._listener is not None:
            raise RuntimeError("the fake engine was started twice")
        self._listener = listener
        if self._ready_at_start:
            self.become_ready()
        if self._delay_s is not None:
            self._pacer = asyncio.create_task(self._pace(self._delay_s))

    async def wait_ready(self) -> None:
        await self._settled.wait()
        self._require_ready()

    async def check(self, request: GenerationRequest) -> int:
        self._require_ready()
        prompt, _ = self._vocabulary.prompt(request, self._context_tokens)
        return len(prompt)

    async def submit(self, request: GenerationRequest) -> None:
        self._require_ready()
        prompt, dropped_turns = self._vocabulary.prompt(request, self._context_tokens)
        if request.request_id in self._waiting or request.request_id in self._running:
            raise ValueError(f"request {request.request_id} was submitted twice")
        self._require_place(len(prompt))
        room = self._context_tokens - len(prompt)
        self._waiting[request.request_id] = FakeAnswer(
            request,
            self._scripts.popleft() if self._scripts else self._answer(request),
            prompt,
            dropped_turns,
            token_limit=min(room, request.sampling.max_tokens or room),
            submitted_step=self._step,
        )
        self.memory.begin(request)
        self.requests.append(request)
        self._work.set()
        asyncio.get_running_loop().call_soon(self._announce)
        async with self._arrived:
            self._arrived.notify_all()

    def cancel(self, request_id: RequestId) -> None:
        self.cancelled.append(request_id)
        answer = self._running.get(request_id) or self._waiting.get(request_id)
        if answer is not None:
            answer.cancelled = True
            asyncio.get_running_loop().call_soon(self._announce)

    def stats(self) -> EngineStats:
        return EngineStats(
            self._state,
            running_requests=len(self._running),
            waiting_requests=len(self._waiting),
            waiting_tokens=sum(len(answer.prompt) for answer in self._waiting.values()),
            steps_total=self._step,
            prefilled_tokens_total=self._prefilled,
            decoded_tokens_total=self._decoded,
        )

    async def snapshot(self) -> EngineSnapshot:
        self._require_ready()
        return EngineSnapshot(sessions=self.memory.session_states(), prefixes=self.memory.prefix_states())

    async def evict_session(self, key: SessionKey) -> bool:
        self._require_ready()
        return self.memory.evict(key)

    async def hold_session(self, key: SessionKey) -> bool:
        self._require_ready()
        return self.memory.hold(key, is_held=True)

    async def release_session(self, key: SessionKey) -> bool:
        self._require_ready()
        return self.memory.hold(key, is_held=False)

    async def drop_session(self, key: SessionKey) -> bool:
        self._require_ready()
        is_known = self.memory.drop(key)
        self._end_unkept(lambda answer: answer.request.session_key == key)
        return is_known

    async def drop_namespace(self, namespace: Namespace) -> int:
        self._require_ready()
        dropped = self.memory.drop_namespace(namespace)
        self._end_unkept(
            lambda answer: answer.request.namespace is not None and namespace.covers(answer.request.namespace)
        )
        return dropped

    async def set_prefix(self, name: str, turns: Sequence[Turn]) -> None:
        self._require_ready()
        self.memory.prefixes[name] = FakePrefix(self._vocabulary.ids_of_turns(turns))
        self._work.set()

    async def drop_prefix(self, name: str) -> None:
        self._require_ready()
        self.memory.prefixes.pop(name, None)

    async def stop(self) -> None:
        if self._state is not EngineState.FAILED:
            self._state = EngineState.STOPPED
        self._settled.set()
        if self._pacer is not None:
            self._pacer.cancel()
            await asyncio.wait([self._pacer])
        self._fail_all(EngineFailure(FailureCode.ENGINE_STOPPED, "The engine was stopped."))

    # --- what a test may do ------------------------------------------------------------------------------------------

    def become_ready(self) -> None:
        """Loading has ended."""
        self._state = EngineState.READY
        self._settled.set()

    def fail(self, message: str) -> None:
        """The engine breaks, while loading or later; every request ends as failed."""
        self._state, self._failure = EngineState.FAILED, message
        self._settled.set()
        self._fail_all(EngineFailure(FailureCode.ENGINE_FAILED, message))

    def queue_script(self, *scripts: Script) -> None:
        """The next submitted requests get these answers, in this order."""
        self._scripts.extend(scripts)

    async def received(self, count: int) -> list[GenerationRequest]:
        """Wait until `count` requests were submitted since the start, and return them all."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)
        return self.requests

    def advance(self, steps: int = 1) -> None:
        """Take steps now; each calls the listener once if anything happened."""
        for _ in range(steps):
            self._take_step()

    def advance_to_end(self, limit: int = 100_000) -> None:
        """Take steps until nothing runs or waits."""
        while self._running or self._waiting:
            self._take_step()
            limit -= 1
            if not limit:
                raise AssertionError("the fake engine was asked to finish an endless answer")

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids that `Finished` carried."""
        return self._vocabulary.decode(ids)

    def ids_of(self, text_pieces: Sequence[str]) -> tuple[int, ...]:
        """The ids of pieces, for a test that builds a turn by hand."""
        return self._vocabulary.ids_of(text_pieces)

    # --- steps -------------------------------------------------------------------------------------------------------

    async def _pace(self, delay_s: float) -> None:
        while True:
            await self._work.wait()
            await asyncio.sleep(delay_s)
            self._take_step()
            if not self._running and not self._waiting:
                self._work.clear()

    def _take_step(self) -> None:
        self._step += 1
        self.memory.build_prefixes()
        events: list[EngineEvent] = list(self._ended_by_cancel())
        while self._waiting and len(self._running) < self._max_running:
            request_id, answer = next(iter(self._waiting.items()))
            del self._waiting[request_id]
            answer.started_step = self._step
            answer.cached = self.memory.found(answer.request, answer.prompt)
            answer.prompt_done = answer.cached.total
            self._running[request_id] = answer
        for answer in list(self._running.values()):
            events += self._step_of(answer)
        self._send([*events, *self._changed_positions()])

    def _step_of(self, answer: FakeAnswer) -> list[EngineEvent]:
        request_id, total = answer.request.request_id, len(answer.prompt)
        events: list[EngineEvent] = []
        if answer.prompt_done < total:
            readable = total - 1 if answer.script.unread else total
            chunk = min(self._prefill_step_tokens, readable - answer.prompt_done)
            if chunk <= 0:
                return events
            answer.prompt_done += chunk
            self._prefilled += chunk
            events.append(PromptProgress(request_id, answer.prompt_done, total, answer.cached.total))
            if answer.prompt_done < total:
                return events
        if answer.is_written:
            if answer.script.failure is not None:
                return [*events, *self._end(answer, FinishReason.FAILED, answer.script.failure)]
            return [*events, *self._end(answer, FinishReason.STOP)]
        piece = next(answer.source)
        answer.first_token_step = answer.first_token_step or self._step
        answer.sampled += 1
        answer.ids.append(self._vocabulary.id_of(piece))
        answer.texts.append(piece)
        self._decoded += 1
        if text := answer.stops.push(piece):
            answer.shown += text
            events.append(TextDelta(request_id, text, answer.sampled))
        if answer.stops.stopped:
            events += self._end(answer, FinishReason.STOP)
        elif answer.sampled >= answer.token_limit:
            events += self._end(answer, FinishReason.LENGTH)
        return events

    def _ended_by_cancel(self) -> list[EngineEvent]:
        events: list[EngineEvent] = []
        for answer in [*self._running.values(), *self._waiting.values()]:
            if answer.cancelled:
                events += self._end(answer, FinishReason.CANCELLED)
        return events

    def _end(self, answer: FakeAnswer, reason: FinishReason, failure: EngineFailure | None = None) -> list[EngineEvent]:
        request_id = answer.request.request_id
        self._running.pop(request_id, None)
        self._waiting.pop(request_id, None)
        events: list[EngineEvent] = []
        if held := answer.stops.flush():
            answer.shown += held
            events.append(TextDelta(request_id, held, answer.sampled))
        usage, shown_ids = answer.usage(self._step), answer.shown_ids
        if answer.prompt_done and failure is None and not answer.dropped:
            self.memory.commit(answer.request, answer.prompt[: answer.prompt_done] + (shown_ids or ()), usage)
        self.memory.end(answer.request)
        return [*events, Finished(request_id, reason, usage, shown_ids, failure)]

    def _changed_positions(self) -> list[EngineEvent]:
        """Requests that cannot start in the next step hear their place in the queue when it changes."""
        free = self._max_running - len(self._running)
        events: list[EngineEvent] = []
        for position, answer in enumerate(self._waiting.values(), start=1):
            if position > free and answer.announced_position != position:
                answer.announced_position = position
                events.append(Queued(answer.request.request_id, position))
        return events

    def _announce(self) -> None:
        """Between steps: what a cancel ended and who waits now, as a real engine tells in the step that follows."""
        self._send([*self._ended_by_cancel(), *self._changed_positions()])

    def _end_unkept(self, is_meant: Callable[[FakeAnswer], bool]) -> None:
        for answer in [*self._running.values(), *self._waiting.values()]:
            if is_meant(answer):
                answer.cancelled = answer.dropped = True
        self._announce()

    def _fail_all(self, failure: EngineFailure) -> None:
        events: list[EngineEvent] = []
        for answer in [*self._running.values(), *self._waiting.values()]:
            events += self._end(answer, FinishReason.FAILED, failure)
        self._send(events)

    def _send(self, events: Sequence[EngineEvent]) -> None:
        if events and self._listener is not None:
            self._listener(events)

    def _require_ready(self) -> None:
        if self._state is not EngineState.READY:
            raise EngineNotReady(self._failure or f"the engine is {self._state}")

    def _require_place(self, prompt_tokens: int) -> None:
        waiting = len(self._waiting) + len(self._running) - self._max_running
        if waiting >= self._max_waiting:
            raise QueueFull(waiting, self._max_waiting, retry_after_s=1)
        waiting_tokens = self.stats().waiting_tokens
        if waiting_tokens and waiting_tokens + prompt_tokens > self._max_waiting_tokens:
            raise QueueFull(waiting_tokens, self._max_waiting_tokens, 1, QueueUnit.TOKENS)
