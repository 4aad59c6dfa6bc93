"""The database: where its connections come from and what every table has in common.

SQLite gets two engines, because a read that turns into a write fails under load whatever the busy timeout: `reader` with
several connections that cannot write, and `writer` with exactly one that takes the write lock at BEGIN. On PostgreSQL both
names share one pool. A unit of work is short: never hold one while an answer streams.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any

import structlog
from sqlalchemy import DateTime, Dialect, MetaData, event, make_url, text
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionFree
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase
from sqlalchemy.types import TypeDecorator

from app.errors import Unavailable
from app.sqlite_driver import sqlite_driver

logger = structlog.stdlib.get_logger(__name__)

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
"""Every constraint has a name from revision 1 on, because SQLite's batch mode cannot drop an unnamed one."""


ENGINE_OPTIONS: dict[str, Any] = {
    "max_overflow": 0,
    # The parameters of a failing statement are what people wrote, and an error's text goes into the log.
    "hide_parameters": True,
}


SQLITE_AWAY = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN}
)
"""What SQLite says when it cannot get at its file or has no room for more; its other errors are faults of a statement."""

PARAMETERS_MAX = 500
"""Values in one statement: well below what any version of either database takes."""

TOPICS = "topics"
"""Where a unit of work keeps what is told after its commit."""

RETRY_AWAY_S = 2
"""A restart of PostgreSQL takes a few seconds."""


class DatabaseUrlError(ValueError):
    """A database URL that cannot be one of ours."""


class DatabaseAway(Unavailable):
    """The database does not answer, or did not get to it: it is restarted, its disk is full, somebody holds its lock."""

    code = "database_unavailable"

    def __init__(self, reason: str) -> None:
        super().__init__("the database does not answer now", retry_after_s=RETRY_AWAY_S)
        self.reason = reason
        self.retry_after_s = RETRY_AWAY_S


