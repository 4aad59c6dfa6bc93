"""The engine on other machines: `EngineClient` in front of vLLM, SGLang or another Kvasir, over OpenAI's API.

Made by `kvasir serve` where `KVASIR_ENGINE` is remote. Everything here runs on the event loop; nothing is computed, and neither
torch nor a tokenizer is imported. The cluster owns KV, batching and sampling; this side owns who asks, in whose name, in which
order, and that every request gets exactly one `Finished`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from engine.client import EventListener
from engine.errors import EngineNotReady
from engine.queue_bounds import QueueBounds
from engine.remote.answer import Patience, RemoteAnswer
from engine.remote.chunk import Chunk
from engine.remote.completion_request import completion_body
from engine.remote.config import RemoteConfig
from engine.remote.dialect import Dialect
from engine.remote.line import Line
from engine.remote.probe import Unusable, found
from engine.remote.prompts import RemotePrompts
from engine.remote.refusal import RemoteRefusal, room_for_answer
from engine.remote.salts import Salts
from engine.remote.server import RemoteServer
from engine.remote.sessions import RemoteSessions
from engine.remote.totals import Totals
from engine.snapshot import EngineSnapshot, PrefixState, PrefixStatus
from engine.tiers.secret import SecretUnusable
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
    Turn,
)

logger = logging.getLogger(__name__)

STOPPED = EngineFailure(FailureCode.ENGINE_STOPPED, "The engine was stopped.")


class RemoteEngine:
    """Owns the live requests, the connection to the cluster, and what is known of its state."""

    def __init__(
        self,
        config: RemoteConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`sleep` is used between two tries, never between two looks at the cluster."""
        self._config = config
        self._clock = clock
        self._sleep = sleep
        self._state = EngineState.LOADING
        self._failure: str | None = None
        self._model: ModelInfo | None = None
        self._dialect = Dialect.OPENAI
        self._settled = asyncio.Event()
        self._look = asyncio.Event()
        self._listener: EventListener | None = None
        self._events: list[EngineEvent] = []
        self._line = Line(config.max_running, clock)
        self._bounds = QueueBounds(config.max_running, config.max_waiting, config.max_waiting_tokens, clock)
        self._entering: dict[RequestId, bool] = {}
        """Requests whose prompts are being counted, and whether they were cancelled meanwhile."""
        self._arrivals = 0
        self._sessions = RemoteSessions(config.session_ttl_s, clock)
        self._prefixes: set[str] = set()
        self._totals = Totals()
        self._server: RemoteServer | None = None
        self._salts: Salts | None = None
        self._prompts: RemotePrompts | None = None
        self._looking: asyncio.Task[None] | None = None
        self._began_at = clock()
        self._away_since: float | None = None
        self._patience = Patience(config.first_token_timeout_s, config.silence_timeout_s, config.retries)

    # --- what EngineClient promises ----------------------------------------------------------------------------------

    @property
    def state(self) -> EngineState:
        return self._state

    @property
    def failure(self) -> str | None:
        return self._failure

    @property
    def model(self) -> ModelInfo | None:
        return self._model

    async def start(self, listener: EventListener) -> None:
        if self._looking is not None:
            raise RuntimeError("the engine was started twice")
        self._listener = listener
        self._server = RemoteServer(self._config)
        self._looking = asyncio.create_task(self._keep_looking())

    async def wait_ready(self) -> None:
        # Before its first time ready it may take as long as the cluster takes to start.
        patience_s = None if self._model is None else self._config.away_wait_s
        try:
            async with asyncio.timeout(patience_s):
                await self._settled.wait()
        except TimeoutError:
            pass
        self._require_ready()

    async def check(self, request: GenerationRequest) -> int:
        _, prompts = self._require_ready()
        with self._bounds.check():
            return (await prompts.prompt(request)).tokens

    async def submit(self, request: GenerationRequest) -> None:
        _, prompts = self._require_ready()
        request_id = request.request_id
        if request_id in self._entering or self._line.get(request_id) is not None:
            raise ValueError(f"request {request_id} was submitted twice")
        self._bounds.enter(request_id)
        self._entering[request_id] = False
        try:
            prompt = await prompts.prompt(request)
            self._require_ready()
            self._bounds.encoded(request_id, prompt.tokens)
        except BaseException:
            del self._entering[request_id]
            self._bounds.leave(request_id)
            raise
        self._arrivals += 1
        answer = RemoteAnswer(request, prompt, self._arrivals, self._clock)
        answer.max_tokens = prompts.answer_room(prompt, request.sampling.max_tokens)
        self._line.join(answer)
        self._sessions.begin(request)
        if self._entering.pop(request_id):
            self._end_now(answer)
        self._start_next()

    def cancel(self, request_id: RequestId) -> None:
        if request_id in self._entering:
            self._entering[request_id] = True
        elif (answer := self._line.get(request_id)) is not None:
            self._end_now(answer)

    def stats(self) -> EngineStats:
        return self._totals.stats(
            self._state,
            running=len(self._line.running),
            waiting=self._line.num_waiting,
            waiting_tokens=self._bounds.waiting_tokens,
            waiting_by_priority=self._line.count_by_priority(),
            sessions=self._sessions.counts(),
            sessions_expired=self._sessions.expired_total,
            prefixes=((PrefixState.COLD.value, len(self._prefixes)),),
        )

    async def snapshot(self) -> EngineSnapshot:
        self._require_ready()
        prefixes = (PrefixStatus(name, PrefixState.COLD, 0, 0, None) for name in sorted(self._prefixes))
        return EngineSnapshot(sessions=tuple(self._sessions.states()), prefixes=tuple(prefixes))

    async def evict_session(self, key: SessionKey) -> bool:
        self._require_ready()
        return self._sessions.is_idle(key) and await self.drop_session(key)

    async def hold_session(self, key: SessionKey) -> bool:
        self._require_ready()
        return self._sessions.hold(key, is_held=True)

    async def release_session(self, key: SessionKey) -> bool:
        self._require_ready()
        return self._sessions.hold(key, is_held=False)

    async def drop_session(self, key: SessionKey) -> bool:
        self._require_ready()
        self._end_unkept(lambda request: request.session_key == key)
        is_known = self._sessions.drop(key)
        # After a restart nobody knows what the cluster was asked for before it; what is older is not in its memory any more.
        if is_known or self._clock() - self._began_at < self._config.session_ttl_s:
            await self._forget(key.namespace)
        return is_known

    async def drop_namespace(self, namespace: Namespace) -> int:
        self._require_ready()
        self._end_unkept(lambda request: request.namespace is not None and namespace.covers(request.namespace))
        count = self._sessions.drop_namespace(namespace)
        await self._forget(namespace)
        return count

    async def set_prefix(self, name: str, turns: Sequence[Turn]) -> None:
        self._require_ready()
        self._prefixes.add(name)

    async def drop_prefix(self, name: str) -> None:
        self._require_ready()
        self._prefixes.discard(name)

    async def stop(self) -> None:
        if self._state is not EngineState.FAILED:
            self._state = EngineState.STOPPED
        self._settled.set()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        tasks = [answer.task for answer in self._line if answer.task is not None]
        for answer in self._line:
            answer.ending = (FinishReason.FAILED, STOPPED)
            self._end_now(answer)
        if tasks:
            await asyncio.wait(tasks)
        self._flush()
        if self._server is not None:
            await self._server.close()

    # --- the cluster -------------------------------------------------------------------------------------------------

    async def _keep_looking(self) -> None:
        """Look at the cluster now and then, and at once when somebody could not reach it. One look that fails is no news."""
        failed_looks = 0
        while self._state in (EngineState.LOADING, EngineState.READY):
            self._look.clear()
            try:
                await self._look_once()
                failed_looks = 0
            except RemoteRefusal as refusal:
                failed_looks += 1
                is_wrong = refusal.code is FailureCode.REMOTE_REFUSED
                self._take_failure(refusal.message, is_wrong=is_wrong, is_news=is_wrong or failed_looks > 1)
            except (Unusable, SecretUnusable) as problem:
                self._take_failure(str(problem), is_wrong=True, is_news=True)
            except Exception:
                logger.exception("the cluster could not be looked at")
                self._take_failure("the cluster could not be looked at; the log has more", is_wrong=True, is_news=True)
            pause_s = self._config.probe_every_s if failed_looks != 1 else min(1.0, self._config.probe_every_s)
            try:
                async with asyncio.timeout(pause_s):
                    await self._look.wait()
            except TimeoutError:
                continue

    async def _look_once(self) -> None:
        assert self._server is not None, "it is made by the start"
        server = self._server
        seen = found(self._config, await server.models())
        if self._salts is None:
            self._salts = await asyncio.to_thread(Salts.opened, self._config.secret, self._config.folder)
        if self._model != seen.model or self._prompts is None:
            name, counts = seen.model.name, seen.dialect
            self._prompts = RemotePrompts(lambda turns: server.count(counts, name, turns), seen.model.context_tokens)
        self._model, self._dialect = seen.model, seen.dialect
        if self._state is EngineState.LOADING:
            self._failure, self._away_since = None, None
            self._state = EngineState.READY
            self._settled.set()
            self._start_next()

    def _take_failure(self, message: str, *, is_wrong: bool, is_news: bool) -> None:
        """`is_wrong`: it will not get better by itself. Before the first time ready that ends the engine, later it waits."""
        if is_wrong and self._model is None:
            self._state, self._failure = EngineState.FAILED, message
            self._settled.set()
        elif self._state is EngineState.LOADING or is_news:
            if self._state is EngineState.READY:
                logger.warning("the cluster is away: %s", message)
                self._away_since = self._clock()
            self._state, self._failure = EngineState.LOADING, message
            self._settled.clear()
        if self._away_since is not None and self._clock() - self._away_since >= self._config.away_wait_s:
            # Nobody waits for ever, and nothing that waits has begun.
            for answer in self._line.waiting():
                answer.ending = (FinishReason.FAILED, EngineFailure(FailureCode.REMOTE_UNREACHABLE, message))
                self._end_now(answer)

    def _require_ready(self) -> tuple[RemoteServer, RemotePrompts]:
        if self._state is not EngineState.READY or self._server is None or self._prompts is None:
            raise EngineNotReady(self._failure or f"the engine is {self._state}")
        return self._server, self._prompts

    # --- answers -----------------------------------------------------------------------------------------------------

    def _start_next(self) -> None:
        while self._state is EngineState.READY and (answer := self._line.start_next()) is not None:
            answer.task = asyncio.create_task(
                answer.run(self._ask, partial(self._fit, answer), self._tell, self._patience, self._sleep)
            )
            answer.task.add_done_callback(partial(self._is_over, answer))
        for answer, position in self._line.new_positions():
            self._tell(Queued(answer.request.request_id, position))

    def _is_over(self, answer: RemoteAnswer, task: asyncio.Task[None]) -> None:
        """A task that was cancelled has said no last word; it may not even have begun."""
        if not task.cancelled() and (problem := task.exception()) is not None:
            logger.error("request %s failed", answer.request.request_id, exc_info=problem)
        if self._line.get(answer.request.request_id) is answer:
            self._tell(answer.finished(*answer.ending))

    async def _ask(self, answer: RemoteAnswer) -> AsyncGenerator[Chunk]:
        server, salts, model = self._server, self._salts, self._model
        if server is None or salts is None or model is None:
            raise RuntimeError("an answer was begun before the cluster was known")
        request = answer.request
        fitting = replace(
            request,
            turns=answer.prompt.turns,
            sampling=replace(request.sampling, max_tokens=answer.max_tokens),
        )
        body = completion_body(self._dialect, model.name, fitting, salts.salt(request.namespace))
        headers = {}
        if (key := request.session_key) is not None:
            session = salts.session(key)
            headers[self._config.session_header] = session
            if self._dialect is Dialect.KVASIR:
                headers["X-Kvasir-Session"] = session
        try:
            async with server.completion(body, headers) as chunks:
                async for chunk in chunks:
                    yield chunk
        except RemoteRefusal as refusal:
            if refusal.code is FailureCode.REMOTE_UNREACHABLE:
                self._look.set()
            raise

    async def _fit(self, answer: RemoteAnswer, refusal: RemoteRefusal) -> bool:
        """The server found that prompt and answer do not fit; whether less is worth a try."""
        room = room_for_answer(refusal.message)
        if room is not None and answer.max_tokens is not None and 0 < room < answer.max_tokens:
            answer.max_tokens = room
            return True
        prompts = self._prompts
        if prompts is None or (shorter := await prompts.shorter(answer.request, answer.prompt)) is None:
            return False
        answer.prompt = shorter
        return True

    def _end_now(self, answer: RemoteAnswer) -> None:
        """Somebody wants it to end: one that runs has its connection closed, one that waits just leaves."""
        if answer.task is None:
            self._tell(answer.finished(*answer.ending))
            self._start_next()
        else:
            answer.task.cancel()

    def _end_unkept(self, is_meant: Callable[[GenerationRequest], bool]) -> None:
        for answer in self._line:
            if is_meant(answer.request):
                answer.is_kept = False
                self._end_now(answer)

    async def _forget(self, namespace: Namespace) -> None:
        assert self._salts is not None, "it is there when the engine is ready"
        await asyncio.to_thread(self._salts.forget, namespace)

    def _tell(self, event: EngineEvent) -> None:
        """What is told in one turn of the loop leaves as one step."""
        if not self._events:
            asyncio.get_running_loop().call_soon(self._flush)
        self._events.append(event)
        self._totals.count(event)
        if isinstance(event, PromptProgress):
            self._bounds.begun(event.request_id)
        elif isinstance(event, Finished) and (answer := self._line.get(event.request_id)) is not None:
            self._line.leave(answer)
            self._bounds.finished(event.request_id)
            is_kept = answer.is_kept and answer.has_begun
            self._sessions.end(answer.request, event.usage if is_kept else None)
            self._start_next()

    def _flush(self) -> None:
        events, self._events = self._events, []
        if events and self._listener is not None:
            self._listener(events)
