"""A long history of one person, written straight into the tables: for `tests.bench.history`.

Words are as frequent as in a language (Zipf): the first is in nearly every message, the last in a few of them. Every fiftieth
message has a piece in Chinese. Rows are what the application would have written, word for word.
"""

from __future__ import annotations

import bisect
import itertools
import random
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from app.conversations.full_text import owner_word
from app.conversations.words import VERSION, words_of
from app.identifiers import new_id

VOCABULARY = 30_000
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
CHINESE = ["北京", "上海", "天气", "很好", "学习", "音乐", "电影", "火车"]
BATCH = 500
BEGIN = datetime(2025, 1, 1, tzinfo=UTC)

CONVERSATION_COLUMNS = (
    "id",
    "user_id",
    "title",
    "title_source",
    "state",
    "archived",
    "tags",
    "metadata",
    "leaf_id",
    "last_ordinal",
    "version",
    "search_version",
    "created_at",
    "updated_at",
)
MESSAGE_COLUMNS = (
    "id",
    "conversation_id",
    "parent_id",
    "ordinal",
    "role",
    "content",
    "status",
    "last_seq",
    "created_at",
)
DOCUMENT_COLUMNS = ("conversation_id", "message_id", "words")
TAG_COLUMNS = ("user_id", "tag", "conversation_id")

Row = tuple[Any, ...]
Tables = dict[str, tuple[tuple[str, ...], list[Row]]]


class Language:
    """Words by rank, 0 the most frequent."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        made = ("".join(syllables) for length in (1, 2, 3) for syllables in itertools.product(SYLLABLES, repeat=length))
        self.words = list(itertools.islice(made, VOCABULARY))
        self._cumulative = list(itertools.accumulate(1 / (rank + 3) for rank in range(VOCABULARY)))

    def text(self, length: int) -> str:
        """A text of so many words."""
        total = self._cumulative[-1]
        ranks = (bisect.bisect(self._cumulative, self._random.random() * total) for _ in range(length))
        return " ".join(self.words[rank] for rank in ranks)

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def chinese(self) -> str:
        return "".join(self._random.sample(CHINESE, 3))


def batches(user_id: str, conversations: int, messages_each: int, language: Language) -> Iterator[Tables]:
    """The rows of every table, a few hundred conversations at a time, the oldest first."""
    for first in range(0, conversations, BATCH):
        tables: Tables = {
            "conversations": (CONVERSATION_COLUMNS, []),
            "messages": (MESSAGE_COLUMNS, []),
            "search_documents": (DOCUMENT_COLUMNS, []),
            "conversation_tags": (TAG_COLUMNS, []),
        }
        for number in range(first, min(first + BATCH, conversations)):
            _add_conversation(tables, user_id, number, messages_each, language)
        yield tables


def _add_conversation(tables: Tables, user_id: str, number: int, messages_each: int, language: Language) -> None:
    conversation_id, moment = new_id(), BEGIN + timedelta(minutes=number)
    owner, title = owner_word(user_id), language.text(5)
    documents = tables["search_documents"][1]
    documents.append((conversation_id, None, [owner, *words_of(title)]))
    parent_id = None
    for ordinal in range(1, messages_each + 1):
        message_id = new_id()
        content = language.text(language.number(8, 40))
        if language.number(1, 50) == 1:
            content += f" {language.chinese()}"
        role = "user" if ordinal % 2 else "assistant"
        tables["messages"][1].append(
            (message_id, conversation_id, parent_id, ordinal, role, content, "completed", 0, moment)
        )
        documents.append((conversation_id, message_id, [owner, *words_of(content)]))
        parent_id = message_id
    tags = ["all"] if number % 1000 else ["all", "rare"]
    tables["conversation_tags"][1].extend((user_id, tag, conversation_id) for tag in tags)
    json_tags = str(tags).replace("'", '"')
    fields = (conversation_id, user_id, title, "person", "bot", number % 500 == 0, json_tags, "{}", parent_id)
    tables["conversations"][1].append((*fields, messages_each, 1, VERSION, moment, moment))


def fill_sqlite(path: Path, rows: Iterator[Tables]) -> None:
    """Into a migrated database that nobody uses yet."""
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("PRAGMA cache_size=-500000")
        (trigger,) = connection.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'search_documents_insert'"
        ).fetchone()
        connection.execute("DROP TRIGGER search_documents_insert")
        for tables in rows:
            for table, (columns, values) in tables.items():
                marks = ", ".join("?" * len(columns))
                statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
                connection.executemany(statement, (tuple(map(_in_sqlite, row)) for row in values))
            connection.commit()
        connection.execute("INSERT INTO search_index (search_index) VALUES ('rebuild')")
        connection.execute(trigger)
        connection.commit()
    finally:
        connection.close()


def fill_postgres(url: str, rows: Iterator[Tables]) -> None:
    """The same with COPY; the index is made afterwards, as a restore does."""
    with psycopg.connect(url) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("DROP INDEX search_index")
        for tables in rows:
            for table, (columns, values) in tables.items():
                with connection.cursor().copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN".encode()) as copy:
                    for row in values:
                        copy.write_row(tuple(map(_in_postgres, row)))
        connection.execute("CREATE INDEX search_index ON search_documents USING gin (words)")
    with psycopg.connect(url, autocommit=True) as connection:
        # The second one finds nobody at work any more, and marks every page as visible to all, as autovacuum has after a day.
        connection.execute("VACUUM ANALYZE")
        connection.execute("VACUUM")


def _in_sqlite(value: object) -> object:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    return f" {' '.join(value)} " if isinstance(value, list) else value


def _in_postgres(value: object) -> object:
    return " ".join(f"'{word}'" for word in value) if isinstance(value, list) else value
