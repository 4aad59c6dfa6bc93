"""How a database is asked for documents that have all of some words: SQLite by FTS5, PostgreSQL by tsvector, both alike.

Used by `listing`. Each way has two questions, because neither database answers both quickly: whether one document, which is at
hand, has the words, and which of all documents have them. Words come from `words` and hold nothing that is an operator here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Select, String, and_, cast, column, func, literal, select, table
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

    def conversations(self, user_id: str, words: Sequence[str]) -> Select[str]:
        """The ids of the person's conversations with such a document, found by the full-text index; some more than once."""


class SQLiteFullText:
    """FTS5, and for a row at hand a look into its text, which is much quicker than asking the index about one row."""

    def has(self, words: Sequence[str]) -> ColumnElement[bool]:
        return and_(*(func.instr(SearchDocument.words, literal(f" {word} ", String)) > 0 for word in words))

    def conversations(self, user_id: str, words: Sequence[str]) -> Select[str]:
        match = " AND ".join(f'"{word}"' for word in (owner_word(user_id), *words))
        index = table("search_index", column("rowid"), column("search_index"))
        numbers = select(index.c.rowid).where(index.c.search_index.op("MATCH")(literal(match, String)))
        return select(SearchDocument.conversation_id).where(SearchDocument.number.in_(numbers))


class PostgresFullText:
    """A tsvector and its GIN index."""

    def has(self, words: Sequence[str]) -> ColumnElement[bool]:
        # As an expression, so that the index is left alone: for a row at hand it would look up everything that has the words.
        at_hand = func.coalesce(SearchDocument.words, SearchDocument.words)
        return at_hand.op("@@", is_comparison=True)(self._query(words))

    def conversations(self, user_id: str, words: Sequence[str]) -> Select[str]:
        query = self._query((owner_word(user_id), *words))
        return select(SearchDocument.conversation_id).where(SearchDocument.words.op("@@", is_comparison=True)(query))

    @staticmethod
    def _query(words: Sequence[str]) -> ColumnElement[Any]:
        return cast(literal(" & ".join(f"'{word}'" for word in words), String), TSQUERY)


def full_text(session: AsyncSession) -> FullText:
    """The way of this database."""
    return SQLiteFullText() if session.get_bind().dialect.name == "sqlite" else PostgresFullText()
