"""A deterministic engine without torch, for the tests of everything above the engine.

It implements `engine.client.EngineClient` on the event loop. A "token" is one text piece. Time is a step: either the test
says `advance(n)`, or the engine takes a step every `delay_s` seconds (for real processes). Default answers are words of the
last user turn; a test queues other `Script`s. `requests` keeps everything that was submitted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle

from engine.client import EventListener
from engine.errors import EngineNotReady, PromptTooLong, QueueFull
from engine.stop_strings import StopStrings
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
    PromptProgress,
    Queued,
    RequestId,
    Role,
    TextDelta,
    Turn,
    Usage,
)

STEP_MS = 1.0
"""What one step counts as in `Usage`."""


@dataclass(frozen=True)
class Script:
    """What one answer will be: its pieces, one a step; then it ends, fails, or begins again until something ends it."""

    pieces: tuple[str, ...] = ()
    failure: EngineFailure | None = None
    endless: bool = False


def text_script(text: str, piece_chars: int = 4) -> Script:
    """An answer of exactly this text, cut into pieces of a few characters."""
    return Script(tuple(text[start : start + piece_chars] for start in range(0, len(text), piece_chars)))


def numbered_script(words: int) -> Script:
    """An answer of `words` different words, one a step: " word1", " word2" …"""
    return Script(tuple(f" word{number}" for number in range(1, words + 1)))


def failing_script(*pieces: str, code: str = FailureCode.REQUEST_FAILED, message: str = "It broke.") -> Script:
    """An answer that fails after these pieces."""
    return Script(pieces, failure=EngineFailure(code, message))


ENDLESS = Script((" tick", " tock"), endless=True)
"""An answer that only a cancel, `max_tokens`, a stop string or the context ends."""


def default_answer(request: GenerationRequest) -> Script:
    """Words of the last user turn: "You said: …"."""
    said = next((turn.text for turn in reversed(request.turns) if turn.role is Role.USER), "")
    return Script(("You", " said", ":", *(f" {word}" for word in said.split()), "."))


@dataclass
class _Answer:
    request: GenerationRequest
    script: Script
    prompt_tokens: int
    token_limit: int
    submitted_step: int
    source: cycle[str] = field(init=False)
    stops: StopStrings = field(init=False)
    ids: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    shown: str = ""
    sampled: int = 0
    prompt_done: int = 0
    started_step: int | None = None
    first_token_step: int | None = None
    announced_position: int | None = None
    cancelled: bool = False

    def __post_init__(self) -> None:
        self.source = cycle(self.script.pieces or ("",))
        self.stops = StopStrings(self.request.sampling.stop)

    @property
    def is_written(self) -> bool:
        """Whether the script has no further piece. `ignore_eos` and `min_tokens` make it begin again, as a model would."""
        sampling = self.request.sampling
        if self.script.failure is None and (self.script.endless or sampling.ignore_eos):
            return False
        return self.sampled >= max(len(self.script.pieces), sampling.min_tokens)


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
        prefill_step_tokens: int = 1_000_000,
    ) -> None:
        self.requests: list[GenerationRequest] = []
        self.cancelled: list[RequestId] = []
        self._answer = answer
        self._scripts: deque[Script] = deque()
        self._delay_s = delay_s
        self._ready_at_start = ready
        self._context_tokens = context_tokens
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._prefill_step_tokens = prefill_step_tokens
        self._state = EngineState.LOADING
        self._failure: str | None = None
        self._listener: EventListener | None = None
        self._waiting: dict[RequestId, _Answer] = {}
        self._running: dict[RequestId, _Answer] = {}
        self._settled = asyncio.Event()
        self._arrived = asyncio.Condition()
        self._work = asyncio.Event()
        self._pacer: asyncio.Task[None] | None = None
        self._vocabulary: dict[str, int] = {}
        self._pieces: list[str] = []
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
        return self._checked_prompt_tokens(request.turns)

    async def submit(self, request: GenerationRequest) -> None:
        self._require_ready()
        prompt_tokens = self._checked_prompt_tokens(request.turns)
        if request.request_id in self._waiting or request.request_id in self._running:
            raise ValueError(f"request {request.request_id} was submitted twice")
        waiting = len(self._waiting) + len(self._running) - self._max_running
        if waiting >= self._max_waiting:
            raise QueueFull(waiting, self._max_waiting, retry_after_s=1)
        room = self._context_tokens - prompt_tokens
        self._waiting[request.request_id] = _Answer(
            request,
            self._scripts.popleft() if self._scripts else self._answer(request),
            prompt_tokens,
            token_limit=min(room, request.sampling.max_tokens or room),
            submitted_step=self._step,
        )
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
            steps_total=self._step,
            prefilled_tokens_total=self._prefilled,
            decoded_tokens_total=self._decoded,
        )

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
        return "".join(self._pieces[token] for token in ids)

    def ids_of(self, text_pieces: Sequence[str]) -> tuple[int, ...]:
        """The ids of pieces, for a test that builds a turn by hand."""
        return tuple(self._id_of(piece) for piece in text_pieces)

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
        events: list[EngineEvent] = list(self._ended_by_cancel())
        while self._waiting and len(self._running) < self._max_running:
            request_id, answer = next(iter(self._waiting.items()))
            del self._waiting[request_id]
            answer.started_step = self._step
            self._running[request_id] = answer
        for answer in list(self._running.values()):
            events += self._step_of(answer)
        self._send([*events, *self._changed_positions()])

    def _step_of(self, answer: _Answer) -> list[EngineEvent]:
        request_id, total = answer.request.request_id, answer.prompt_tokens
        events: list[EngineEvent] = []
        if answer.prompt_done < total:
            chunk = min(self._prefill_step_tokens, total - answer.prompt_done)
            answer.prompt_done += chunk
            self._prefilled += chunk
            events.append(PromptProgress(request_id, answer.prompt_done, total, cached_tokens=0))
            if answer.prompt_done < total:
                return events
        if answer.is_written:
            if answer.script.failure is not None:
                return [*events, *self._end(answer, FinishReason.FAILED, answer.script.failure)]
            return [*events, *self._end(answer, FinishReason.STOP)]
        piece = next(answer.source)
        answer.first_token_step = answer.first_token_step or self._step
        answer.sampled += 1
        answer.ids.append(self._id_of(piece))
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

    def _end(self, answer: _Answer, reason: FinishReason, failure: EngineFailure | None = None) -> list[EngineEvent]:
        request_id = answer.request.request_id
        self._running.pop(request_id, None)
        self._waiting.pop(request_id, None)
        events: list[EngineEvent] = []
        if held := answer.stops.flush():
            answer.shown += held
            events.append(TextDelta(request_id, held, answer.sampled))
        usage = Usage(input_tokens=answer.prompt_tokens, output_tokens=answer.sampled)
        if answer.started_step is not None:
            usage = replace(usage, queue_ms=(answer.started_step - answer.submitted_step) * STEP_MS)
        if answer.first_token_step is not None and answer.started_step is not None:
            usage = replace(
                usage,
                prefill_ms=(answer.first_token_step - answer.started_step) * STEP_MS,
                ttft_ms=(answer.first_token_step - answer.submitted_step) * STEP_MS,
                decode_ms=(self._step - answer.first_token_step) * STEP_MS,
            )
        return [*events, Finished(request_id, reason, usage, self._shown_ids(answer), failure)]

    def _shown_ids(self, answer: _Answer) -> tuple[int, ...] | None:
        chars = 0
        for count, text in enumerate(answer.texts):
            if chars == len(answer.shown):
                return tuple(answer.ids[:count])
            chars += len(text)
        return tuple(answer.ids) if chars == len(answer.shown) else None

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

    def _checked_prompt_tokens(self, turns: Sequence[Turn]) -> int:
        tokens = 2 + sum(
            3 + (len(turn.text.split()) if turn.token_ids is None else len(turn.token_ids)) for turn in turns
        )
        if tokens >= self._context_tokens:
            raise PromptTooLong(tokens, self._context_tokens - 1)
        return tokens

    def _id_of(self, piece: str) -> int:
        if piece not in self._vocabulary:
            self._vocabulary[piece] = len(self._pieces)
            self._pieces.append(piece)
        return self._vocabulary[piece]
