"""SQLite by one visit to its thread for each statement: how many there are, and what holds after each way one can end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError, OperationalError

from app.database import Database


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = Database(f"sqlite:///{tmp_path}/things.sqlite3", pool=1)
    async with database.write() as session:
        await session.execute(text("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT UNIQUE)"))
    async with database.read() as session:
        await session.execute(text("SELECT 1"))  # both engines have their connection
    yield database
    await database.close()


@pytest.fixture
def visits(database: Database, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the connections' threads were asked for."""
    visits: list[Any] = []
    execute = aiosqlite.Connection._execute

    async def counted(self: aiosqlite.Connection, work: Any, *arguments: Any, **options: Any) -> Any:
        visits.append(work)
        return await execute(self, work, *arguments, **options)

    monkeypatch.setattr(aiosqlite.Connection, "_execute", counted)
    return visits


async def names(database: Database) -> list[str]:
    async with database.read() as session:
        return [*(await session.execute(text("SELECT name FROM things ORDER BY id"))).scalars()]


async def insert(database: Database, *values: str) -> None:
    async with database.write() as session:
        for value in values:
            await session.execute(text("INSERT INTO things (name) VALUES (:name)"), {"name": value})


async def test_a_unit_of_work_visits_for_its_begin_its_statements_and_its_end(
    database: Database, visits: list[Any]
) -> None:
    await insert(database, "a", "b")
    assert len(visits) == 4
    visits.clear()
    assert await names(database) == ["a", "b"]
    assert len(visits) == 3


async def test_what_a_statement_says_of_itself_arrives(database: Database) -> None:
    async with database.write() as session:
        many = [{"name": f"thing {number}"} for number in range(700)]
        await session.execute(text("INSERT INTO things (name) VALUES (:name)"), many)
        returned = await session.execute(text("INSERT INTO things (name) VALUES ('last') RETURNING id, name"))
        assert returned.keys() == ["id", "name"]
        assert returned.one() == (701, "last")
        deleted: Any = await session.execute(text("DELETE FROM things WHERE id > 3"))
        assert deleted.rowcount == 698
    async with database.read() as session:
        found = await session.execute(text("SELECT id FROM things ORDER BY id"))
        assert found.fetchmany(2) == [(1,), (2,)]
        assert found.fetchone() == (3,)
        assert found.fetchone() is None
        assert (await session.execute(text("SELECT id FROM things WHERE id > 100"))).all() == []
    async with database.reader.connect() as connection, connection.stream(text("SELECT id FROM things")) as streamed:
        assert [row.id async for row in streamed] == [1, 2, 3]


async def test_a_statement_that_fails_takes_its_unit_of_work_with_it_and_nothing_else(database: Database) -> None:
    await insert(database, "a")
    with pytest.raises(IntegrityError):
        await insert(database, "b", "a")
    with pytest.raises(OperationalError):
        async with database.read() as session:
            await session.execute(text("SELECT nothing FROM nowhere"))
    with pytest.raises(OperationalError, match="readonly"):
        async with database.read() as session:
            await session.execute(text("DELETE FROM things"))
    assert await names(database) == ["a"]
    await insert(database, "c")
    assert await names(database) == ["a", "c"]


async def test_who_is_cancelled_in_the_middle_leaves_no_transaction_behind(database: Database) -> None:
    """The thread goes on with what it was asked for; nobody waits for it, and nothing of it stays."""
    begun, may_end = threading.Event(), threading.Event()

    def held() -> int:
        begun.set()
        assert may_end.wait(10)
        return 1

    async def work() -> None:
        async with database.write() as session:
            raw = await (await session.connection()).get_raw_connection()
            driver: Any = raw.driver_connection
            await driver.create_function("held", 0, held)
            await session.execute(text("INSERT INTO things (name) VALUES ('never')"))
            await session.execute(text("SELECT held()"))

    task = asyncio.create_task(work())
    assert await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    asyncio.get_running_loop().call_soon(may_end.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    await insert(database, "after")
    assert await names(database) == ["after"]