class UTCDateTime(TypeDecorator[datetime]):
    """A moment in UTC with microseconds, the same on both databases; a naive datetime is refused."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"expected a datetime with a time zone, got {value!r}")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """Base of all tables."""

    metadata = MetaData(naming_convention=NAMING)


class Database:
    """Owns the connection pools. `read()` and `write()` open one unit of work each; `write()` commits when its block ends."""

    def __init__(self, url: str, *, pool: int = 4) -> None:
        self.url = async_url(url)
        self._listeners: dict[str, list[Callable[[], None]]] = {}
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        if self.is_sqlite:
            self.reader = create_async_engine(self.url, module=sqlite_driver(), pool_size=pool, **ENGINE_OPTIONS)
            self.writer = create_async_engine(self.url, module=sqlite_driver(), pool_size=1, **ENGINE_OPTIONS)
            _prepare_sqlite(self.reader, read_only=True)
            _prepare_sqlite(self.writer, read_only=False)
        else:
            self.writer = create_async_engine(self.url, pool_size=pool, pool_pre_ping=True, **ENGINE_OPTIONS)
            # The same pool. Without this, two statements of one unit of work could see two different moments.
            self.reader = self.writer.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    def on_committed(self, topic: str, listener: Callable[[], None]) -> None:
        """Have `listener` told of every commit that has told so by `tell_after_commit`. It must not block and must not raise."""
        self._listeners.setdefault(topic, []).append(listener)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncSession]:
        """A consistent view for reading; nothing is written, and rows stay usable after the block. Raises DatabaseAway."""
        with _away_is_unavailable():
            async with AsyncSession(self.reader, expire_on_commit=False) as session, session.begin():
                yield session

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncSession]:
        """One transaction; it is durable when the block has ended without an exception, and gone otherwise.

        Raises DatabaseAway. When that happens at the very end, the transaction may be durable all the same.
        """
        with _away_is_unavailable():
            async with AsyncSession(self.writer, expire_on_commit=False) as session, session.begin():
                yield session
        for topic in session.info.get(TOPICS, ()):
            for listener in self._listeners.get(topic, ()):
                listener()

    async def ping(self) -> None:
        """Ask the database for nothing. Raises whatever keeps it from answering."""
        async with self.read() as session:
            await session.execute(text("SELECT 1"))

    async def checkpoint(self) -> None:
        """On SQLite: write the log into the file and begin it anew, as far as nobody reads from it now."""
        if self.is_sqlite:
            with _away_is_unavailable():
                async with self.writer.connect() as connection:
                    # Below SQLAlchemy, which would begin a transaction, and in one there is no checkpoint.
                    driver: Any = (await connection.get_raw_connection()).driver_connection
                    await driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    async def close(self) -> None:
        """Give every connection back."""
        await self.writer.dispose()
        if self.is_sqlite:
            await self.reader.dispose()


def tell_after_commit(session: AsyncSession, topic: str) -> None:
    """Once this unit of work is durable, whoever waits for the topic is told: see `Database.on_committed`."""
    session.info.setdefault(TOPICS, set()).add(topic)


async def insert_if_absent(session: AsyncSession, model: type[Base], values: Mapping[str, object]) -> bool:
    """Insert one row unless a unique constraint is in the way; say whether it was inserted.

    On PostgreSQL this waits for another transaction that inserts the same row, and then knows how that one ended.
    """
    insert = sqlite_insert if session.get_bind().dialect.name == "sqlite" else postgresql_insert
    statement = insert(model).values(dict(values)).on_conflict_do_nothing()
    result = await session.execute(statement.returning(*model.__mapper__.primary_key))
    return result.first() is not None


def chunks(values: Collection[str]) -> Iterator[Sequence[str]]:
    """Values in pieces that any database takes as parameters of one statement."""
    ordered = list(values)
    for start in range(0, len(ordered), PARAMETERS_MAX):
        yield ordered[start : start + PARAMETERS_MAX]


@contextmanager
def _away_is_unavailable() -> Iterator[None]:
    """Raises DatabaseAway for what is nobody's fault here and may be possible later."""
    try:
        yield
    except (OperationalError, InterfaceError, NoConnectionFree) as problem:
        cause = getattr(problem, "orig", None)
        # The low byte is the error; the rest of the number says more about it.
        if isinstance(cause, sqlite3.Error) and cause.sqlite_errorcode & 0xFF not in SQLITE_AWAY:
            raise
        reason = str(cause or problem).strip().partition("\n")[0]
        logger.warning("database_away", error=type(cause or problem).__name__, reason=reason)
        raise DatabaseAway(reason) from problem


def async_url(url: str) -> URL:
    """The same database with the driver the server uses. Raises DatabaseUrlError for any but PostgreSQL and files of SQLite."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # Their messages may quote the password.
        raise DatabaseUrlError("expected a database URL like postgresql://user:password@host/database") from None
    drivers = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
    backend = parsed.drivername.partition("+")[0]
    if backend not in drivers:
        raise DatabaseUrlError(f"expected a database URL of sqlite or postgresql, got {backend!r}")
    if backend == "sqlite" and parsed.database in (None, "", ":memory:"):
        # Each of our connections would see a memory of its own.
        raise DatabaseUrlError("expected a file, as in sqlite:///path/to/kvasir.sqlite3")
    return parsed.set(drivername=drivers[backend])


def _prepare_sqlite(engine: AsyncEngine, *, read_only: bool) -> None:
    """Pragmas for every new connection, and our own BEGIN, because sqlite3's is too late to take the write lock."""

    @event.listens_for(engine.sync_engine, "connect")
    def on_connect(connection: Any, record: Any) -> None:
        connection.isolation_level = None
        cursor: sqlite3.Cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        # FULL: an acknowledged message survives a power cut, not only a killed process.
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA busy_timeout=10000")
        # What is deleted is overwritten, and not only out of reach.
        cursor.execute("PRAGMA secure_delete=ON")
        if read_only:
            cursor.execute("PRAGMA query_only=ON")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def on_begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
