"""Chat completions: from a body to a call that the engine has. Called by the routes.

Nothing of a chat is stored: the client has the history and sends it whole. What was computed for it is found again in the
caller's own namespace, with or without a session.
"""

from __future__ import annotations

from app.accounts.identity import Identity
from app.clock import Now
from app.identifiers import new_id
from app.openai.admission import CallAdmission
from app.openai.call import Call, CallIdentity
from app.openai.chat_request import max_tokens_of, require_supported
from app.openai.known_answers import KnownAnswers
from app.openai.messages import turns_of
from app.openai.model_names import ModelNames, fingerprint_of
from app.openai.namespaces import namespace_of
from app.openai.sampling import sampling_of
from app.openai.schemas import ChatCompletionCreate
from app.openai.structure import constraint_of, require_told, tools_of
from app.settings import Settings
from app.usage.limits import Spender
from engine.types import GenerationRequest, Priority, RequestId


class ChatCompletions:
    """Owns nothing: calls are `Calls`', what they cost is the quotas'."""

    def __init__(
        self, settings: Settings, names: ModelNames, admission: CallAdmission, answers: KnownAnswers, *, now: Now
    ) -> None:
        self._settings = settings
        self._names = names
        self._admission = admission
        self._answers = answers
        self._now = now

    async def begin(self, caller: Identity, wanted: ChatCompletionCreate, session: str | None) -> Call:
        """The call, which is being answered. Raises RefusedParameter, UnknownModel, TooManyRequests or Unavailable."""
        require_supported(wanted)
        turns = turns_of(wanted.messages)
        speaker = await self._names.speaker(wanted.model)
        require_told(turns, "messages", speaker.model)
        top_logprobs = (wanted.top_logprobs or 0) if wanted.logprobs else None
        sampling = sampling_of(wanted, max_tokens_of(wanted), self._settings, speaker.params, top_logprobs=top_logprobs)
        tools = tools_of(
            [tool.function for tool in wanted.tools or ()],
            wanted.tool_choice,
            parallel=wanted.parallel_tool_calls,
            model=speaker.model,
        )
        namespace = namespace_of(caller, wanted.user)
        number = new_id()
        request = GenerationRequest(
            RequestId(number),
            self._answers.recognised(namespace, (*speaker.opening, *turns)),
            sampling,
            namespace=namespace,
            session=session,
            persona=speaker.persona,
            priority=Priority.BOT,
            constraint=constraint_of(wanted.response_format),
            tools=tools,
        )
        identity = CallIdentity(
            id=f"chatcmpl-{number}",
            model=wanted.model,
            fingerprint=fingerprint_of(speaker.model),
            created_at=self._now(),
            credential_id=caller.credential_id,
        )
        spender = Spender(caller.user_id, caller.key_id, speaker.persona)
        return await self._admission.begin(identity, request, spender, prompt="messages", form="response_format")
