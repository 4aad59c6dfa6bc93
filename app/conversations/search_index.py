"""Writes the search index: in the same unit of work as what it is about, so the two are in step at every moment.

Called by `tree` for messages and titles, by `app.responses` when an answer has its final text, and by the service when a title
changes. Rows go with their message or conversation by foreign keys. A text that still grows is not in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.conversations.full_text import owner_word
from app.conversations.models import Conversation, Message, MessageStatus, SearchDocument
from app.conversations.words import VERSION, words_of
from app.database import Database

FINAL = tuple(status for status in MessageStatus if status.is_final)

MESSAGES_AT_ONCE = 500
CONVERSATIONS_AT_ONCE = 50


async def index_texts(
    session: AsyncSession, user_id: str, conversation_id: str, texts: Sequence[tuple[str | None, str]]
) -> None:
    """Texts that were not there before: (message id, content), or (None, title)."""
    owner = owner_word(user_id)
    documents = [
        {"conversation_id": conversation_id, "message_id": message_id, "words": [owner, *words]}
        for message_id, text in texts
        if (words := words_of(text))
    ]
    if documents:
        # With NULL as a value like any other: else those with a message and those without would be two statements.
        await session.execute(insert(SearchDocument), documents, execution_options={"render_nulls": True})


async def index_message(
    session: AsyncSession, user_id: str, conversation_id: str, message_id: str, content: str
) -> None:
    """The message has its final text, or has got it once more."""
    await session.execute(delete(SearchDocument).where(SearchDocument.message_id == message_id))
    await index_texts(session, user_id, conversation_id, [(message_id, content)])


async def index_title(session: AsyncSession, conversation: Conversation) -> None:
    """The conversation has another title. Its row has been written."""
    await session.execute(
        delete(SearchDocument).where(
            SearchDocument.conversation_id == conversation.id, SearchDocument.message_id.is_(None)
        )
    )
    await index_texts(session, conversation.user_id, conversation.id, [(None, conversation.title)])


class IndexUpgrade:
    """Brings into the index what was stored before there was one, or was indexed by older rules. A chore of the house."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def run(self) -> None:
        """Conversation by conversation, so that nobody waits long; until none is left."""
        outdated = select(Conversation.id).where(Conversation.search_version < VERSION).limit(CONVERSATIONS_AT_ONCE)
        while True:
            async with self._database.read() as session:
                conversation_ids = (await session.scalars(outdated)).all()
            if not conversation_ids:
                return
            for conversation_id in conversation_ids:
                await self._index(conversation_id)

    async def _index(self, conversation_id: str) -> None:
        async with self._database.write() as session:
            # Another server may have done it meanwhile.
            outdated = select(Conversation).where(
                Conversation.id == conversation_id, Conversation.search_version < VERSION
            )
            if (conversation := await session.scalar(outdated.with_for_update())) is None:
                return
            await session.execute(delete(SearchDocument).where(SearchDocument.conversation_id == conversation_id))
            await index_title(session, conversation)
            after = 0
            columns = select(Message.ordinal, Message.id, Message.content).order_by(Message.ordinal)
            while True:
                rows = (
                    await session.execute(
                        columns.where(
                            Message.conversation_id == conversation_id,
                            Message.ordinal > after,
                            Message.status.in_(FINAL),
                        ).limit(MESSAGES_AT_ONCE)
                    )
                ).all()
                if not rows:
                    break
                await index_texts(
                    session, conversation.user_id, conversation_id, [(row.id, row.content) for row in rows]
                )
                after = rows[-1].ordinal
            await session.execute(
                update(Conversation).where(Conversation.id == conversation_id).values(search_version=VERSION)
            )
