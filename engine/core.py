"""The machine in one place: `step` schedules, runs and postprocesses; between steps requests come in and are cancelled.

Used by `engine.thread` only, in the engine thread. It knows no asyncio and no queue of commands. Events of a step, and of what
happened since the last one, leave together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from engine.answer import Answer, Arrival
from engine.batch_window import BatchWindow
from engine.book_check import BookCheck
from engine.errors import EngineError, FilesNotDeleted
from engine.grammar import GrammarFailed, TokenGrammar
from engine.groundwork import Groundwork
from engine.likelihood import Likelihood
from engine.memory import Memory
from engine.memory_map import MemoryStats, snapshot
from engine.pages import PagesCorrupt
from engine.queue_positions import QueuePositions
from engine.runner import Runner
from engine.sampler import SamplingState
from engine.scheduler import Scheduler
from engine.snapshot import EngineSnapshot
from engine.speculation import accepted
from engine.step_plan import EngineStalled, Scheduled, StepPlan
from engine.tokenizer import ChatTokenizer
from engine.types import (
    EngineEvent,
    EngineFailure,
    EngineState,
    EngineStats,
    FailureCode,
    Finished,
    FinishReason,
    GenerationRequest,
    Namespace,
    PromptProgress,
    Queued,
    RequestId,
    SessionKey,
    Usage,
)

logger = logging.getLogger(__name__)

MAX_FAILED_STEPS = 3
"""Steps that may fail in a row before the engine gives up: more would only fail more answers."""


class Engine:
    """Owns every request between `submit` and its `Finished`. Invariant: exactly one `Finished` for each, whatever fails."""

    def __init__(
        self,
        scheduler: Scheduler,
        memory: Memory,
        runner: Runner,
        tokenizer: ChatTokenizer,
        clock: Callable[[], float],
        batch_window: BatchWindow,
        groundwork: Groundwork,
    ) -> None:
        self._scheduler = scheduler
        self._memory = memory
        self._runner = runner
        self._tokenizer = tokenizer
        self._clock = clock
        self._batch_window = batch_window
        self._answers: dict[RequestId, Answer] = {}
        self._events: list[EngineEvent] = []
        self._arrivals = 0
        self._failed_steps = 0
        self.failure: str | None = None
        """One sentence when the engine is broken for good; it must not be used again."""
        self._steps = 0
        self._prefilled_tokens = 0
        self._decoded_tokens = 0
        self._last_step_s = 0.0
        self._num_batch_windows = 0
        self._num_stalls = 0
        self._is_gathering = False
        self._positions = QueuePositions()
        self._memory_stats = MemoryStats(scheduler, memory)
        self.hold_session = memory.sessions.hold_key
        self._book_check = BookCheck(scheduler)
        self._groundwork = groundwork
        self._is_blocked = False
        """Whether all there is to do waits for the disk."""

    @property
    def has_work(self) -> bool:
        """Whether there is anything to compute, now or when the disk has answered."""
        return self._scheduler.has_work

    @property
    def has_transfers(self) -> bool:
        """Whether something is on its way to or from the disk."""
        return self._memory.tiers.has_transfers

    def wait_s(self) -> float | None:
        """How long nothing has to be done unless a command comes: 0 while there is work, None for ever."""
        if self._groundwork.is_due:
            return 0.0
        if self._scheduler.has_work and not self._is_blocked:
            return self.gathering_s()
        due = self._memory.next_due()
        return None if due is None else max(0.0, due - self._clock())

    def gathering_s(self) -> float:
        """How long to wait for company before the next step; 0 where the step is to be made now."""
        if self._scheduler.running or self._scheduler.restoring:
            return 0.0
        now = self._clock()
        if (closes_at := self._batch_window.closes_at(self._scheduler.waiting, now)) is None:
            return 0.0
        self._num_batch_windows += not self._is_gathering
        self._is_gathering = True
        return closes_at - now

    def submit(
        self,
        request: GenerationRequest,
        prompt_ids: list[int],
        arrived_at: float,
        dropped_turns: int = 0,
        grammar: TokenGrammar | None = None,
    ) -> None:
        """Take a request whose prompt is known to fit. One that cannot be taken fails at once."""
        answer = None
        try:
            answer = Answer.to(request, prompt_ids, self._arrival(arrived_at), dropped_turns, grammar)
            self._memory.begin_turn(answer.sequence, request)
            self._groundwork.forget(request.session_key)
            self._answers[request.request_id] = answer
            self._scheduler.add(answer.sequence)
        except Exception:
            logger.exception("request %s could not be taken", request.request_id)
            self._answers.pop(request.request_id, None)
            if answer is not None:
                self._memory.give_up_turn(answer.sequence)
            usage = Usage(input_tokens=len(prompt_ids), dropped_turns=dropped_turns)
            failure = EngineFailure(FailureCode.REQUEST_FAILED, "The engine could not take this request.")
            self._events.append(Finished(request.request_id, FinishReason.FAILED, usage, failure=failure))

    def cancel(self, request_id: RequestId) -> None:
        """End a request now; its memory is free before the next step. Nothing happens for one that is not here."""
        if answer := self._answers.get(request_id):
            self._finish(answer, FinishReason.CANCELLED)

    def snapshot(self) -> EngineSnapshot:
        """Sessions, prefixes and pages at this moment."""
        return snapshot(self._scheduler, self._memory)

    def evict_session(self, key: SessionKey, reply: Callable[[bool], None]) -> None:
        """Move an idle session one tier down; the reply comes when it is there."""
        self._memory.evict(key, reply)

    def drop_session(self, key: SessionKey, reply: Callable[[bool | EngineError], None]) -> None:
        """Cancel a session's turns and forget it in every tier; the reply comes when no file of it is left."""
        self._groundwork.forget(key)
        self._cancel(lambda answer: answer.is_turn_of(key))
        is_there = self._memory.sessions.get(key) is not None
        self._memory.drop_session(key, lambda is_gone: reply(is_there if is_gone else FilesNotDeleted()))

    def drop_namespace(self, namespace: Namespace, reply: Callable[[int | EngineError], None]) -> None:
        """The same for everything of a user."""
        self._groundwork.forget_namespace(namespace)
        self._cancel(lambda answer: answer.is_within(namespace))
        count = len(self._memory.sessions.within(namespace))
        self._memory.drop_namespace(namespace, lambda is_gone: reply(count if is_gone else FilesNotDeleted()))

    def set_prefix(self, name: str, prefix_ids: list[int], reply: Callable[[bool], None] | None = None) -> None:
        """Compute a persona's prefix when there is time, or load it; the reply comes as soon as it is registered."""
        self._cancel(lambda answer: answer.is_building(name) and answer.sequence.tokens != prefix_ids)
        self._memory.set_prefix(name, prefix_ids)
        if reply is not None:
            reply(True)

    def drop_prefix(self, name: str, reply: Callable[[bool | EngineError], None]) -> None:
        """Forget a persona's prefix in every tier; the reply comes when no file of it is left."""
        self._cancel(lambda answer: answer.is_building(name))
        self._memory.drop_prefix(name, lambda is_gone: reply(is_gone or FilesNotDeleted()))

    def stop(self, failure: EngineFailure) -> None:
        """End everything that is there, and store what can be stored in the time there is."""
        self.fail_all(failure)
        self._memory.save_and_close()

    def fail_all(self, failure: EngineFailure) -> None:
        """End everything that is there, because the engine ends."""
        for answer in list(self._answers.values()):
            self._finish(answer, FinishReason.FAILED, failure)

    def step(self) -> list[EngineEvent]:
        """Compute one step, where there is work, and return all events since the last one."""
        self._memory.tend()
        if (answer := self._groundwork.obsolete) is not None:
            self._finish(answer, FinishReason.CANCELLED)
        if self._groundwork.is_due and (answer := self._groundwork.begin(self._arrival(self._clock()))):
            self._answers[answer.sequence.request_id] = answer
        if self._scheduler.has_work:
            begun = self._clock()
            try:
                plan = self._schedule(begun)
                self._postprocess(plan, self._run(plan))
                self._failed_steps = 0
            except Exception as problem:
                self._fail_step(problem)
            self._steps += 1
            self._last_step_s = self._clock() - begun
        for sequence, place in self._positions.news(self._scheduler.queue, self._clock()):
            self._tell(self._answers[sequence.request_id], Queued(sequence.request_id, place))
        return self.take_events()

    def take_events(self) -> list[EngineEvent]:
        """Events that have not been returned yet."""
        events, self._events = self._events, []
        return events

    def stats(self, state: EngineState, threads: int) -> EngineStats:
        """A snapshot of the counters."""
        return replace(
            self._memory_stats.at(self._clock()),
            state=state,
            running_requests=len(self._scheduler.running) + len(self._scheduler.restoring),
            waiting_requests=len(self._scheduler.waiting),
            waiting_tokens=sum(len(sequence.tokens) for sequence in self._scheduler.waiting),
            waiting_by_priority=self._scheduler.queue.count_by_priority(),
            step_prompt_tokens=self._scheduler.step_prompt_tokens,
            batch_windows_total=self._num_batch_windows,
            pages_total=self._scheduler.pool.num_pages,
            pages_free=self._scheduler.pool.num_free,
            steps_total=self._steps,
            prefilled_tokens_total=self._prefilled_tokens,
            decoded_tokens_total=self._decoded_tokens,
            drafted_tokens_total=self._scheduler.speculation.num_drafted,
            accepted_tokens_total=self._scheduler.speculation.num_accepted,
            preemptions_total=self._scheduler.num_preemptions,
            stalls_total=self._num_stalls,
            last_step_ms=self._last_step_s * 1000,
            threads=threads,
        )

    def _cancel(self, is_meant: Callable[[Answer], bool]) -> None:
        for answer in list(self._answers.values()):
            if is_meant(answer):
                self._finish(answer, FinishReason.CANCELLED)

    # --- the three words of a step -----------------------------------------------------------------------------------

    def _schedule(self, now: float) -> StepPlan:
        self._is_gathering = False
        changed = self._memory.admit(now)
        plan = self._scheduler.plan(now)
        self._scheduler.commit(plan, now)
        self._runner.reach(self._scheduler.pool.num_touched)
        self._is_blocked = not (plan.run or plan.preempt or changed)
        for item in plan.run:
            answer = self._answers[item.sequence.request_id]
            if answer.first_scheduled_at is None:
                answer.first_scheduled_at = now
                if not answer.is_groundwork:
                    self._memory.count_hits(item.sequence)
        return plan

    def _run(self, plan: StepPlan) -> list[tuple[int | None, Likelihood | None]]:
        """What was sampled of each row, and how likely that was where somebody asks."""
        if not plan.run:
            return []
        states: list[SamplingState] = []
        for item in plan.run:
            if item.samples:
                states += self._answers[item.sequence.request_id].states_along(item.draft)
        begun = self._clock()
        sampled = self._runner.run(plan.run, states)
        took_s = self._clock() - begun
        self._scheduler.measured(plan, took_s)
        return [(token_id, state.likelihood) for token_id, state in zip(sampled, states, strict=True)]

    def _postprocess(self, plan: StepPlan, sampled: Sequence[tuple[int | None, Likelihood | None]]) -> None:
        now = self._clock()
        samples = [item.samples for item in plan.run]
        self._scheduler.advance(plan)
        unread = iter(sampled)
        for item, has_token in zip(plan.run, samples, strict=True):
            answer = self._answers[item.sequence.request_id]
            self._report_prompt(answer, item)
            if has_token:
                rows = [*islice(unread, 1 + len(item.draft))]
                taken = accepted(item.draft, [token_id for token_id, _ in rows])
                for token_id, (_, likelihood) in zip(taken, rows, strict=False):
                    if item.sequence.request_id in self._answers:
                        self._accept(answer, token_id, likelihood, now)
                if item.draft:
                    self._scheduler.settle(item)
        self._book_check.after_step(now)

    # --- one answer --------------------------------------------------------------------------------------------------

    def _report_prompt(self, answer: Answer, item: Scheduled) -> None:
        """Tell how far the prompt is, until the answer begins; computing it again after a preemption is nobody's business."""
        prompt_tokens = item.sequence.num_prompt_tokens
        if item.num_tokens > 1 or item.start < prompt_tokens:
            self._prefilled_tokens += item.num_tokens
        if answer.first_token_at is None:
            done = min(item.end, prompt_tokens)
            cached_tokens = answer.cached_from.total
            self._tell(answer, PromptProgress(item.sequence.request_id, done, prompt_tokens, cached_tokens))

    def _accept(self, answer: Answer, token_id: int | None, likelihood: Likelihood | None, now: float) -> None:
        """Take the sampled token. What goes wrong here belongs to this request alone."""
        try:
            if token_id is None:
                raise answer.no_token()
            self._decoded_tokens += not answer.is_groundwork
            events, reason = answer.take(token_id, likelihood, self._tokenizer.end_token_ids, now)
            for event in events:
                self._tell(answer, event)
            if reason is not None:
                self._finish(answer, reason)
        except Exception as problem:
            logger.exception("request %s failed", answer.sequence.request_id)
            told = f": {problem}" if isinstance(problem, GrammarFailed) else ""
            failure = EngineFailure(FailureCode.REQUEST_FAILED, f"The engine failed at this answer{told}.")
            self._finish(answer, FinishReason.FAILED, failure)

    def _finish(self, answer: Answer, reason: FinishReason, failure: EngineFailure | None = None) -> None:
        """Give the memory back, then say the last words. A text that cannot be completed fails the request only."""
        sequence = answer.sequence
        last_events: list[EngineEvent] = []
        token_ids = None
        try:
            last_events = answer.writer.flush(sequence.num_output_tokens)
            token_ids = answer.writer.token_ids()
        except Exception:
            logger.exception("the text of request %s could not be completed", sequence.request_id)
            if failure is None:
                reason = FinishReason.FAILED
                failure = EngineFailure(
                    FailureCode.REQUEST_FAILED, "The end of this answer could not be turned into text."
                )
        self._answers.pop(sequence.request_id)
        if answer.is_groundwork:
            self._groundwork.end(answer, reason)
            return
        # After a failure its pages may hold anything. Text past a stop is never kept (vllm-project/vllm#5543).
        is_sound = failure is None or failure.code == FailureCode.ENGINE_STOPPED
        keep_tokens = sequence.num_prompt_tokens + answer.writer.num_shown_tokens if is_sound else None
        self._memory.end_turn(sequence, keep_tokens, answer.ttft_ms)
        if keep_tokens is not None and reason in (FinishReason.STOP, FinishReason.LENGTH):
            self._groundwork.turn_ended(sequence, keep_tokens)
        self._events += last_events
        logprobs = answer.writer.rest()
        self._events.append(Finished(sequence.request_id, reason, answer.usage(), token_ids, failure, logprobs))

    def _arrival(self, arrived_at: float) -> Arrival:
        self._arrivals += 1
        most = self._scheduler.max_sequence_tokens
        return Arrival(self._arrivals, arrived_at, self._clock(), self._tokenizer, most)

    def _tell(self, answer: Answer, event: EngineEvent) -> None:
        if not answer.is_groundwork:
            self._events.append(event)

    # --- failures ----------------------------------------------------------------------------------------------------

    def _fail_step(self, problem: Exception) -> None:
        """End the running answers: their KV may be half written. Those that wait were not touched and go on."""
        self._failed_steps += 1
        self._num_stalls += isinstance(problem, EngineStalled)
        logger.error("an engine step failed (%d in a row)", self._failed_steps, exc_info=problem)
        failure = EngineFailure(FailureCode.STEP_FAILED, "The engine failed while it computed this answer.")
        for sequence in self._scheduler.running:
            self._finish(self._answers[sequence.request_id], FinishReason.FAILED, failure)
        if isinstance(problem, PagesCorrupt) or self._failed_steps >= MAX_FAILED_STEPS:
            self.failure = (
                f"The engine gave up after {self._failed_steps} failed steps: {type(problem).__name__}: {problem}"
            )
            self.fail_all(EngineFailure(FailureCode.ENGINE_FAILED, "The engine broke down and has to be restarted."))
