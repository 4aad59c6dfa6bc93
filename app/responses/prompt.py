"""What the engine gets to read: the path of messages as turns.

Cancelled, interrupted and failed answers belong to it as far as they were shown: the person has read them. An answer of which
nothing was shown is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.conversations import tree
from app.conversations.tree import PathMessage
from app.database import Database
from app.responses.token_ids import unpacked_token_ids
from engine.types import ModelInfo, Role, Turn


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
