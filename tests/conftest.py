"""Fixtures of the whole suite. A test that takes `database_url` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.database import Database
from tests.support.client import RunningApp, running_app
from tests.support.clock import SteppedClock
from tests.support.database import PostgresDatabases, SQLiteDatabases
from tests.support.postgres import PostgresCluster
from tests.support.redis_server import RedisServer

if TYPE_CHECKING:
    from engine.model.loader import LoadedModel

# One thread for the tensors of a test: several test processes share the cores, and threads that wait for each other inside
# one multiplication would wait for somebody else's test. Read when torch is imported; a server under test sets its own.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# And those of a test that asks for more should not spin while they wait.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

LONGEST_FIRST = [
    "tests/e2e/test_kill.py",
    "tests/e2e/browser/test_random_moments.py",
    "tests/app/test_openapi_fuzz.py",
    "tests/laws/test_planted_bugs.py",
    "tests/laws/test_exact.py",
    "tests/laws/test_random_operations.py",
    "tests/engine/model/test_quantised_decoder.py",
    "tests/e2e/test_kv_on_disk.py",
    "tests/app/cli/test_commands.py",
    "tests/app/cli/test_chat.py",
]
"""Several processes take one file after the other. What takes long begins first, so that none is left with it at the end."""

BACKENDS = [pytest.param("sqlite"), pytest.param("postgresql", marks=pytest.mark.postgres)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], len(order)))


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[PostgresCluster]:
    """One PostgreSQL for the session, started when the first test asks for it."""
    cluster = PostgresCluster()
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def postgres_databases(postgres_cluster: PostgresCluster) -> PostgresDatabases:
    return PostgresDatabases(postgres_cluster)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One Redis for the session, started when the first test asks for it. Who restarts it takes one of his own."""
    server = RedisServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def sqlite_databases(tmp_path_factory: pytest.TempPathFactory) -> SQLiteDatabases:
    return SQLiteDatabases(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture
def sqlite_url(sqlite_databases: SQLiteDatabases, tmp_path: Path) -> str:
    """A migrated SQLite database of this test's own."""
    return sqlite_databases.create(tmp_path)


@pytest.fixture
def postgres_url(postgres_databases: PostgresDatabases) -> Iterator[str]:
    """A migrated PostgreSQL database of this test's own."""
    url = postgres_databases.create()
    yield url
    postgres_databases.give_back(url)


@pytest.fixture(params=BACKENDS)
def database_url(request: pytest.FixtureRequest) -> str:
    """A migrated database of this test's own; the test runs once per kind."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """An open database of this test's own."""
    database = Database(database_url)
    yield database
    await database.close()


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
async def running(tmp_path: Path, database_url: str, clock: SteppedClock) -> AsyncIterator[RunningApp]:
    """The application, on both databases, with an engine that answers when told."""
    async with running_app(tmp_path, database_url, clock=clock) as app:
        yield app


@pytest.fixture
async def running_on_sqlite(tmp_path: Path, sqlite_url: str, clock: SteppedClock) -> AsyncIterator[RunningApp]:
    """The same on SQLite only, for what ends before the database."""
    async with running_app(tmp_path, sqlite_url, clock=clock) as app:
        yield app


# The model's modules are imported by the fixtures: importing torch takes a second that most test files need not pay.


@pytest.fixture(scope="session")
def bundled_folder() -> Path:
    """The folder of the bundled model; fetched once per machine."""
    from tests.support.models import bundled_model_folder

    return bundled_model_folder()


@pytest.fixture(scope="session")
def bundled_model() -> LoadedModel:
    """The bundled model, loaded once for the session."""
    from tests.support.models import load_bundled_model

    return load_bundled_model()


@pytest.fixture(scope="session")
def bundled_model_in_transformers() -> Any:
    """What transformers makes of the same file."""
    from tests.support.models import load_bundled_model_in_transformers

    return load_bundled_model_in_transformers()
