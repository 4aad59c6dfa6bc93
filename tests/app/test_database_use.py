"""How the application uses its database under load: short units of work, no lost rows, no error for a waiting writer."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import func, select

from app.conversations.models import Message
from app.identifiers import UserId
from tests.support.client import running_app
from tests.support.fake_engine import FakeEngine
from tests.support.live_server import eventually
from tests.support.scripts import ENDLESS
from tests.support.trees import grow

PATH = "/api/v1/conversations"
STREAMS = 50
IDLE_IN_TRANSACTION = (
    "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = current_database()"
)


async def test_fifty_streams_need_no_connection_while_they_stream(tmp_path: Path, postgres_url: str) -> None:
    """Chainlit/chainlit#2111, open-webui/open-webui#20569: a session was held during the whole stream."""
    engine = FakeEngine(answer=lambda request: ENDLESS, max_running=STREAMS)
    async with (
        running_app(tmp_path, postgres_url, engine=engine, database_pool=2) as app,
        app.signed_in("ann") as client,
    ):
        responses: list[str] = []
        for _ in range(STREAMS):
            conversation = (await client.post(PATH, json={})).json()["id"]
            said = await client.post(f"{PATH}/{conversation}/messages", json={"content": "hello"})
            responses.append(said.json()["response"]["id"])
        followed = [asyncio.create_task(client.get(f"/api/v1/responses/{found}/events")) for found in responses]
        await engine.received(STREAMS)
        # With every stream open, the rest of the API is served by the two connections there are.
        histories = await asyncio.gather(*(client.get(f"{PATH}?limit=1") for _ in range(20)))
        assert {answer.status_code for answer in histories} == {200}
        assert not any(task.done() for task in followed)
        # What looks into the database once a second may have a connection for a moment; the streams would keep theirs.
        await eventually(lambda: app.context.database.writer.pool.checkedout() == 0)  # type: ignore[attr-defined]
        with psycopg.connect(postgres_url, autocommit=True) as observer:
            await eventually(lambda: observer.execute(IDLE_IN_TRANSACTION).fetchone() == (0,))
        stopped = await asyncio.gather(*(client.post(f"/api/v1/responses/{found}/cancel") for found in responses))
        assert {answer.status_code for answer in stopped} == {200}
        ended = await asyncio.gather(*followed)
        assert all("response.cancelled" in answer.text for answer in ended)


@pytest.mark.slow
async def test_eight_writers_and_readers_and_a_backup_lose_no_row(tmp_path: Path, database_url: str) -> None:
    """open-webui/open-webui#6798, bytedance/deer-flow#3353: "database is locked" under a few writers."""
    writers, each = 8, 200
    async with running_app(tmp_path, database_url) as app, app.signed_in("ann") as client:
        database = app.context.database
        user_id = UserId((await client.get("/api/v1/me")).json()["id"])
        conversations = [(await client.post(PATH, json={})).json()["id"] for _ in range(writers)]
        statuses: set[int] = set()

        async def write(conversation_id: str) -> None:
            parent_id = None
            for number in range(each):
                (message,) = await grow(database, user_id, conversation_id, [f"message {number}"], parent_id)
                parent_id = message.id

        async def read() -> None:
            for number in range(40):
                answer = await client.get(f"{PATH}/{conversations[number % writers]}/messages")
                statuses.add(answer.status_code)

        def back_up() -> None:
            if not database.is_sqlite:
                return
            with sqlite3.connect(str(database.url.database)) as source, sqlite3.connect(tmp_path / "copy") as copy:
                source.backup(copy, pages=50)
            source.close()
            copy.close()

        await asyncio.gather(*(write(found) for found in conversations), read(), read(), asyncio.to_thread(back_up))
        assert statuses == {200}
        async with database.read() as session:
            assert await session.scalar(select(func.count()).select_from(Message)) == writers * each
