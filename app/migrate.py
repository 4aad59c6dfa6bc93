"""Brings a database to the schema of this version: called at every start and by `kvasir db`, never while requests run.

Several processes may start at once: one upgrades, the others wait and then find nothing to do. On PostgreSQL an advisory lock
sees to that, for SQLite a locked file beside the database. An upgrade is one transaction on both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, event, text
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

import migrations
from app.database import async_url
from app.file_lock import file_lock
from app.tables import METADATA

ADVISORY_LOCK = 0x6B766173697200
"""A number nobody else uses in the same PostgreSQL database: "kvasir" in ASCII, shifted by one byte."""

LOCK_TIMEOUT_S = 60
"""How long an upgrade waits for a writer of a SQLite database before it gives up."""


def upgrade(url: str, revision: str = "head") -> None:
    """Upgrade to a revision, or do nothing where the database is there already. Makes the SQLite file and its folder."""
    with locked_connection(url) as connection:
        command.upgrade(alembic_config(connection), revision)


def downgrade(url: str, revision: str) -> None:
    """Take the schema back to a revision; `base` drops every table. For tests and for operators who know why."""
    with locked_connection(url) as connection:
        command.downgrade(alembic_config(connection), revision)


def current_revision(url: str) -> str | None:
    """The revision the database is at; None for an empty one."""
    with _connection(url) as connection:
        return MigrationContext.configure(connection).get_current_revision()


def head_revision() -> str:
    """The revision this version of the server needs."""
    head = ScriptDirectory.from_config(alembic_config(None)).get_current_head()
    if head is None:
        raise RuntimeError(f"expected migrations in {_folder()}, found none")
    return head


def known_revisions() -> set[str]:
    """Every revision this version can upgrade from."""
    return {script.revision for script in ScriptDirectory.from_config(alembic_config(None)).walk_revisions()}


def check(url: str) -> list[str]:
    """What is different from what this version needs, one sentence each; empty when the database fits."""
    current, head = current_revision(url), head_revision()
    if current is not None and current not in known_revisions():
        return [f"the database is at revision {current}, which this version does not know: a newer Kvasir made it"]
    if current != head:
        return [f"the database is at revision {current or 'none'}, this version needs {head}: run `kvasir db upgrade`"]
    with _connection(url) as connection:
        options = {"target_metadata": METADATA, "include_name": is_ours}
        context = MigrationContext.configure(connection, opts=options)
        return [f"the schema differs: {difference}" for difference in compare_metadata(context, METADATA)]


def is_ours(name: str | None, kind: str, parents: Mapping[str, str | None]) -> bool:
    """Whether the models know of such a thing. The full-text index they do not, because no two databases have it alike: an index
    of PostgreSQL, and on SQLite a table that makes further ones."""
    return name is None or kind not in ("table", "index") or not name.startswith("search_index")


def _folder() -> Path:
    return Path(migrations.__path__[0])


def alembic_config(connection: Connection | None) -> Config:
    """Alembic's configuration, made here and not read from a file, so that it works from an installed package."""
    config = Config()
    # ConfigParser reads % as the begin of a variable.
    config.set_main_option("script_location", str(_folder()).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["include_name"] = is_ours
    return config


@contextmanager
def locked_connection(url: str) -> Iterator[Connection]:
    """The only connection that migrates at this time, in one transaction; others wait here."""
    parsed = async_url(url)
    with ExitStack() as stack:
        if parsed.get_backend_name() == "sqlite" and parsed.database:
            database = Path(parsed.database)
            database.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(file_lock(database.with_name(database.name + ".migrate.lock"), wait=True))
            # What people say is for its owner's eyes, also in a folder that others may look into. SQLite gives the files it
            # puts beside this one the same rights.
            database.touch(mode=0o600, exist_ok=True)
        connection = stack.enter_context(_connection(url))
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": ADVISORY_LOCK})
        yield connection


@contextmanager
def _connection(url: str) -> Iterator[Connection]:
    """One connection with one transaction, committed at the end of the block."""
    engine = create_engine(sync_url(url), poolclass=NullPool)
    if engine.dialect.name == "sqlite":

        @event.listens_for(engine, "connect")
        def on_connect(connection, record):  # type: ignore[no-untyped-def]
            # Our own BEGIN, because sqlite3's would leave DDL outside of the transaction. Foreign keys stay unchecked, since
            # batch mode replaces whole tables.
            connection.isolation_level = None
            connection.execute(f"PRAGMA busy_timeout={LOCK_TIMEOUT_S * 1000}")
            # Here and not when requests run, because several connections that change the mode at once lock each other out.
            connection.execute("PRAGMA journal_mode=WAL")

        @event.listens_for(engine, "begin")
        def on_begin(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def sync_url(url: str) -> URL:
    """The same database with a driver that needs no event loop."""
    parsed = async_url(url)
    return parsed.set(drivername="sqlite" if parsed.get_backend_name() == "sqlite" else parsed.drivername)
