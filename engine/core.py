"""The machine in one place: `step` schedules, runs and postprocesses; between steps requests come in and are cancelled.

Used by `engine.thread` only, in the engine thread. It knows no asyncio and no queue of commands. Events of a step, and of what
happened since the last one, leave together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.answer_text import AnswerText
from engine.pages import PagesCorrupt
from engine.runner import Runner
from engine.sampler import SamplingState
from engine.scheduler import Scheduled, Scheduler, StepPlan
from engine.sequence import Sequence as TokenSequence
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
    PromptProgress,
    Queued,
    RequestId,
    SamplingParams,
    TextDelta,
    Usage,
)

logger = logging.getLogger(__name__)

MAX_FAILED_STEPS = 3
"""Steps that may fail in a row before the engine gives up: more would only fail more answers."""


@dataclass(slots=True)
class Answer:
    """A request the engine has taken: what the scheduler, the sampler and the reader each know of it, and its times."""

    sequence: TokenSequence
    sampling: SamplingState
    text: AnswerText
    arrived_at: float
    dropped_turns: int = 0
    first_scheduled_at: float | None = None
    first_token_at: float | None = None
    last_token_at: float | None = None
    announced_position: int | None = None


class Engine:
    """Owns every request between `submit` and its `Finished`. Invariant: exactly one `Finished` for each, whatever fails."""

    def __init__(
        self, scheduler: Scheduler, runner: Runner, tokenizer: ChatTokenizer, clock: Callable[[], float]
    ) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._tokenizer = tokenizer
        self._clock = clock
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

    @property
    def has_work(self) -> bool:
        return self._scheduler.has_work

    def submit(
        self, request: GenerationRequest, prompt_ids: list[int], arrived_at: float, dropped_turns: int = 0
    ) -> None:
        """Take a request whose prompt is known to fit. One that cannot be taken fails at once."""
        sequence = TokenSequence(
            request.request_id,
            self._arrivals,
            tokens=prompt_ids,
            num_prompt_tokens=len(prompt_ids),
            max_tokens=self._most_tokens(len(prompt_ids), request.sampling.max_tokens),
        )
        self._arrivals += 1
        try:
            self._answers[request.request_id] = Answer(
                sequence,
                SamplingState(request.sampling, prompt_ids, self._tokenizer.vocabulary_size),
                self._answer_text(request.sampling),
                arrived_at,
                dropped_turns,
            )
            self._scheduler.add(sequence)
        except Exception:
            logger.exception("request %s could not be taken", request.request_id)
            self._answers.pop(request.request_id, None)
            usage = Usage(input_tokens=len(prompt_ids), dropped_turns=dropped_turns)
            failure = EngineFailure(FailureCode.REQUEST_FAILED, "The engine could not take this request.")
            self._events.append(Finished(request.request_id, FinishReason.FAILED, usage, failure=failure))

    def cancel(self, request_id: RequestId) -> None:
        """End a request now; its memory is free before the next step. Nothing happens for one that is not here."""
        if answer := self._answers.get(request_id):
            self._finish(answer, FinishReason.CANCELLED)

    def fail_all(self, failure: EngineFailure) -> None:
        """End everything that is there, because the engine ends."""
        for answer in list(self._answers.values()):
            self._finish(answer, FinishReason.FAILED, failure)

    def step(self) -> list[EngineEvent]:
        """Compute one step, where there is work, and return all events since the last one."""
        if self._scheduler.has_work:
            begun = self._clock()
            try:
                plan = self._schedule(begun)
                sampled = self._run(plan)
                self._postprocess(plan, sampled)
                self._failed_steps = 0
            except Exception as problem:
                self._fail_step(problem)
            self._steps += 1
            self._last_step_s = self._clock() - begun
        self._announce_positions()
        return self.take_events()

    def take_events(self) -> list[EngineEvent]:
        """Events that have not been returned yet."""
        events, self._events = self._events, []
        return events

    def stats(self, state: EngineState, threads: int) -> EngineStats:
        """A snapshot of the counters."""
        return EngineStats(
            state=state,
            running_requests=len(self._scheduler.running),
            waiting_requests=len(self._scheduler.waiting),
            pages_total=self._scheduler.pool.num_pages,
            pages_free=self._scheduler.pool.num_free,
            steps_total=self._steps,
            prefilled_tokens_total=self._prefilled_tokens,
            decoded_tokens_total=self._decoded_tokens,
            preemptions_total=self._scheduler.num_preemptions,
            last_step_ms=self._last_step_s * 1000,
            threads=threads,
        )

    # --- the three words of a step -----------------------------------------------------------------------------------

    def _schedule(self, now: float) -> StepPlan:
        plan = self._scheduler.plan()
        self._scheduler.commit(plan)
        for item in plan.run:
            answer = self._answers[item.sequence.request_id]
            if answer.first_scheduled_at is None:
                answer.first_scheduled_at = now
        return plan

    def _run(self, plan: StepPlan) -> list[int | None]:
        states = [self._answers[item.sequence.request_id].sampling for item in plan.run if item.samples]
        return self._runner.run(plan.run, states)

    def _postprocess(self, plan: StepPlan, sampled: Sequence[int | None]) -> None:
        now = self._clock()
        samples = [item.samples for item in plan.run]
        self._scheduler.advance(plan)
        tokens = iter(sampled)
        for item, has_token in zip(plan.run, samples, strict=True):
            answer = self._answers[item.sequence.request_id]
            self._report_prompt(answer, item)
            if has_token:
                self._accept(answer, next(tokens), now)
        if not self._scheduler.has_work:
            self._scheduler.check_integrity()

    # --- one answer --------------------------------------------------------------------------------------------------

    def _report_prompt(self, answer: Answer, item: Scheduled) -> None:
        """Tell how far the prompt is, until the answer begins; computing it again after a preemption is nobody's business."""
        prompt_tokens = item.sequence.num_prompt_tokens
        if item.num_tokens > 1 or item.start < prompt_tokens:
            self._prefilled_tokens += item.num_tokens
        if answer.first_token_at is None:
            done = min(item.end, prompt_tokens)
            self._events.append(PromptProgress(item.sequence.request_id, done, prompt_tokens, cached_tokens=0))

    def _accept(self, answer: Answer, token_id: int | None, now: float) -> None:
        """Take the sampled token. What goes wrong here belongs to this request alone."""
        try:
            if token_id is None:
                raise ArithmeticError("the model's output is not made of finite numbers")
            self._append(answer, token_id, now)
        except Exception:
            logger.exception("request %s failed", answer.sequence.request_id)
            failure = EngineFailure(FailureCode.REQUEST_FAILED, "The engine failed at this answer.")
            self._finish(answer, FinishReason.FAILED, failure)

    def _append(self, answer: Answer, token_id: int, now: float) -> None:
        sequence = answer.sequence
        sequence.tokens.append(token_id)
        answer.sampling.append(token_id)
        answer.first_token_at = now if answer.first_token_at is None else answer.first_token_at
        answer.last_token_at = now
        self._decoded_tokens += 1
        if token_id in self._tokenizer.end_token_ids and not answer.sampling.params.ignore_eos:
            self._finish(answer, FinishReason.STOP)
            return
        if text := answer.text.push(token_id):
            self._events.append(TextDelta(sequence.request_id, text, sequence.num_output_tokens))
        if answer.text.stopped:
            self._finish(answer, FinishReason.STOP)
        elif sequence.is_full:
            self._finish(answer, FinishReason.LENGTH)

    def _finish(self, answer: Answer, reason: FinishReason, failure: EngineFailure | None = None) -> None:
        """Give the memory back first, then say the last words. A text that cannot be completed fails the request only."""
        sequence = answer.sequence
        self._scheduler.remove(sequence)
        self._answers.pop(sequence.request_id)
        token_ids = None
        try:
            if text := answer.text.flush():
                self._events.append(TextDelta(sequence.request_id, text, sequence.num_output_tokens))
            token_ids = answer.text.token_ids()
        except Exception:
            logger.exception("the text of request %s could not be completed", sequence.request_id)
            if failure is None:
                reason = FinishReason.FAILED
                failure = EngineFailure(
                    FailureCode.REQUEST_FAILED, "The end of this answer could not be turned into text."
                )
        self._events.append(Finished(sequence.request_id, reason, _usage(answer), token_ids, failure))

    def _answer_text(self, params: SamplingParams) -> AnswerText:
        return AnswerText(self._tokenizer.detokenizer(), self._tokenizer.decode, params.stop, params.min_tokens)

    def _announce_positions(self) -> None:
        """Tell requests that never ran their place in the queue, whenever it changes."""
        for position, sequence in enumerate(self._scheduler.waiting, start=1):
            answer = self._answers[sequence.request_id]
            if answer.first_scheduled_at is None and answer.announced_position != position:
                answer.announced_position = position
                self._events.append(Queued(sequence.request_id, position))

    def _most_tokens(self, prompt_tokens: int, max_tokens: int | None) -> int:
        most = self._scheduler.max_sequence_tokens
        return most if max_tokens is None else min(most, prompt_tokens + max_tokens)

    # --- failures ----------------------------------------------------------------------------------------------------

    def _fail_step(self, problem: Exception) -> None:
        """End the running answers: their KV may be half written. Those that wait were not touched and go on."""
        self._failed_steps += 1
        logger.error("an engine step failed (%d in a row)", self._failed_steps, exc_info=problem)
        failure = EngineFailure(FailureCode.STEP_FAILED, "The engine failed while it computed this answer.")
        for sequence in self._scheduler.running:
            self._finish(self._answers[sequence.request_id], FinishReason.FAILED, failure)
        if isinstance(problem, PagesCorrupt) or self._failed_steps >= MAX_FAILED_STEPS:
            self.failure = (
                f"The engine gave up after {self._failed_steps} failed steps: {type(problem).__name__}: {problem}"
            )
            self.fail_all(EngineFailure(FailureCode.ENGINE_FAILED, "The engine broke down and has to be restarted."))


def _usage(answer: Answer) -> Usage:
    return Usage(
        input_tokens=answer.sequence.num_prompt_tokens,
        output_tokens=answer.sequence.num_output_tokens,
        queue_ms=_milliseconds(answer.arrived_at, answer.first_scheduled_at),
        prefill_ms=_milliseconds(answer.first_scheduled_at, answer.first_token_at),
        ttft_ms=_milliseconds(answer.arrived_at, answer.first_token_at),
        decode_ms=_milliseconds(answer.first_token_at, answer.last_token_at),
        dropped_turns=answer.dropped_turns,
    )


def _milliseconds(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else (end - begin) * 1000
