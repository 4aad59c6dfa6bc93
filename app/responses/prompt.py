"""What the engine gets to read: the path of messages as turns, and in whose name it is asked.

Cancelled, interrupted and failed answers belong to it as far as they were shown: the person has read them. An answer of which
nothing was shown is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.conversations import tree
from app.conversations.tree import PathMessage
from app.database import Database
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


def session_key(user_id: str, conversation_id: str) -> SessionKey:
    """Under which name the engine keeps what it has computed for a conversation: its owner's, and nobody else's."""
    return SessionKey(Namespace.user(user_id), conversation_id)


def generation_request(
    request_id: RequestId,
    turns: Sequence[Turn],
    sampling: SamplingParams,
    session: SessionKey,
    context_policy: ContextPolicy,
) -> GenerationRequest:
    """One answer to somebody who waits for it. Admission asks with the same words, so the prompt is encoded once."""
    return GenerationRequest(
        request_id,
        tuple(turns),
        sampling,
        namespace=session.namespace,
        session=session.name,
        priority=Priority.INTERACTIVE,
        context_policy=context_policy,
    )


async def read_turns(
    database: Database, conversation_id: str, leaf_id: str, model: ModelInfo | None
) -> tuple[Turn, ...]:
    """The turns from the root to this message; empty when it does not exist any more."""
    async with database.read() as session:
        path = await tree.path(session, conversation_id, leaf_id)
    return turns_of(path, model)


def turns_of(path: Sequence[PathMessage], model: ModelInfo | None) -> tuple[Turn, ...]:
    """The turns of a path, from the root on. Without a model no stored token ids are used."""
    return tuple(_turn(message, model) for message in path if message.role == Role.USER or message.content)


def _turn(message: PathMessage, model: ModelInfo | None) -> Turn:
    role = Role(message.role)
    if role is not Role.ASSISTANT or model is None:
        return Turn(role, message.content)
    return Turn(role, message.content, unpacked_token_ids(message.token_ids, model.fingerprint))
