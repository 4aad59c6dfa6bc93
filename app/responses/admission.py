"""Whether a new answer is taken at all, decided before anything is stored.

What cannot be taken now is refused with the time after which to try again; what can never be answered, with the numbers. The
engine's queue is bounded twice, by requests and by the tokens of their prompts: few long ones fill it as well as many short ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import UNSET, UnsetType

from app.conversations import tree
from app.conversations.models import MessageStatus
from app.database import Database
from app.errors import AppError, InvalidInput, PayloadTooLarge, Unavailable
from app.operations.health import Readiness
from app.operations.metrics import Metrics
from app.personas.lookup import persona_of
from app.personas.prefixes import context_exceeded
from app.realtime.protocol import ResponseParams
from app.responses.dispatcher import Dispatcher
from app.responses.params import sampling_params
from app.responses.prompt import Prompt, generation_request, session_key
from app.settings import Settings
from app.text import require_storable
from app.usage.charge import Charge, QuotaExceeded, TooManyAnswers
from engine.client import EngineClient
from engine.errors import EngineNotReady, PromptTooLong, QueueFull, TemplateRefused
from engine.types import ContextPolicy, EngineState, GenerationRequest, RequestId, SamplingParams

DRAINING = "draining"
ENGINE_FAILED = "engine_failed"

RETRY_DRAINING_S = 5
"""A restart takes about this long; behind a load balancer another server answers at once."""

RETRY_PAUSED_S = 30
"""Somebody is at work on it."""

RETRY_FULL_S = 2
RETRY_FAILED_S = 60
"""A failed engine needs a person."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody wants answered: the branch that ends in `parent_id` (the newest where it is not given), and a new message
    behind it, or none where it is answered again."""

    parent_id: str | UnsetType | None
    content: str | None
    params: ResponseParams


@dataclass(frozen=True, slots=True)
class Verdict:
    """`refusal` says why it is not taken; `prompt_tokens` is 0 where the engine cannot count yet, and then there is no `prompt`
    either. The prompt is what is said up to `leaf_id` and the new message behind it."""

    sampling: SamplingParams = field(default_factory=SamplingParams)
    refusal: AppError | None = None
    prompt_tokens: int = 0
    prompt: Prompt | None = None
    leaf_id: str | None = None

    def prompt_behind(self, parent_id: str | None) -> Prompt | None:
        """What the engine is to read where the new message follows this one; None where that has to be read again."""
        return self.prompt if parent_id == self.leaf_id else None


@dataclass(slots=True, eq=False)
class Arrival:
    """A turn between its first check and the dispatcher. `prompt_tokens` is 0 until it is judged."""

    prompt_tokens: int = 0


class Admission:
    """Owns who is being taken in: until the dispatcher has them nobody else counts them, and a burst would all see room."""

    def __init__(
        self,
        settings: Settings,
        engine: EngineClient,
        database: Database,
        dispatcher: Dispatcher,
        readiness: Readiness,
        metrics: Metrics,
    ) -> None:
        self._database = database
        self._context_policy = ContextPolicy(settings.context_policy)
        self._settings = settings
        self._engine = engine
        self._dispatcher = dispatcher
        self._readiness = readiness
        self._metrics = metrics
        self._arriving: set[Arrival] = set()

    def __len__(self) -> int:
        return len(self._arriving)

    def open_for(self) -> Arrival:
        """A place for one more answer; whoever gets it hands it to `arrived`, whatever happens.

        Raises Unavailable while the server ends or is drained, when the engine has failed, and when too many answers wait.
        """
        if self._readiness.draining:
            self._metrics.rejected("draining")
            raise Unavailable("the server is shutting down", retry_after_s=RETRY_DRAINING_S, code=DRAINING)
        if self._readiness.is_paused:
            self._metrics.rejected("draining")
            raise Unavailable(
                "an administrator has drained this server: running answers finish, and no new ones begin",
                retry_after_s=RETRY_PAUSED_S,
                code="draining",
            )
        if self._engine.state in (EngineState.FAILED, EngineState.STOPPED):
            self._metrics.rejected("engine_failed")
            reason = self._engine.failure or "it was stopped"
            raise Unavailable(f"the model does not run: {reason}", retry_after_s=RETRY_FAILED_S, code=ENGINE_FAILED)
        limit = self._settings.max_running + self._settings.max_waiting
        waiting = self._engine.stats().waiting_requests
        alive = self._dispatcher.alive + len(self._arriving)
        if waiting >= self._settings.max_waiting or alive >= limit:
            self._metrics.rejected("queue_full")
            raise Unavailable(
                f"{waiting} answers wait for the model and {alive} are not done; "
                f"the limits are {self._settings.max_waiting} and {limit}",
                retry_after_s=RETRY_FULL_S,
                code="queue_full",
            )
        arrival = Arrival()
        self._arriving.add(arrival)
        return arrival

    def arrived(self, arrival: Arrival) -> None:
        """It is the dispatcher's now, or it was refused."""
        self._arriving.discard(arrival)

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

    async def judge(
        self, user_id: str, conversation_id: str, asked: Asked, arrival: Arrival, charge: Charge
    ) -> Verdict:
        """Whether it is taken, and how it would be sampled. Where nobody can say yet whether it fits, it is taken.

        Its prompt is charged, where its owner's limits allow it.

        Raises NotFound for somebody else's conversation.
        """
        async with self._database.read() as session:
            conversation = await tree.owned_conversation(session, user_id, conversation_id)
            leaf_id = conversation.leaf_id if asked.parent_id is UNSET else asked.parent_id
            path = await tree.path(session, conversation.id, leaf_id)
            has_persona = conversation.persona_version_id is not None
            persona = await persona_of(session, conversation.id) if has_persona else None
        try:
            sampling = sampling_params(asked.params, self._settings, None if persona is None else persona.params)
        except InvalidInput as problem:
            return Verdict(refusal=problem)
        if charge.refusal is not None:
            return Verdict(refusal=self._counted(charge.refusal))
        if self._engine.state is not EngineState.READY or any(
            not MessageStatus(message.status).is_final for message in path
        ):
            return Verdict(sampling, self._counted(await charge.take_prompt(0)))
        prompt = Prompt.of(path, persona, self._engine.model)
        if asked.content is not None:
            prompt = prompt.followed_by(asked.content)
        key = session_key(user_id, conversation_id)
        refusal, prompt_tokens = await self._judge_prompt(
            generation_request(RequestId("check"), prompt, sampling, key, self._context_policy), arrival
        )
        refusal = refusal or self._counted(await charge.take_prompt(prompt_tokens))
        # What was not there yet, and is when the turn is stored, has not been read.
        is_whole = bool(path) or leaf_id is None
        return Verdict(sampling, refusal, prompt_tokens, prompt if is_whole and prompt_tokens else None, leaf_id)

    def _counted(self, refusal: QuotaExceeded | TooManyAnswers | None) -> QuotaExceeded | TooManyAnswers | None:
        """The same, and a number of it."""
        if refusal is not None:
            self._metrics.rejected(f"quota_{refusal.limit_name}")
        return refusal

    async def _judge_prompt(self, request: GenerationRequest, arrival: Arrival) -> tuple[AppError | None, int]:
        """Why the engine does not take it now, and how many tokens it has."""
        try:
            prompt_tokens = await self._engine.check(request)
        except PromptTooLong as problem:
            self._metrics.rejected("prompt_too_long")
            return context_exceeded(problem), 0
        except TemplateRefused as problem:
            return InvalidInput(str(problem), code="template_refused"), 0
        except QueueFull as full:
            self._metrics.rejected("queue_full")
            return Unavailable(f"{full}", retry_after_s=full.retry_after_s, code="queue_full"), 0
        except EngineNotReady:
            # It has ended since; the answer will say so.
            return None, 0
        if (refusal := self._queue_refusal(prompt_tokens)) is None:
            arrival.prompt_tokens = prompt_tokens
        return refusal, prompt_tokens

    def _queue_refusal(self, prompt_tokens: int) -> AppError | None:
        """A prompt of any length is taken when no other waits: alone it delays nobody."""
        waiting_tokens = max(self._engine.stats().waiting_tokens, self._dispatcher.queued_tokens)
        waiting_tokens += sum(arrival.prompt_tokens for arrival in self._arriving)
        if not waiting_tokens or waiting_tokens + prompt_tokens <= self._settings.max_waiting_tokens:
            return None
        self._metrics.rejected("queue_tokens_full")
        return Unavailable(
            f"prompts of {waiting_tokens} tokens wait for the model, and this one has {prompt_tokens}; "
            f"the limit is {self._settings.max_waiting_tokens}",
            retry_after_s=RETRY_FULL_S,
            code="queue_tokens_full",
        )
