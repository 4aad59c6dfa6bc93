"""How a database is asked for documents that have all of some words: SQLite by FTS5, PostgreSQL by tsvector, both alike.

Used by `ways` and `listing`. There are two questions, because neither database answers both in the same way quickly: whether one
document, which is at hand, has the words, and which of all documents have them. Words come from `words` and hold nothing that is
an operator here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Integer, Select, String, and_, cast, column, func, literal, select, table, text
from sqlalchemy.dialects.postgresql import TSQUERY
from sqlalchemy.ext.asyncio import AsyncSession

from app.conversations.models import SearchDocument


def owner_word(user_id: str) -> str:
    """The word that every document of this person has, and that no text can have."""
    return f"@{user_id.replace('-', '')}"


class FullText(Protocol):
    """One kind of database."""

    def has(self, words: Sequence[str]) -> ColumnElement[bool]:
        """Whether a row of `search_documents`, reached otherwise, has all of these words."""

    async def count(self, session: AsyncSession, words: Sequence[str], most: int) -> int:
        """About how many documents, of all people, have all of these words; above `most` the number says nothing."""

    def conversations(self, user_id: str | None, words: Sequence[str]) -> Select[str]:
        """The ids of the conversations with such a document, found by the full-text index, some more than once: this person's
        only, or everybody's."""


class SQLiteFullText:
    """FTS5, and for a row at hand a look into its text, which is much quicker than asking the index about one row."""

    def has(self, words: Sequence[str]) -> ColumnElement[bool]:
        return and_(*(func.instr(SearchDocument.words, literal(f" {word} ", String)) > 0 for word in words))

    async def count(self, session: AsyncSession, words: Sequence[str], most: int) -> int:
        some = self._numbers(words).limit(most + 1).subquery()
        return await session.scalar(select(func.count()).select_from(some)) or 0

    def conversations(self, user_id: str | None, words: Sequence[str]) -> Select[str]:
        numbers = self._numbers(_of(user_id, words))
        return select(SearchDocument.conversation_id).where(SearchDocument.number.in_(numbers))

    @staticmethod
    def _numbers(words: Sequence[str]) -> Select[int]:
        match = literal(" AND ".join(f'"{word}"' for word in words), String)
        index = table("search_index", column("rowid", Integer), column("search_index"))
        return select(index.c.rowid).where(index.c.search_index.op("MATCH")(match))


class PostgresFullText:
    """A tsvector and its GIN index."""

    def has(self, words: Sequence[str]) -> ColumnElement[bool]:
        # As an expression, so that the index is left alone: for a row at hand it would look up everything that has the words.
        at_hand = func.coalesce(SearchDocument.words, SearchDocument.words)
        return at_hand.op("@@", is_comparison=True)(self._query(words))

    async def count(self, session: AsyncSession, words: Sequence[str], most: int) -> int:
        # By its statistics: to count would be to read them all, whatever the limit.
        explain = text("EXPLAIN (FORMAT JSON) SELECT FROM search_documents WHERE words @@ CAST(:query AS TSQUERY)")
        plan = await session.scalar(explain, {"query": self._text(words)})
        return int(plan[0]["Plan"]["Plan Rows"])

    def conversations(self, user_id: str | None, words: Sequence[str]) -> Select[str]:
        has = SearchDocument.words.op("@@", is_comparison=True)(self._query(_of(user_id, words)))
        return select(SearchDocument.conversation_id).where(has)

    @staticmethod
    def _text(words: Sequence[str]) -> str:
        return " & ".join(f"'{word}'" for word in words)

    def _query(self, words: Sequence[str]) -> ColumnElement[Any]:
        return cast(literal(self._text(words), String), TSQUERY)


def _of(user_id: str | None, words: Sequence[str]) -> Sequence[str]:
    return words if user_id is None else (owner_word(user_id), *words)


def full_text(session: AsyncSession) -> FullText:
    """The way of this database."""
    return SQLiteFullText() if session.get_bind().dialect.name == "sqlite" else PostgresFullText()
