"""Takes a call in: whether its caller may have it now, whether it fits, and then the engine has it.

Called by the services of this surface. The prompt is encoded once, here, and its tokens are charged before anything is computed.
Whatever is refused has cost nothing.
"""

from __future__ import annotations

from app.clock import Monotonic
from app.errors import AppError, Unavailable
from app.openai.call import Call, CallIdentity, Keep
from app.openai.calls import Calls
from app.openai.errors import RefusedParameter
from app.operations.health import Readiness
from app.operations.metrics import Metrics
from app.usage.charge import QuotaExceeded, TooManyAnswers
from app.usage.limits import Spender
from app.usage.quotas import QuotaService
from engine.client import EngineClient
from engine.errors import ConstraintRefused, EngineNotReady, PromptTooLong, QueueFull, TemplateRefused
from engine.types import GenerationRequest

RETRY_DRAINING_S = 5
"""A restart takes about this long; behind a load balancer another server answers at once."""

RETRY_NOT_READY_S = 5


class CallAdmission:
    """Owns nothing."""

    def __init__(
        self,
        engine: EngineClient,
        calls: Calls,
        quotas: QuotaService,
        readiness: Readiness,
        metrics: Metrics,
        *,
        monotonic: Monotonic,
    ) -> None:
        self._engine = engine
        self._calls = calls
        self._quotas = quotas
        self._readiness = readiness
        self._metrics = metrics
        self._monotonic = monotonic

    async def begin(
        self,
        identity: CallIdentity,
        request: GenerationRequest,
        spender: Spender,
        *,
        prompt: str,
        form: str,
        keep: Keep | None = None,
    ) -> Call:
        """The call, which the engine has now. `prompt` names the field that it is made of, `form` the one that says what the
        answer has to be; `keep` stores what comes of it.

        Raises RefusedParameter where it can never be answered, TooManyRequests where the caller has to wait, Unavailable where
        everybody has to.
        """
        accepted_at_s = self._monotonic()
        if self._readiness.draining or self._readiness.is_paused:
            why = "the server takes no new answers: it ends, or an administrator has drained it"
            draining = Unavailable(why, retry_after_s=RETRY_DRAINING_S, code="draining")
            raise self._counted("draining", draining)
        async with self._quotas.charging(spender) as charge:
            self._require_within(charge.refusal)
            call = Call(identity, request, charge, accepted_at_s, keep)
            try:
                prompt_tokens = await self._engine.check(request)
                self._require_within(await charge.take_prompt(prompt_tokens))
                await self._calls.begin(call)
            except PromptTooLong as problem:
                refusal = RefusedParameter(prompt, f"{problem}", code="context_length_exceeded")
                raise self._counted("prompt_too_long", refusal) from None
            except ConstraintRefused as problem:
                field = "tools" if request.constraint is None else form
                raise RefusedParameter(field, f"{problem}", code="invalid_schema") from None
            except TemplateRefused as problem:
                raise RefusedParameter(prompt, f"{problem}", code="template_refused") from None
            except QueueFull as full:
                unavailable = Unavailable(f"{full}", retry_after_s=full.retry_after_s, code="queue_full")
                raise self._counted("queue_full", unavailable) from None
            except EngineNotReady as problem:
                raise Unavailable(
                    f"the model does not run: {problem}", retry_after_s=RETRY_NOT_READY_S, code="engine_not_ready"
                ) from None
        return call

    def _require_within(self, refusal: QuotaExceeded | TooManyAnswers | None) -> None:
        if refusal is not None:
            raise self._counted(f"quota_{refusal.limit_name}", refusal)

    def _counted(self, reason: str, refusal: AppError) -> AppError:
        """The same, and a number of it."""
        self._metrics.rejected(reason)
        return refusal
