"""SQL of conversations as a list and as a whole. Every function runs inside the caller's unit of work and commits nothing.

What belongs to somebody else is left out by the statement itself. The tree of messages is in `tree`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, delete, exists, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased, load_only

from app.conversations.models import Conversation, Message
from app.conversations.tree import SHOWN_COLUMNS
from app.database import chunks


async def conversations_page(
    session: AsyncSession,
    user_id: str,
    *,
    limit: int,
    before: tuple[datetime, str] | None,
    archived: bool | None,
    tag: str | None,
) -> Sequence[Conversation]:
    """At most `limit` conversations of this user, the newest first, from behind `before` on."""
    place = tuple_(Conversation.updated_at, Conversation.id)
    statement = select(Conversation).where(Conversation.user_id == user_id)
    if before is not None:
        statement = statement.where(place < before)
    if archived is not None:
        statement = statement.where(Conversation.archived.is_(archived))
    if tag is not None:
        statement = statement.where(_has_tag(session, tag))
    statement = statement.order_by(Conversation.updated_at.desc(), Conversation.id.desc()).limit(limit)
    return (await session.scalars(statement)).all()


async def existing_conversations(session: AsyncSession, conversation_ids: Collection[str]) -> set[tuple[str, str]]:
    """(user, conversation) for each of these ids that is there."""
    columns = select(Conversation.user_id, Conversation.id)
    found: set[tuple[str, str]] = set()
    for chunk in chunks(conversation_ids):
        rows = await session.execute(columns.where(Conversation.id.in_(chunk)))
        found.update((row[0], row[1]) for row in rows)
    return found


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


def _has_tag(session: AsyncSession, tag: str) -> ColumnElement[bool]:
    unfold = func.json_each if session.get_bind().dialect.name == "sqlite" else func.json_array_elements_text
    each = unfold(Conversation.tags).table_valued("value", name="each_tag")
    return exists(select(1).select_from(each).where(each.c.value == tag))
