"""Conversations for tests, made by the functions the application makes them with."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy.ext.asyncio import AsyncSession

from app.conversations import tree
from app.conversations.models import Conversation, Message, MessageStatus
from app.database import Database
from app.identifiers import new_id
from app.service.states import ConversationState
from engine.types import Role

MOMENT = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


async def add_conversation(session: AsyncSession, user_id: str, title: str = "") -> Conversation:
    """An empty conversation."""
    conversation = Conversation(
        id=new_id(),
        user_id=user_id,
        title=title,
        state=ConversationState.BOT,
        archived=False,
        tags=[],
        extra={},
        external_id=None,
        leaf_id=None,
        last_ordinal=0,
        version=1,
        created_at=MOMENT,
        updated_at=MOMENT,
    )
    session.add(conversation)
    await session.flush()
    return conversation


async def grow(
    database: Database, user_id: str, conversation_id: str, texts: Sequence[str], parent_id: str | None = None
) -> list[Message]:
    """A chain of messages below `parent_id`, user and assistant by turns."""
    added: list[Message] = []
    async with database.write() as session:
        conversation = await tree.owned_conversation(session, user_id, conversation_id, for_update=True)
        for number, text in enumerate(texts):
            message = await tree.add_message(
                session,
                conversation,
                role=Role.ASSISTANT if number % 2 else Role.USER,
                content=text,
                parent_id=parent_id,
                status=MessageStatus.COMPLETED,
                now=MOMENT,
            )
            parent_id = message.id
            added.append(message)
    return added


async def add_long_chain(session: AsyncSession, conversation: Conversation, count: int) -> list[str]:
    """`count` messages one below the other, quicker than one by one. Returns their ids, the root first."""
    ids = [new_id() for _ in range(count)]
    await session.execute(
        Message.__table__.insert(),
        [
            {
                "id": message_id,
                "conversation_id": conversation.id,
                "parent_id": None if number == 0 else ids[number - 1],
                "ordinal": number + 1,
                "role": Role.ASSISTANT if number % 2 else Role.USER,
                "content": f"message {number + 1}",
                "status": MessageStatus.COMPLETED,
                "client_message_id": None,
                "response_id": None,
                "last_seq": 0,
                "token_ids": None,
                "usage": None,
                "created_at": MOMENT,
            }
            for number, message_id in enumerate(ids)
        ],
    )
    conversation.leaf_id = ids[-1]
    conversation.last_ordinal = count
    return ids
