"""The database as commands need it: upgraded, checked, or opened for accounts, with every failure as one sentence.

The password inside a database URL is never part of such a sentence.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from alembic.util import CommandError
from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from app import migrate
from app.accounts.administration import Administration
from app.accounts.keys import KeyService
from app.accounts.passwords import Passwords
from app.accounts.service import AccountService
from app.accounts.throttle import LoginThrottle
from app.audit.service import AuditLog
from app.cli.startup import Refused, make_data_folder
from app.clock import utc_now
from app.database import Database, DatabaseAway, DatabaseUrlError, async_url
from app.replicas.memory_rate_limits import MemoryRateLimits
from app.settings import Settings
from app.sole_server import DatabaseTaken, FolderTaken, claimed_folder, require_unclaimed


@dataclass(frozen=True, slots=True)
class People:
    """The services of accounts, where no server runs."""

    accounts: AccountService
    administration: Administration
    keys: KeyService


def upgrade_database(settings: Settings) -> None:
    """Bring the database to this version's schema; a new one is made. Raises Refused."""
    make_data_folder(settings.data)
    with database_as_sentences(settings):
        migrate.upgrade(settings.effective_database_url)


def require_only_server(settings: Settings) -> None:
    """Two servers on one database would take each other's answers for lost ones, unless they share a Redis. Raises Refused."""
    try:
        with database_as_sentences(settings):
            if settings.redis_url:
                with claimed_folder(settings.data):
                    pass
            require_unclaimed(settings.effective_database_url, is_shared=bool(settings.redis_url))
    except FolderTaken as taken:
        raise Refused(f"{taken}; each server needs one of its own (--data)") from None
    except DatabaseTaken as taken:
        raise Refused(
            f"{taken}; stop it, or give this one another database (--data, KVASIR_DATABASE_URL); "
            "several servers on one PostgreSQL database need the same KVASIR_REDIS_URL"
        ) from None


def database_differences(settings: Settings) -> list[str]:
    """What is different from what this version needs; empty when the database fits. Raises Refused."""
    require_database(settings)
    with database_as_sentences(settings):
        return migrate.check(settings.effective_database_url)


def database_damages(settings: Settings) -> list[str]:
    """What is wrong inside it; empty when it is whole. Raises Refused."""
    # Imported by the one command that needs it.
    from app.damage import damages

    with database_as_sentences(settings):
        return damages(settings.effective_database_url)


def require_database(settings: Settings) -> None:
    """Looking at a SQLite file that is not there would make it. Raises Refused."""
    with database_as_sentences(settings):
        url = async_url(settings.effective_database_url)
        is_missing = url.get_backend_name() == "sqlite" and url.database and not Path(url.database).exists()
    if is_missing:
        raise Refused(f"there is no database at {url.database}; `kvasir serve` or `kvasir db upgrade` makes it")


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[Database]:
    """An existing database. Raises Refused."""
    require_database(settings)
    with database_as_sentences(settings):
        database = Database(settings.effective_database_url, pool=1)
        try:
            yield database
        finally:
            await database.close()


@asynccontextmanager
async def open_accounts(settings: Settings) -> AsyncIterator[AccountService]:
    """The accounts of an existing database. Raises Refused."""
    async with open_administration(settings) as people:
        yield people.accounts


@asynccontextmanager
async def open_administration(settings: Settings) -> AsyncIterator[People]:
    """The same, with what is done to accounts of others. Raises Refused."""
    async with open_database(settings) as database:
        passwords = Passwords()
        try:
            throttle = LoginThrottle(MemoryRateLimits(time.monotonic))
            accounts = AccountService(database, passwords, settings, now=utc_now, throttle=throttle)
            audit = AuditLog(database, now=utc_now)
            yield People(
                accounts,
                Administration(database, accounts, passwords, audit, now=utc_now),
                KeyService(database, accounts.revocations, accounts.last_uses, audit, now=utc_now),
            )
        finally:
            passwords.close()


@contextmanager
def database_as_sentences(settings: Settings) -> Iterator[None]:
    """What a database can fail with inside the block, in one sentence each. Raises Refused."""
    try:
        yield
    except CommandError as error:
        raise Refused(
            f"the database {_shown(settings)} was made by a newer version of Kvasir, so this one cannot use it ({error})"
        ) from None
    except DatabaseAway as away:
        raise Refused(f"the database {_shown(settings)} cannot be used: {away.reason}") from None
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise Refused(f"the database {_shown(settings)} cannot be used: {reason}") from None
    except OSError as error:
        raise Refused(f"the database {_shown(settings)} cannot be used: {error.strerror}") from None
    except DatabaseUrlError as error:
        raise Refused(f"KVASIR_DATABASE_URL: {error}") from None


def _shown(settings: Settings) -> str:
    return make_url(settings.effective_database_url).render_as_string(hide_password=True)
