"""What answers of programs have cost is written soon after their end, and waits while the database is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.conversations.models import MessageStatus
from app.database import Database, DatabaseAway
from app.identifiers import new_id
from app.usage.late_records import TOGETHER, EndedAnswer, LateRecords
from app.usage.limits import Spender
from app.usage.models import UsageRecord

USAGE: dict[str, Any] = {"input_tokens": 3, "output_tokens": 4}


def ended() -> EndedAnswer:
    return EndedAnswer(
        response_id=new_id(),
        spender=Spender("ann", "key"),
        model="fake",
        status=MessageStatus.CANCELLED,
        usage=USAGE,
        ended_at=datetime(2026, 12, 1, tzinfo=UTC),
    )


async def count(database: Database) -> int:
    async with database.read() as session:
        return int((await session.execute(select(func.count()).select_from(UsageRecord))).scalar_one())


async def test_many_are_written_and_what_is_left_at_the_end_too(database: Database) -> None:
    records = LateRecords(database)
    task = asyncio.create_task(records.run())
    for _ in range(TOGETHER + 1):
        records.add(ended())
    await records.written()
    assert await count(database) == TOGETHER + 1
    records.add(ended())
    await records.close(task)
    assert await count(database) == TOGETHER + 2


async def test_they_wait_while_the_database_is_away(database: Database) -> None:
    class Flaky:
        away = 2

        @asynccontextmanager
        async def write(self) -> AsyncIterator[AsyncSession]:
            if self.away:
                self.away -= 1
                raise DatabaseAway("it is restarted")
            async with database.write() as session:
                yield session

    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    records = LateRecords(Flaky(), sleep=sleep)  # type: ignore[arg-type]  # all that is asked of it
    task = asyncio.create_task(records.run())
    records.add(ended())
    await records.written()
    await records.close(task)
    assert len(pauses) == 2
    assert await count(database) == 1
