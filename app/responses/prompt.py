"""What the engine gets to read: the persona's prompt, the path of messages as turns, and in whose name it is asked.

Cancelled, interrupted and failed answers belong to it as far as they were shown: the person has read them. An answer of which
nothing was shown is left out. The persona is as it was when the conversation began.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.conversations import tree
from app.conversations.tree import PathMessage
from app.database import Database
from app.personas.lookup import persona_of
from app.personas.models import PersonaVersion
from app.personas.prefixes import opening
from app.responses.token_ids import unpacked_token_ids
from engine.types import (
    ContextPolicy,
    GenerationRequest,
    ModelInfo,
    Namespace,
    Priority,
    RequestId,
    Role,
    SamplingParams,
    SessionKey,
    Turn,
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """`persona` is whose system prompt `turns` begin with. Empty when there is nothing to answer."""

    turns: tuple[Turn, ...] = ()
    persona: str | None = None

    @classmethod
    def of(cls, path: Sequence[PathMessage], persona: PersonaVersion | None, model: ModelInfo | None) -> Prompt:
        """What a path says, from the root on. Without a model no stored token ids are used."""
        turns = tuple(_turn(message, model) for message in path if message.role == Role.USER or message.content)
        if persona is None:
            return cls(turns)
        return cls((opening(persona.system_prompt), *turns), persona.name)

    def followed_by(self, content: str) -> Prompt:
        """The same, and a new message of the user."""
        return replace(self, turns=(*self.turns, Turn(Role.USER, content)))


def session_key(user_id: str, conversation_id: str) -> SessionKey:
    """Under which name the engine keeps what it has computed for a conversation: its owner's, and nobody else's."""
    return SessionKey(Namespace.user(user_id), conversation_id)


def generation_request(
    request_id: RequestId,
    prompt: Prompt,
    sampling: SamplingParams,
    session: SessionKey,
    context_policy: ContextPolicy,
) -> GenerationRequest:
    """One answer to somebody who waits for it. Admission asks with the same words, so the prompt is encoded once."""
    return GenerationRequest(
        request_id,
        prompt.turns,
        sampling,
        namespace=session.namespace,
        session=session.name,
        persona=prompt.persona,
        priority=Priority.INTERACTIVE,
        context_policy=context_policy,
    )


async def read_prompt(database: Database, conversation_id: str, leaf_id: str, model: ModelInfo | None) -> Prompt:
    """What is said from the root to this message; empty when that does not exist any more."""
    async with database.read() as session:
        path = await tree.path(session, conversation_id, leaf_id)
        if not path:
            return Prompt()
        return Prompt.of(path, await persona_of(session, conversation_id), model)


def _turn(message: PathMessage, model: ModelInfo | None) -> Turn:
    role = Role(message.role)
    if role is not Role.ASSISTANT or model is None:
        return Turn(role, message.content)
    return Turn(role, message.content, unpacked_token_ids(message.token_ids, model.fingerprint))
