"""`external_id`: what another program calls a conversation. One person has at most one conversation of each.

Used by whoever makes or changes a conversation, in their unit of work.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from app.conversations.models import Conversation
from app.errors import Conflict


async def require_free(session: AsyncSession, user_id: str, external_id: str | None) -> None:
    """Raises Conflict when the person has a conversation of this external_id already, and says which."""
    if external_id is None:
        return
    statement = select(Conversation.id).where(Conversation.user_id == user_id, Conversation.external_id == external_id)
    if (taken_by := await session.scalar(statement)) is not None:
        raise _taken({"conversation_id": taken_by})


@contextmanager
def free_until_written() -> Iterator[None]:
    """Around the writing itself: of two that found it free at once the later one raises Conflict too."""
    try:
        yield
    except IntegrityError as problem:
        if "external_id" not in str(problem.orig):
            raise
        raise _taken({}) from None


def _taken(members: dict[str, object]) -> Conflict:
    return Conflict("another of your conversations has this external_id", code="external_id_taken", members=members)
