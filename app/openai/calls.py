"""The answers to programs that are being made, and what becomes of each at its end: it is counted, charged and written down.

Made by the context. Its `take` is told every step of the engine. However a call ends, and whether anybody still reads it, its end
is dealt with here exactly once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import structlog

from app.background import Background
from app.clock import Monotonic, Now
from app.conversations.models import MessageStatus
from app.database import DatabaseAway
from app.openai.call import Call, Keep
from app.openai.known_answers import KnownAnswers
from app.operations.metrics import Metrics
from app.operations.tracing import AnswerTrace, Tracing
from app.responses.outcome import STATUS_OF
from app.usage.late_records import EndedAnswer, LateRecords
from app.usage.models import MODEL_MAX_CHARS
from engine.client import EngineClient
from engine.types import EngineEvent, EngineFailure, Finished, FinishReason, RequestId, TextDelta, ToolCallDelta

logger = structlog.stdlib.get_logger(__name__)

LAST_ENDS_S = 1.0
"""What calls get to end in that the end of the server cuts off."""


class Calls:
    """Owns the calls that the engine has. `answers` remembers what they said, `records` takes what they cost."""

    def __init__(
        self,
        engine: EngineClient,
        records: LateRecords,
        metrics: Metrics,
        tracing: Tracing,
        *,
        monotonic: Monotonic,
        now: Now,
    ) -> None:
        self.answers = KnownAnswers()
        self._engine = engine
        self.records = records
        self._metrics = metrics
        self._tracing = tracing
        self._monotonic = monotonic
        self._now = now
        self._calls: dict[RequestId, Call] = {}
        self._none = asyncio.Event()
        self._none.set()
        self._is_interrupted = False
        self._settling = Background()

    def __len__(self) -> int:
        return len(self._calls)

    def sizes(self) -> dict[str, int]:
        """How many entries each registry has; all zero when no call is alive."""
        return {"calls": len(self._calls), "settling_calls": len(self._settling)}

    async def begin(self, call: Call) -> None:
        """Have the engine take it. Raises EngineNotReady, QueueFull, PromptTooLong or TemplateRefused, and then it is none."""
        self._calls[call.request_id] = call
        self._none.clear()
        try:
            await self._engine.submit(call.request)
        except BaseException as problem:
            self._forget(call)
            if isinstance(problem, asyncio.CancelledError):
                self._engine.cancel(call.request_id)
            raise
        call.charge.keep()
        if self._is_interrupted:
            self.cancel(call)

    def cancel(self, call: Call) -> None:
        """Nobody wants it any more. One that has ended stays as it is."""
        if call.request_id in self._calls:
            self._engine.cancel(call.request_id)

    def take(self, events: Sequence[EngineEvent]) -> None:
        """One step of the engine; what is about others is passed over."""
        if not self._calls:
            return
        for event in events:
            if (call := self._calls.get(event.request_id)) is None:
                continue
            if isinstance(event, TextDelta | ToolCallDelta):
                call.add(event)
            elif isinstance(event, Finished):
                self._end(call, event)

    async def drain(self, seconds: float) -> None:
        """Give calls this long to end; then cut them off."""
        await self._all_ended(seconds)
        self._is_interrupted = True
        for call in list(self._calls.values()):
            self.cancel(call)
        await self._all_ended(LAST_ENDS_S)

    async def close(self) -> None:
        """After the engine's end: what is settled is written."""
        await self._settling.close()

    def _end(self, call: Call, finished: Finished) -> None:
        self._forget(call)
        namespace = call.request.namespace
        has_own_end = finished.reason in (FinishReason.STOP, FinishReason.LENGTH)
        if namespace is not None and has_own_end and finished.token_ids is not None:
            self.answers.remember(namespace, call.request.turns, call.text, finished.token_ids)
        if call.keep is None:
            call.context.run(self._tell, call, finished, finished)
        self._settling.begin(self._settle(call, finished), call.context)

    async def _kept(self, call: Call, keep: Keep, finished: Finished) -> Finished:
        """What is told of the end: whoever is told that it is kept can go on from it."""
        try:
            await keep(call, finished)
        except Exception as problem:
            if not isinstance(problem, DatabaseAway):
                logger.exception("response_not_stored", response_id=call.identity.id)
            failure = EngineFailure("storage_failed", "The server could not keep this response.")
            return replace(finished, reason=FinishReason.FAILED, failure=failure)
        return finished

    async def _settle(self, call: Call, finished: Finished) -> None:
        """Keep what was answered, tell of the end, and charge what it has cost."""
        if call.keep is not None:
            self._tell(call, finished, await self._kept(call, call.keep, finished))
        await call.charge.settle(finished.usage.input_tokens, finished.usage.output_tokens)

    def _tell(self, call: Call, finished: Finished, told: Finished) -> None:
        """Have what it has cost written down, and then say how it ended, whatever goes wrong with the first: others' events come
        behind, and somebody waits."""
        try:
            self._write_down(call, finished)
        except Exception:
            logger.exception("end_not_written_down", response_id=call.identity.id)
        call.end(told)

    def _write_down(self, call: Call, finished: Finished) -> None:
        status = STATUS_OF[finished.reason]
        if finished.reason is FinishReason.CANCELLED and self._is_interrupted:
            status = MessageStatus.INTERRUPTED
        usage: dict[str, Any] = msgspec.to_builtins(finished.usage)
        model = self._engine.model
        ended = EndedAnswer(
            response_id=call.request_id,
            spender=call.charge.spender,
            model=None if model is None else model.name[:MODEL_MAX_CHARS],
            status=status,
            usage=usage,
            ended_at=self._now(),
        )
        self.records.add(ended)
        self._metrics.response_ended(status, self._monotonic() - call.accepted_at_s)
        self._tracing.answer_ended(
            AnswerTrace(
                response_id=call.request_id,
                status=status,
                model=ended.model,
                accepted_at=call.identity.created_at,
                ended_at=ended.ended_at,
                usage=finished.usage,
            )
        )

    async def _all_ended(self, timeout_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._none.wait()

    def _forget(self, call: Call) -> None:
        self._calls.pop(call.request_id, None)
        if not self._calls:
            self._none.set()
