"""What a list can be narrowed by: words and a tag. Each can look into one conversation, and can collect all that fit by an index.

Used by `listing`, which decides between the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlalchemy import ColumnElement, Select, func, literal, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.conversations.full_text import FullText
from app.conversations.models import Conversation, ConversationTag, SearchDocument

MANY = 3000
"""So many rows of an index take about 12 ms to collect. What has more is looked for in the list as far as that is worth it."""


class Way(Protocol):
    """One thing that a list is narrowed by."""

    def fits(self) -> ColumnElement[bool]:
        """Whether a conversation fits."""

    async def count(self, session: AsyncSession) -> int:
        """About how many rows the index has that fit, or MANY + 1 where they are more."""

    def fitting(self, count: int) -> Select[str]:
        """The ids of all conversations that fit, some more than once, and some of other people's among them. `count` as above."""


class Words:
    """All of some words, in one message or in the title."""

    def __init__(self, language: FullText, user_id: str, words: Sequence[str]) -> None:
        self._language = language
        self._user_id = user_id
        self._words = words

    def fits(self) -> ColumnElement[bool]:
        document = SearchDocument.conversation_id == Conversation.id
        return _is_any(select(literal(1)).where(document, self._language.has(self._words)))

    async def count(self, session: AsyncSession) -> int:
        return min(MANY + 1, await self._language.count(session, self._words, MANY))

    def fitting(self, count: int) -> Select[str]:
        # What others have is left out one by one, or by the index, which takes 3 to 4 ms where the person has a million.
        return self._language.conversations(self._user_id if count > MANY else None, self._words)


class Tag:
    """A tag of one person."""

    def __init__(self, user_id: str, tag: str) -> None:
        self._is_tagged = (ConversationTag.user_id == user_id, ConversationTag.tag == tag)

    def fits(self) -> ColumnElement[bool]:
        conversation = ConversationTag.conversation_id == Conversation.id
        return _is_any(select(literal(1)).where(*self._is_tagged, conversation))

    async def count(self, session: AsyncSession) -> int:
        some = self.fitting(0).limit(MANY + 1).subquery()
        return await session.scalar(select(func.count()).select_from(some)) or 0

    def fitting(self, count: int) -> Select[str]:
        return select(ConversationTag.conversation_id).where(*self._is_tagged)


def _is_any(rows: Select[int]) -> ColumnElement[bool]:
    # Not EXISTS: PostgreSQL would collect all that fits first, which is the other way.
    return rows.limit(1).correlate(Conversation).scalar_subquery().is_not(None)
