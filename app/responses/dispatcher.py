"""Brings every accepted answer to its end: waits for its turn and for the engine, submits it, stores what came of it.

One task per answer that is alive. The engine's events arrive once per step through `take_events`; text gathers for a moment
before it becomes a frame. It must never lose an answer: whatever happens, each one gets exactly one terminal frame.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import structlog

from app.clock import Monotonic, Now
from app.conversations.models import MessageStatus
from app.database import Database, DatabaseAway
from app.operations.metrics import Metrics
from app.operations.tracing import AnswerTrace, Tracing
from app.realtime.event_log import EventLog, rest_of
from app.realtime.recorder import Recorder
from app.responses.answer import Answer
from app.responses.elders import Elders
from app.responses.engine_door import EngineDoor
from app.responses.growth import GrowthWriter
from app.responses.lines import Lines
from app.responses.outcome import Outcome, failed, outcome_of, stopped
from app.responses.prompt import Prompt, generation_request, read_prompt
from app.responses.queries import Ending, Stored
from app.responses.storage import AnswerStorage
from app.responses.token_ids import packed_token_ids
from app.usage.models import MODEL_MAX_CHARS
from engine.client import EngineClient
from engine.errors import EngineNotReady, PromptTooLong, TemplateRefused
from engine.types import ContextPolicy, EngineEvent, EngineState, Finished, FinishReason

logger = structlog.stdlib.get_logger(__name__)

Result = TypeVar("Result")

LAST_WRITES_S = 1.0
"""What interrupted answers get to be stored in when the server ends. Those that are not are recovered at the next start."""


class Stopped(Exception):
    """The answer was told to end before the engine had it."""


class Dispatcher:
    """Owns the answers that are alive: their places in line, their tasks, and the timer of text that waits for its frame."""

    def __init__(
        self,
        engine: EngineClient,
        database: Database,
        storage: AnswerStorage,
        recorder: Recorder,
        metrics: Metrics,
        tracing: Tracing,
        elders: Elders,
        *,
        owner: str,
        context_policy: ContextPolicy,
        message_flush_s: float,
        monotonic: Monotonic,
        now: Now,
    ) -> None:
        self._engine = engine
        self._door = EngineDoor(engine)
        self._context_policy = context_policy
        self._database = database
        self._storage = storage
        self._recorder = recorder
        self._metrics = metrics
        self._tracing = tracing
        self._elders = elders
        self._owner = owner
        self._monotonic = monotonic
        self._now = now
        self._answers: dict[str, Answer] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._lines = Lines()
        self._holding: set[Answer] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._growth = GrowthWriter(storage, lambda: self._answers.values(), every_s=message_flush_s)
        self._growth_task: asyncio.Task[None] | None = None
        self._ended_listener: Callable[[str], None] | None = None
        self._completed_listener: Callable[[str], None] | None = None
        self._failed_listener: Callable[[str, str], object] | None = None
        self._interrupted = False
        recorder.on_broken(self._log_broke)

    def start(self) -> None:
        """Begin to write growing answers to the database."""
        self._growth_task = asyncio.create_task(self._growth.run())

    def on_ended(self, listener: Callable[[str], None]) -> None:
        """Who wants to know the id of every answer that has ended."""
        self._ended_listener = listener

    def on_completed(self, listener: Callable[[str], None]) -> None:
        """Who wants to know the conversation of every answer that has come to its own end."""
        self._completed_listener = listener

    def on_failed(self, listener: Callable[[str, str], object]) -> None:
        """Who wants to know the conversation of every answer that has failed, and why it has."""
        self._failed_listener = listener

    def sizes(self) -> dict[str, int]:
        """How many entries each registry has; all zero when no answer is alive."""
        return {
            "answers": len(self._answers),
            "answer_tasks": len(self._tasks),
            "lines": len(self._lines),
            "holding": len(self._holding),
        }

    # --- from the service --------------------------------------------------------------------------------------------

    def enqueue(self, answer: Answer) -> None:
        """Take over an answer whose rows are durable. The order of calls is the order within a conversation."""
        self._answers[answer.response_id] = answer
        in_front = self._lines.join(answer)
        answer.begin()
        if in_front:
            answer.wait_at(in_front)
        else:
            answer.turn.set()
            if self._engine.state is EngineState.LOADING:
                answer.wait_at(sum(other.status is MessageStatus.QUEUED for other in self._answers.values()))
        if self._interrupted:
            answer.stop(MessageStatus.INTERRUPTED)
        task = asyncio.create_task(self._live(answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def answer(self, response_id: str) -> Answer | None:
        """An answer that is alive here."""
        return self._answers.get(response_id)

    def cancel(self, response_id: str) -> None:
        """Ask an answer to end as cancelled. Unknown and ended ones are ignored."""
        if (answer := self._answers.get(response_id)) is not None:
            answer.stop(MessageStatus.CANCELLED)

    def every_answer(self) -> list[Answer]:
        """Those that are alive, the oldest first."""
        return list(self._answers.values())

    async def write_growth(self) -> None:
        """Store now how far running answers have come."""
        await self._growth.write()

    def answers_in(self, conversation_id: str) -> list[Answer]:
        """Those of one conversation, the first one's turn it is."""
        return self._lines.of(conversation_id)

    @property
    def alive(self) -> int:
        """Answers that have not ended."""
        return len(self._answers)

    @property
    def queued_tokens(self) -> int:
        """Prompt tokens of the answers that have not begun, as far as they are known."""
        queued = (answer for answer in self._answers.values() if answer.status is MessageStatus.QUEUED)
        return sum(answer.prompt_tokens for answer in queued)

    # --- from the engine ---------------------------------------------------------------------------------------------

    def take_events(self, events: Sequence[EngineEvent]) -> None:
        """One step of the engine."""
        self._door.has_room()
        touched: dict[Answer, None] = {}
        for event in events:
            if (answer := self._answers.get(event.request_id)) is not None:
                was_queued = answer.status is MessageStatus.QUEUED
                answer.take(event)
                touched[answer] = None
                if was_queued and answer.status is MessageStatus.IN_PROGRESS:
                    self._growth.started()
        for answer in touched:
            self._emit(answer)
        self._set_timer()

    def _emit(self, answer: Answer) -> None:
        answer.emit()
        if answer.due_at() is None:
            self._holding.discard(answer)
        else:
            self._holding.add(answer)

    def _set_timer(self) -> None:
        due_at = min((due for answer in self._holding if (due := answer.due_at()) is not None), default=None)
        if due_at is not None and self._timer is None:
            delay_s = max(0.0, due_at - self._monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._window_ends)

    def _window_ends(self) -> None:
        self._timer = None
        for answer in list(self._holding):
            self._emit(answer)
        self._set_timer()

    # --- the life of one answer --------------------------------------------------------------------------------------

    async def _live(self, answer: Answer) -> None:
        try:
            try:
                outcome = await self._outcome(answer)
            except Stopped:
                outcome = stopped(answer.stop_status)
            except Exception:
                logger.exception("answer_failed", response_id=answer.response_id)
                self._engine.cancel(answer.request_id)
                outcome = failed("internal_error", "The server failed while it made this answer.")
            await self._conclude(answer, outcome)
            if self._completed_listener is not None and outcome.status is MessageStatus.COMPLETED:
                self._completed_listener(answer.identity.conversation_id)
            if self._failed_listener is not None and outcome.error is not None:
                self._failed_listener(answer.identity.conversation_id, str(outcome.error["message"]))
        finally:
            self._holding.discard(answer)
            self._answers.pop(answer.response_id, None)
            for position, other in enumerate(self._lines.leave(answer)):
                if position == 0:
                    other.turn.set()
                else:
                    other.wait_at(position)
            answer.ended.set()
            if self._ended_listener is not None:
                self._ended_listener(answer.response_id)

    async def _outcome(self, answer: Answer) -> Outcome:
        await self._unless_stopped(answer, answer.turn.wait())
        await self._unless_stopped(answer, self._elders.gone(answer))
        try:
            await self._unless_stopped(answer, self._engine.wait_ready())
            prompt = await self._prompt(answer)
            request = generation_request(
                answer.request_id, prompt, answer.sampling, answer.session, self._context_policy
            )
            await self._unless_stopped(answer, self._door.submit(request))
        except EngineNotReady as problem:
            return failed("engine_not_ready", f"The model does not run: {problem}.")
        except PromptTooLong as problem:
            return failed(
                "context_length_exceeded",
                f"{problem}.",
                prompt_tokens=problem.prompt_tokens,
                available_tokens=problem.available_tokens,
            )
        except TemplateRefused as problem:
            return failed("template_refused", f"{problem}.")
        finished = await self._finished(answer)
        if finished.reason is FinishReason.CANCELLED and answer.stop_wanted.is_set():
            return stopped(answer.stop_status, finished.usage, finished.token_ids)
        return outcome_of(finished)

    async def _prompt(self, answer: Answer) -> Prompt:
        identity = answer.identity
        # All of it had been said for good when it was read, so it is the same now.
        prompt, answer.prompt = answer.prompt, None
        while prompt is None:
            try:
                prompt = await read_prompt(
                    self._database, identity.conversation_id, identity.parent_id, self._engine.model
                )
            except DatabaseAway as away:
                # Nobody has been told anything yet, so it can wait as well as fail.
                await self._unless_stopped(answer, asyncio.sleep(away.retry_after_s))
        if answer.stop_wanted.is_set() or not prompt.turns:
            raise Stopped
        return prompt

    async def _finished(self, answer: Answer) -> Finished:
        """Wait for the engine's last word; a wish to stop is passed on to it meanwhile."""
        stop_wanted = asyncio.ensure_future(answer.stop_wanted.wait())
        either: set[asyncio.Future[Any]] = {stop_wanted, answer.finished}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not answer.finished.done():
                self._engine.cancel(answer.request_id)
            return await answer.finished
        finally:
            stop_wanted.cancel()

    async def _unless_stopped(self, answer: Answer, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of something that can be left at any point. Raises Stopped, except when there is a result already:
        whoever has it has to know, as the engine may have taken the request."""
        working = asyncio.ensure_future(work)
        stop_wanted = asyncio.ensure_future(answer.stop_wanted.wait())
        either: set[asyncio.Future[Any]] = {working, stop_wanted}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not working.done() or (stop_wanted.done() and working.exception() is not None):
                raise Stopped
            return await working
        finally:
            stop_wanted.cancel()
            if not working.done():
                working.cancel()
                await asyncio.wait({working})

    async def _conclude(self, answer: Answer, outcome: Outcome) -> None:
        """Every frame durable, then the end in SQL, then the terminal frame: whoever has that finds the rest."""
        answer.conclude()
        await self._recorder.settled(answer.log)
        if answer.storage_failure is not None:
            outcome = failed("storage_failed", answer.storage_failure, outcome.usage)
        message_id = answer.identity.message_id
        terminal = self._recorder.terminal(answer.log, outcome.frame_type, outcome.frame_data(message_id))
        ending = Ending(
            response_id=answer.response_id,
            owner=self._owner,
            message_id=message_id,
            conversation_id=answer.identity.conversation_id,
            status=outcome.status,
            finish_reason=outcome.finish_reason,
            text=answer.log.snapshot().text,
            token_ids=self._kept_token_ids(answer, outcome),
            usage=outcome.usage_body,
            error=outcome.error,
            last_seq=terminal.seq,
            log=answer.log.stored(terminal),
            started_at=answer.started_at,
            ended_at=self._now(),
            spender=answer.spender,
            model=None if (model := self._engine.model) is None else model.name[:MODEL_MAX_CHARS],
        )
        result = await self._storage.end(ending)
        await answer.charge.settle(outcome.usage.input_tokens, outcome.usage.output_tokens)
        match result:
            case Stored.ELSEWHERE if stored := await self._storage.stored_log(answer.response_id):
                # Another server took this one for dead. What it wrote is what everybody is told.
                logger.warning("answer_ended_elsewhere", response_id=answer.response_id)
                answer.log.unstage()
                self._recorder.give_up(answer.log, rest_of(answer.log, stored))
            case _:
                if result is not Stored.HERE:
                    logger.info("answer_of_deleted_conversation", response_id=answer.response_id)
                self._recorder.end(answer.log, terminal)
        answer.status = outcome.status
        self._metrics.response_ended(outcome.status, self._monotonic() - answer.accepted_at_s)
        self._tracing.answer_ended(
            AnswerTrace(
                response_id=answer.response_id,
                status=outcome.status,
                model=ending.model,
                accepted_at=answer.identity.created_at,
                ended_at=ending.ended_at,
                usage=outcome.usage,
            )
        )

    def _kept_token_ids(self, answer: Answer, outcome: Outcome) -> bytes | None:
        """Only those that stand for exactly the text that is stored."""
        model = self._engine.model
        if model is None or outcome.token_ids is None or answer.has_replaced_text:
            return None
        return packed_token_ids(outcome.token_ids, model.fingerprint)

    def _log_broke(self, log: EventLog, problem: OSError | None) -> None:
        if (answer := self._answers.get(log.response_id)) is None:
            return
        if problem is None:
            answer.stop(MessageStatus.INTERRUPTED)
        else:
            answer.storage_failure = f"The server could not keep this answer: {problem.strerror or problem}."
            answer.stop(MessageStatus.FAILED)

    # --- the end of the server ---------------------------------------------------------------------------------------

    async def drain(self, seconds: float) -> None:
        """Give answers this long to finish; those that wait for an engine that does not run get nothing. Then interrupt."""
        if self._engine.state is EngineState.READY and self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        await self.interrupt()

    async def interrupt(self) -> None:
        """End every answer now, with what it has. Only the first call waits."""
        if self._interrupted:
            return
        self._interrupted = True
        for answer in list(self._answers.values()):
            answer.stop(MessageStatus.INTERRUPTED)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LAST_WRITES_S)

    async def close(self) -> None:
        """Interrupt what is alive, and end every task."""
        await self.interrupt()
        if self._timer is not None:
            self._timer.cancel()
        tasks = [*self._tasks, *([self._growth_task] if self._growth_task else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
