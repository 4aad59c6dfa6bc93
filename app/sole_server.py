"""One server per database: two would take each other's answers for those of a process that has died. Servers that share a Redis
know of each other, so they may share a PostgreSQL database too; a server without Redis and one with it may not.

Used by `app.context`, which holds the claim while the server lives, and by `kvasir serve`, which asks before anything starts.
For SQLite the claim is a locked file beside the database, on PostgreSQL an advisory lock of a connection of its own; both are
gone with the process, however it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import structlog
from sqlalchemy import TextClause, create_engine, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from app.database import async_url
from app.file_lock import FileLocked, file_lock
from app.migrate import sync_url

logger = structlog.stdlib.get_logger(__name__)

ADVISORY_LOCK = 0x6B766173697201
"""The neighbour of the number under which upgrades wait for each other."""

TAKE_LOCK = text("SELECT pg_advisory_lock(:number)").bindparams(number=ADVISORY_LOCK)
TAKE_SHARED_LOCK = text("SELECT pg_advisory_lock_shared(:number)").bindparams(number=ADVISORY_LOCK)

PATIENCE_S = 2.0
"""PostgreSQL takes a moment to see that a killed server is gone; the one started in its place waits that long."""

CHECK_INTERVAL_S = 5.0
"""How soon the claim is renewed after PostgreSQL was restarted, which ends all locks."""

Sleep = Callable[[float], Awaitable[None]]


class DatabaseTaken(Exception):
    """Another server has claimed this database."""

    def __init__(self, database: str, holder: str = "") -> None:
        process = f" (process {holder})" if holder else ""
        super().__init__(f"another Kvasir server{process} uses the database {database}")


class FolderTaken(Exception):
    """Another server has claimed this data folder."""

    def __init__(self, folder: Path, holder: str = "") -> None:
        super().__init__(f"another Kvasir server (process {holder or 'unknown'}) uses the data folder {folder}")


@contextmanager
def claimed_folder(folder: Path) -> Iterator[None]:
    """Hold a data folder for the length of the block: servers that share everything else have a journal and KV of their own.
    Raises FolderTaken."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with file_lock(folder / "server.lock", wait=False):
            yield
    except FileLocked as locked:
        raise FolderTaken(folder, locked.holder) from None


def require_unclaimed(url: str, *, is_shared: bool = False, patience_s: float = PATIENCE_S) -> None:
    """Raises DatabaseTaken when a server runs on this database now, or with `is_shared` one that does not share it. A SQLite
    file that does not exist is free."""
    parsed = async_url(url)
    if parsed.get_backend_name() == "sqlite":
        if parsed.database and Path(parsed.database).parent.is_dir():
            try:
                with file_lock(_lock_file(parsed.database), wait=False):
                    pass
            except FileLocked as locked:
                raise DatabaseTaken(parsed.database, locked.holder) from None
        return
    engine = create_engine(sync_url(url), poolclass=NullPool, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.execute(_lock_timeout(patience_s))
            connection.execute(TAKE_SHARED_LOCK if is_shared else TAKE_LOCK)
    except OperationalError as problem:
        if _is_taken(problem):
            raise DatabaseTaken(parsed.render_as_string(hide_password=True)) from None
        raise
    finally:
        engine.dispose()


@asynccontextmanager
async def claimed_database(
    url: str, *, is_shared: bool = False, patience_s: float = PATIENCE_S, sleep: Sleep = asyncio.sleep
) -> AsyncIterator[None]:
    """Hold the claim for the length of the block; with `is_shared` beside others that share it, which on SQLite nobody can.
    Makes the folder of a SQLite file. Raises DatabaseTaken."""
    parsed = async_url(url)
    if parsed.get_backend_name() == "sqlite":
        if not parsed.database:
            yield
            return
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        try:
            with file_lock(_lock_file(parsed.database), wait=False):
                yield
        except FileLocked as locked:
            raise DatabaseTaken(parsed.database, locked.holder) from None
        return
    engine = create_async_engine(parsed, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    take_lock = TAKE_SHARED_LOCK if is_shared else TAKE_LOCK
    claim = _PostgresClaim(engine, take_lock, parsed.render_as_string(hide_password=True), patience_s)
    try:
        await claim.take()
        keeping = asyncio.create_task(claim.keep(sleep))
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])
    finally:
        await claim.drop()
        await engine.dispose()


class _PostgresClaim:
    """A connection that has the advisory lock; in autocommit, so that it never sits idle in a transaction."""

    def __init__(self, engine: AsyncEngine, take_lock: TextClause, database: str, patience_s: float) -> None:
        self._engine = engine
        self._take_lock = take_lock
        self._database = database
        self._patience_s = patience_s
        self._connection: AsyncConnection | None = None

    async def take(self) -> None:
        """Connect and lock. Raises DatabaseTaken, or SQLAlchemyError when the database cannot be reached."""
        self._connection = await self._engine.connect()
        try:
            await self._connection.execute(_lock_timeout(self._patience_s))
            await self._connection.execute(self._take_lock)
        except OperationalError as problem:
            await self.drop()
            if _is_taken(problem):
                raise DatabaseTaken(self._database) from None
            raise

    async def keep(self, sleep: Sleep) -> None:
        """Notice a lost connection and take the claim again, until cancelled."""
        while True:
            await sleep(CHECK_INTERVAL_S)
            try:
                if self._connection is None:
                    await self.take()
                    logger.info("database_claimed_again")
                else:
                    await self._connection.execute(text("SELECT 1"))
            except DatabaseTaken as taken:
                # Both would go on making answers, so it is said until a person ends one of them.
                logger.error("database_taken", error=str(taken))
            except (SQLAlchemyError, OSError) as problem:
                await self.drop()
                logger.warning("database_claim_lost", error=type(problem).__name__)

    async def drop(self) -> None:
        """Give the connection back, whatever state it is in."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.invalidate()
            await connection.close()


def _is_taken(problem: OperationalError) -> bool:
    """Whether this is the lock's time-out and no other trouble."""
    # Imported by who has such a database: it takes a tenth of a second of every start.
    from psycopg.errors import LockNotAvailable

    return isinstance(problem.orig, LockNotAvailable)


def _lock_timeout(seconds: float) -> TextClause:
    return text(f"SET lock_timeout = {max(1, round(seconds * 1000))}")


def _lock_file(database: str) -> Path:
    return Path(database + ".server.lock")
