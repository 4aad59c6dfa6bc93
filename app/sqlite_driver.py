"""How SQLAlchemy talks to SQLite here: one visit to the connection's thread for each statement.

Made by `app.database`. Each connection of aiosqlite has a thread, and SQLAlchemy's adapter goes there and back four times for a
statement: to make a cursor, to execute, to fetch and to close; and once more after each commit, to roll back nothing. A turn took
60 visits, and each waits for a core while the engine computes on all of them. Results are read whole, as that adapter does too.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import aiosqlite
from sqlalchemy.dialects.sqlite.aiosqlite import (
    AsyncAdapt_aiosqlite_connection,
    AsyncAdapt_aiosqlite_cursor,
    AsyncAdapt_aiosqlite_dbapi,
)

Work = Callable[[sqlite3.Cursor], object]


class OneVisitCursor(AsyncAdapt_aiosqlite_cursor):
    """Has everything the driver's cursor knew when the statement had ended; that one is closed by then."""

    __slots__ = ("_description", "_lastrowid", "_rowcount", "arraysize")

    _adapt_connection: OneVisitConnection

    def __init__(self, adapt_connection: OneVisitConnection) -> None:
        self._adapt_connection = adapt_connection
        self._connection = adapt_connection._connection
        self._rows: deque[Any] = deque()
        self._description: Any = None
        self._rowcount = -1
        self._lastrowid: int | None = None
        self.arraysize = 1

    @property
    def description(self) -> Any:
        return self._description

    @property
    def rowcount(self) -> int:
        return self._rowcount

    @property
    def lastrowid(self) -> Any:
        return self._lastrowid

    async def _async_soft_close(self) -> None:
        pass

    def close(self) -> None:
        self._rows.clear()

    async def _execute_async(self, operation: Any, parameters: Any) -> None:
        if parameters is None:
            await self._visit(lambda cursor: cursor.execute(operation))
        else:
            await self._visit(lambda cursor: cursor.execute(operation, parameters))

    async def _executemany_async(self, operation: Any, seq_of_parameters: Sequence[Any]) -> None:
        await self._visit(lambda cursor: cursor.executemany(operation, seq_of_parameters))

    async def _visit(self, work: Work) -> None:
        driver: Any = self._connection

        def in_thread() -> tuple[Any, int, int | None, list[Any]]:
            cursor = driver._conn.cursor()
            try:
                work(cursor)
                rows = cursor.fetchall() if cursor.description else []
                return cursor.description, cursor.rowcount, cursor.lastrowid, rows
            finally:
                cursor.close()

        async with self._adapt_connection._execute_mutex:
            self._adapt_connection.is_settled = False
            self._description, self._rowcount, self._lastrowid, rows = await driver._execute(in_thread)
            self._adapt_connection.is_settled = True
            self._rows = deque(rows)


class OneVisitConnection(AsyncAdapt_aiosqlite_connection):
    """Rolls back only where there may be something to roll back."""

    __slots__ = ("is_settled",)

    _cursor_cls: type[AsyncAdapt_aiosqlite_cursor] = OneVisitCursor

    def __init__(self, dbapi: Any, connection: Any) -> None:
        super().__init__(dbapi, connection)
        self.is_settled = False
        """Whether the thread has nothing to do that was given up here, as when a request is cancelled."""

    def rollback(self) -> None:
        if not (self.is_settled and not self._connection.in_transaction):
            super().rollback()


class OneVisitDriver(AsyncAdapt_aiosqlite_dbapi):
    """For `create_async_engine(module=...)`."""

    def connect(self, *arguments: Any, **options: Any) -> OneVisitConnection:
        adapted = super().connect(*arguments, **options)
        return OneVisitConnection(self, adapted._connection)


def sqlite_driver() -> OneVisitDriver:
    return OneVisitDriver(aiosqlite, sqlite3)
