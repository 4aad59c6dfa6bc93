"""The end of an answer is written however often that takes, with pauses that grow to a bound."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from app.accounts.models import User, UserRole
from app.conversations.models import MessageStatus
from app.database import Database
from app.responses import queries
from app.responses.queries import Ending, Stored
from app.responses.storage import AnswerStorage
from app.usage.limits import Spender
from tests.support.trees import MOMENT, add_conversation

ENDING = Ending(
    response_id="00000000-0000-4000-8000-000000000000",
    owner="this server",
    message_id="00000000-0000-4000-8000-000000000001",
    conversation_id="00000000-0000-4000-8000-000000000002",
    status=MessageStatus.COMPLETED,
    finish_reason="stop",
    text="text",
    token_ids=None,
    usage={},
    error=None,
    last_seq=1,
    log=b"[]",
    started_at=None,
    ended_at=datetime(2026, 1, 1, tzinfo=UTC),
    spender=Spender("00000000-0000-4000-8000-000000000003"),
    model="fake",
)


async def test_pauses_grow_to_a_bound(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def write(session: object, ending: Ending) -> Stored:
        if len(pauses) < 8:
            raise ConnectionError("away")
        return Stored.HERE

    monkeypatch.setattr(queries, "write_ending", write)
    assert await AnswerStorage(database, sleep=sleep).end(ENDING) is Stored.HERE
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


async def test_what_was_deleted_meanwhile_is_not_written(database: Database) -> None:
    assert await AnswerStorage(database).end(ENDING) is Stored.GONE


async def test_what_a_database_that_was_set_back_has_lost_is_not_tried_for_ever(database: Database) -> None:
    async with database.write() as session:
        user = User(
            id=ENDING.message_id,
            username="ann",
            role=UserRole.USER,
            password_hash=None,
            created_at=MOMENT,
            disabled_at=None,
        )
        session.add(user)
        await session.flush()
        conversation = await add_conversation(session, user.id)
    ending = replace(ENDING, conversation_id=conversation.id)
    async with asyncio.timeout(10):
        assert await AnswerStorage(database).end(ending) is Stored.GONE


async def test_growth_that_cannot_be_written_is_no_disaster(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def write(session: object, growth: object) -> None:
        raise ConnectionError("away")

    monkeypatch.setattr(queries, "write_growth", write)
    assert not await AnswerStorage(database).grow([object()])  # type: ignore[list-item]  # nobody looks inside
