"""The tags of a conversation where they are looked up by. Called by whoever writes
`Conversation.tags`, in the same unit of work."""

from __future__ import annotations

from sqlalchemy import delete, insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.conversations.models import Conversation, ConversationTag


async def write_tags(session: AsyncSession, conversation: Conversation) -> None:
    """The conversation is found by the tags that it has now, and by no others. Its row has been written."""
    await session.execute(delete(ConversationTag).where(ConversationTag.conversation_id == conversation.id))
    rows = [
        {"user_id": conversation.user_id, "tag": tag, "conversation_id": conversation.id} for tag in conversation.tags
    ]
    if rows:
        await session.execute(insert(ConversationTag), rows)
