"""SQL of conversations as a whole. Every function runs inside the caller's unit of work and commits nothing.

The tree of messages is in `tree`, the list of conversations in `listing`.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased, load_only

from app.conversations.models import Conversation, Message
from app.conversations.tree import SHOWN_COLUMNS
from app.database import chunks


async def existing_conversations(session: AsyncSession, conversation_ids: Collection[str]) -> set[tuple[str, str]]:
    """(user, conversation) for each of these ids that is there."""
    columns = select(Conversation.user_id, Conversation.id)
    found: set[tuple[str, str]] = set()
    for chunk in chunks(conversation_ids):
        rows = await session.execute(columns.where(Conversation.id.in_(chunk)))
        found.update((row[0], row[1]) for row in rows)
    return found


async def conversation_ids(session: AsyncSession, user_id: str, limit: int) -> list[str]:
    """Some conversations of a person, whatever they are."""
    return list(
        (await session.scalars(select(Conversation.id).where(Conversation.user_id == user_id).limit(limit))).all()
    )


async def delete_conversation(session: AsyncSession, conversation: Conversation) -> None:
    """Remove a conversation and, through the foreign keys, its messages, responses and event logs."""
    await session.execute(delete(Conversation).where(Conversation.id == conversation.id))


async def messages_in_order(
    session: AsyncSession, conversation_id: str, *, after: int, up_to: int, limit: int
) -> list[tuple[Message, int | None]]:
    """Messages of the whole tree in the order in which they were added, each with the ordinal of its parent."""
    parent = aliased(Message)
    statement = (
        select(Message, parent.ordinal)
        .outerjoin(parent, parent.id == Message.parent_id)
        .where(Message.conversation_id == conversation_id, Message.ordinal > after, Message.ordinal <= up_to)
        .order_by(Message.ordinal)
        .limit(limit)
        .options(load_only(*SHOWN_COLUMNS, raiseload=True))
    )
    return [(row[0], row[1]) for row in await session.execute(statement)]
