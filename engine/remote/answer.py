"""One answer while the cluster makes it: asked for, asked for again while nothing of it was shown, and told piece by piece.

Run by the remote engine as one task, on the event loop. `run` ends with exactly one `Finished`, whatever happens, except when it
is cancelled: then the engine says it, with the usage as far as it is known.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from engine.fair_shares import Account, account_of
from engine.remote.chunk import FINISH_REASONS, Chunk, RemoteUsage
from engine.remote.completion_request import NotExpressible
from engine.remote.prompts import RemotePrompt
from engine.remote.refusal import RemoteRefusal
from engine.types import (
    CachedFrom,
    EngineEvent,
    EngineFailure,
    FailureCode,
    Finished,
    FinishReason,
    GenerationRequest,
    Priority,
    PromptProgress,
    TextDelta,
    TokenLogprob,
    Usage,
)

logger = logging.getLogger(__name__)

BACK_OFF_S = 0.5
"""Before the second try; each later one waits twice as long. A restarting replica of a cluster is back, or out of its list, in
seconds."""

Ask = Callable[["RemoteAnswer"], AsyncGenerator[Chunk]]
"""One try. Raises RemoteRefusal, NotExpressible."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an answer may take, and how often it is asked for again."""

    first_token_timeout_s: float
    silence_timeout_s: float
    retries: int


class RemoteAnswer:
    """Owns what is known of one answer. Also what `WaitingQueue` orders while it waits for its place."""

    def __init__(
        self, request: GenerationRequest, prompt: RemotePrompt, arrival: int, clock: Callable[[], float]
    ) -> None:
        self.request = request
        self.prompt = prompt
        self.max_tokens: int | None = request.sampling.max_tokens
        self.arrival = arrival
        self.account: Account | None = account_of(request.namespace)
        self.priority: Priority = request.priority
        self.num_prompt_tokens = prompt.tokens
        self.num_preemptions = 0
        self.times_passed = 0
        self.told_position: int | None = None
        self.task: asyncio.Task[None] | None = None
        self.is_kept = True
        self.ending: tuple[FinishReason, EngineFailure | None] = (FinishReason.CANCELLED, None)
        """What it ends as when its task is cancelled."""
        self._clock = clock
        self.queued_at = clock()
        self._started_at: float | None = None
        self._first_at: float | None = None
        self._said: RemoteUsage | None = None
        self._pieces = 0
        self._logprobs: tuple[TokenLogprob, ...] = ()
        """Of tokens whose text has not come yet."""

    async def run(
        self,
        ask: Ask,
        shorter: Callable[[RemoteRefusal], Awaitable[bool]],
        tell: Callable[[EngineEvent], None],
        patience: Patience,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        """Bring it to its end."""
        self._started_at = self._clock()
        retries = 0
        while True:
            try:
                reason = await self._try(ask(self), tell, patience)
            except RemoteRefusal as refusal:
                if self._is_shown:
                    return tell(self._failed(refusal.failure))
                if refusal.code is FailureCode.CONTEXT_LENGTH_EXCEEDED and await shorter(refusal):
                    continue
                if not refusal.may_retry or retries >= patience.retries:
                    return tell(self._failed(refusal.failure))
                pause_s = BACK_OFF_S * 2**retries if refusal.retry_after_s is None else refusal.retry_after_s
                retries += 1
                await sleep(pause_s)
            except NotExpressible as problem:
                return tell(self._failed(EngineFailure(FailureCode.REMOTE_REFUSED, f"{problem}.".capitalize())))
            except Exception:
                logger.exception("request %s failed", self.request.request_id)
                failure = EngineFailure(FailureCode.REQUEST_FAILED, "The engine failed at this answer.")
                return tell(self._failed(failure))
            else:
                return tell(self.finished(reason))

    async def _try(
        self, chunks: AsyncGenerator[Chunk], tell: Callable[[EngineEvent], None], patience: Patience
    ) -> FinishReason:
        finish: str | None = None
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        async with aclosing(chunks):
            while True:
                due_at = loop.time() + patience.silence_timeout_s
                if not self._is_shown:
                    due_at = began_at + patience.first_token_timeout_s
                try:
                    async with asyncio.timeout_at(due_at):
                        chunk = await anext(chunks)
                except StopAsyncIteration:
                    break
                except TimeoutError:
                    raise self._too_slow(patience) from None
                self._take(chunk, tell)
                finish = chunk.finish or finish
        if finish is None:
            raise RemoteRefusal(
                FailureCode.REMOTE_BROKE_OFF, "The server of the model ended the answer in its middle.", may_retry=True
            )
        if (reason := FINISH_REASONS.get(finish)) is None:
            message = f"The server of the model ended the answer itself ({finish[:100]})."
            raise RemoteRefusal(FailureCode.REMOTE_BROKE_OFF, message, may_retry=True)
        return reason

    def _too_slow(self, patience: Patience) -> RemoteRefusal:
        """Not asked again: a server with too much to do would have it twice."""
        message = f"The server of the model has not begun to answer for {patience.first_token_timeout_s:g} s."
        if self._is_shown:
            message = f"The server of the model has said nothing more for {patience.silence_timeout_s:g} s."
        return RemoteRefusal(FailureCode.REMOTE_TIMED_OUT, message)

    def _take(self, chunk: Chunk, tell: Callable[[EngineEvent], None]) -> None:
        self._said = chunk.usage or self._said
        if self._first_at is None and (chunk.text or chunk.finish):
            self._first_at = self._clock()
            tokens = self.input_tokens
            tell(PromptProgress(self.request.request_id, tokens, tokens, self._cached_tokens))
        if chunk.text:
            self._pieces += 1
            logprobs, self._logprobs = (*self._logprobs, *chunk.logprobs), ()
            tell(TextDelta(self.request.request_id, chunk.text, self._output_tokens, logprobs))
        else:
            self._logprobs += chunk.logprobs

    @property
    def _is_shown(self) -> bool:
        return self._pieces > 0

    @property
    def input_tokens(self) -> int:
        """As the server says; before that, as they were counted."""
        return self._said.input_tokens if self._said is not None and self._said.input_tokens else self.prompt.tokens

    @property
    def _output_tokens(self) -> int:
        """A server that does not say it before the end sends at least a token with each piece."""
        return (0 if self._said is None else self._said.output_tokens) or self._pieces

    @property
    def _cached_tokens(self) -> int:
        return 0 if self._said is None else min(self._said.cached_tokens or 0, self.input_tokens)

    @property
    def has_begun(self) -> bool:
        """Whether the prompt was read."""
        return self._first_at is not None

    def usage(self) -> Usage:
        """What it has cost so far. The cluster's own queue counts as reading the prompt: it does not say which is which."""
        now, first, started = self._clock(), self._first_at, self._started_at
        return Usage(
            input_tokens=self.input_tokens,
            cached_tokens=self._cached_tokens,
            output_tokens=self._output_tokens,
            queue_ms=None if started is None else (started - self.queued_at) * 1000,
            prefill_ms=None if first is None or started is None else (first - started) * 1000,
            ttft_ms=None if first is None else (first - self.queued_at) * 1000,
            decode_ms=None if first is None else (now - first) * 1000,
            cached_from=CachedFrom(device=self._cached_tokens),
            dropped_turns=self.prompt.dropped_turns,
        )

    def finished(self, reason: FinishReason, failure: EngineFailure | None = None) -> Finished:
        """Its last word."""
        return Finished(self.request.request_id, reason, self.usage(), failure=failure, logprobs=self._logprobs)

    def _failed(self, failure: EngineFailure) -> Finished:
        return self.finished(FinishReason.FAILED, failure)
