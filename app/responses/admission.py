"""Whether a new answer is taken at all, decided before anything is stored.

What cannot be taken now is refused with the time after which to try again; what can never be answered, with the numbers. The
engine's queue is bounded twice, by requests and by the tokens of their prompts: few long ones fill it as well as many short ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.errors import AppError, InvalidInput, PayloadTooLarge, Unavailable
from app.operations.health import Readiness
from app.operations.metrics import Metrics
from app.responses.dispatcher import Dispatcher
from app.settings import Settings
from app.text import require_storable
from engine.client import EngineClient
from engine.errors import EngineNotReady, PromptTooLong, QueueFull, TemplateRefused
from engine.types import EngineState, GenerationRequest

RETRY_DRAINING_S = 5
"""A restart takes about this long; behind a load balancer another server answers at once."""

RETRY_FULL_S = 2
RETRY_FAILED_S = 60
"""A failed engine needs a person."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`refusal` says why a prompt is not taken; `prompt_tokens` is 0 where the engine cannot count yet."""

    refusal: AppError | None = None
    prompt_tokens: int = 0


class Admission:
    """Owns no state; asks the engine, the dispatcher and the readiness."""

    def __init__(
        self, settings: Settings, engine: EngineClient, dispatcher: Dispatcher, readiness: Readiness, metrics: Metrics
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._dispatcher = dispatcher
        self._readiness = readiness
        self._metrics = metrics

    def require_open(self) -> None:
        """Raises Unavailable while the server ends, when the engine has failed, and when too many answers wait already."""
        if self._readiness.draining:
            self._metrics.rejected("draining")
            raise Unavailable("the server is shutting down", retry_after_s=RETRY_DRAINING_S, code="draining")
        if self._engine.state in (EngineState.FAILED, EngineState.STOPPED):
            self._metrics.rejected("engine_failed")
            reason = self._engine.failure or "it was stopped"
            raise Unavailable(f"the model does not run: {reason}", retry_after_s=RETRY_FAILED_S, code="engine_failed")
        limit = self._settings.max_running + self._settings.max_waiting
        waiting = self._engine.stats().waiting_requests
        if waiting >= self._settings.max_waiting or self._dispatcher.alive >= limit:
            self._metrics.rejected("queue_full")
            raise Unavailable(
                f"{waiting} answers wait for the model and {self._dispatcher.alive} are not done; "
                f"the limits are {self._settings.max_waiting} and {limit}",
                retry_after_s=RETRY_FULL_S,
                code="queue_full",
            )

    def require_content(self, content: str) -> None:
        """Raises InvalidInput for a text without anything to answer or to store, PayloadTooLarge for too much of it."""
        require_storable(content, "content")
        if not content.strip():
            raise InvalidInput("expected a content with at least one character that can be seen", code="content_empty")
        if (size := len(content.encode())) > self._settings.message_max_bytes:
            raise PayloadTooLarge(
                f"the content has {size} bytes of UTF-8; the limit is {self._settings.message_max_bytes}",
                code="content_too_large",
                members={"content_bytes": size, "limit_bytes": self._settings.message_max_bytes},
            )

    async def judge(self, request: GenerationRequest) -> Verdict:
        """Whether this prompt is taken, as far as the engine can say that now."""
        if self._engine.state is not EngineState.READY:
            return Verdict()
        try:
            prompt_tokens = await self._engine.check(request)
        except PromptTooLong as problem:
            self._metrics.rejected("prompt_too_long")
            return Verdict(
                InvalidInput(
                    str(problem),
                    code="context_length_exceeded",
                    members={"prompt_tokens": problem.prompt_tokens, "available_tokens": problem.available_tokens},
                )
            )
        except TemplateRefused as problem:
            return Verdict(InvalidInput(str(problem), code="template_refused"))
        except QueueFull as full:
            self._metrics.rejected("queue_full")
            return Verdict(Unavailable(f"{full}", retry_after_s=full.retry_after_s, code="queue_full"))
        except EngineNotReady:
            # It has ended since; the answer will say so.
            return Verdict()
        return Verdict(self._queue_refusal(prompt_tokens), prompt_tokens)

    def _queue_refusal(self, prompt_tokens: int) -> AppError | None:
        """A prompt of any length is taken when no other waits: alone it delays nobody."""
        waiting_tokens = max(self._engine.stats().waiting_tokens, self._dispatcher.queued_tokens)
        if not waiting_tokens or waiting_tokens + prompt_tokens <= self._settings.max_waiting_tokens:
            return None
        self._metrics.rejected("queue_tokens_full")
        return Unavailable(
            f"prompts of {waiting_tokens} tokens wait for the model, and this one has {prompt_tokens}; "
            f"the limit is {self._settings.max_waiting_tokens}",
            retry_after_s=RETRY_FULL_S,
            code="queue_tokens_full",
        )
