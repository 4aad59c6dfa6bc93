"""A copy of a SQLite database while a server writes to it, and the way back.

Called by `kvasir backup` and `kvasir restore`, never by a server; blocking, and outside of any event loop. The copy is one file
that stands for itself: answers that were being made are in it as `interrupted`, with everything that anybody had seen of them,
which is partly in the journal and not in SQL yet.

    journal ─copied first─► ┐
    database ─one snapshot─►┤ recovery, as after a crash ─► integrity ─► FILE
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from app import migrate
from app.clock import utc_now
from app.database import Database, async_url
from app.identifiers import new_id
from app.realtime.journal_recovery import journal_folders
from app.realtime.journal_segments import SUFFIX
from app.replicas.opening import open_replicas
from app.responses.interruption import Interruption
from app.responses.recovery import Recovery
from app.responses.storage import AnswerStorage
from app.sole_server import claimed_database

SIDE_FILES = ("-wal", "-shm")
BUSY_TIMEOUT_S = 60.0


class BackupRefused(Exception):
    """It cannot be done; the message is one sentence for people."""


@dataclass(frozen=True, slots=True)
class Backup:
    """What was written. `interrupted` is None where the database is of another version, and open answers stay as they are."""

    file: Path
    size_bytes: int
    interrupted: int | None


def make_backup(url: str, journals: Path, file: Path) -> Backup:
    """Copy a database to a file that must not be there yet. Raises BackupRefused."""
    source = _sqlite_file(url, "pg_dump")
    if file.exists():
        raise BackupRefused(f"{file} is there already; a backup overwrites nothing")
    if not source.exists():
        raise BackupRefused(f"there is no database at {source}")
    part = file.with_name(file.name + ".part")
    try:
        with TemporaryDirectory(prefix="kvasir-backup-") as name:
            copied = Path(name) / "journal"
            _copy_journals(journals, copied)
            part.unlink(missing_ok=True)
            part.touch(mode=0o600)
            _copy_database(source, part)
            interrupted = asyncio.run(_interrupt(part, copied))
        _make_one_file(part)
        _require_whole(part)
        _sync(part)
        part.rename(file)
    except (OSError, sqlite3.Error) as problem:
        raise BackupRefused(f"the backup {file} cannot be written: {problem}") from None
    finally:
        for path in (part, *(part.with_name(part.name + suffix) for suffix in SIDE_FILES)):
            path.unlink(missing_ok=True)
    return Backup(file, file.stat().st_size, interrupted)


def restore_backup(url: str, file: Path, *, replace: bool) -> Path | None:
    """Put a backup in the place of the database; where the one that was there is kept now, if there was one.

    Raises BackupRefused, also for a file that is damaged or of a newer version, and DatabaseTaken while a server runs on it.
    """
    target = _sqlite_file(url, "pg_restore")
    if not file.is_file():
        raise BackupRefused(f"there is no file {file}")
    _require_whole(file)
    _require_known_version(file)
    if target.exists() and not replace:
        raise BackupRefused(f"there is a database at {target} already; --replace puts the backup in its place")
    return asyncio.run(_claimed(url, lambda: _put(file, target)))


def _put(file: Path, target: Path) -> Path | None:
    part = target.with_name(target.name + ".part")
    try:
        part.unlink(missing_ok=True)
        part.touch(mode=0o600)
        _copy_database(file, part)
        _make_one_file(part)
        _sync(part)
        kept = _set_aside(target) if target.exists() else None
        part.rename(target)
    except (OSError, sqlite3.Error) as problem:
        raise BackupRefused(f"the backup cannot be put at {target}: {problem}") from None
    finally:
        part.unlink(missing_ok=True)
    return kept


async def _claimed(url: str, work: Callable[[], Path | None]) -> Path | None:
    async with claimed_database(url):
        return work()


def damage(file: Path) -> str | None:
    """What SQLite finds wrong with a file, in its words; None where it is whole. Reads all of it."""
    try:
        with _opened(file) as connection:
            (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            orphan = connection.execute("PRAGMA foreign_key_check").fetchone()
    except sqlite3.Error as problem:
        return str(problem)
    if found != "ok":
        return str(found)
    return None if orphan is None else f"a row of {orphan[0]} refers to one of {orphan[2]} that is not there"


def _sqlite_file(url: str, instead: str) -> Path:
    parsed = async_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        raise BackupRefused(f"the database is PostgreSQL, which has tools of its own for this: use {instead}")
    return Path(parsed.database)


def _copy_journals(journals: Path, target: Path) -> None:
    """The frames of answers that are being made. A file that goes meanwhile is not needed any more: its answers are in SQL."""
    for folder in journal_folders(journals):
        copied = target / folder.name
        copied.mkdir(parents=True)
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            try:
                shutil.copyfile(path, copied / path.name)
            except FileNotFoundError:
                continue


def _copy_database(source: Path, target: Path) -> None:
    """One snapshot, however long it takes; who writes meanwhile does not wait."""
    with _opened(source) as reading, closing(sqlite3.connect(target)) as writing:
        reading.backup(writing)


async def _interrupt(copy: Path, journals: Path) -> int | None:
    url = f"sqlite:///{str(copy).replace('%', '%25').replace('?', '%3F')}"
    if migrate.current_revision(url) != migrate.head_revision():
        return None
    database = Database(url)
    try:
        async with open_replicas("", new_id(), time.monotonic) as alone:
            storage = AnswerStorage(database)
            interruption = Interruption(database, storage, alone.logs, owner=alone.owner, now=utc_now)
            return await Recovery(database, interruption, journals, alone).run()
    finally:
        await database.close()


def _make_one_file(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")


def _require_whole(path: Path) -> None:
    if (found := damage(path)) is not None:
        raise BackupRefused(f"{path} is damaged: {found}")


def _require_known_version(path: Path) -> None:
    try:
        with _opened(path) as connection:
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error:
        row = None
    if row is None:
        raise BackupRefused(f"{path} is no backup of Kvasir: it does not say which version made it")
    if row[0] not in migrate.known_revisions():
        raise BackupRefused(f"{path} was made by a newer version of Kvasir (revision {row[0]})")


def _set_aside(database: Path) -> Path:
    """What was there is kept, with what SQLite has beside it: it may be wanted back, and it may be what is damaged."""
    number = 1
    while (kept := database.with_name(f"{database.name}.replaced-{number}")).exists():
        number += 1
    for suffix in (*SIDE_FILES, ""):
        path = database.with_name(database.name + suffix)
        if path.exists():
            path.rename(kept.with_name(kept.name + suffix))
    return kept


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """For reading. Not as a read-only file: one with a WAL cannot be read without its shared memory being written."""
    if not path.is_file():
        raise sqlite3.OperationalError("there is no such file")
    with closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_S)) as connection:
        connection.execute("PRAGMA query_only=ON")
        yield connection


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
