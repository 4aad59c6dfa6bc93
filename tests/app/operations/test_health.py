"""`/healthz` and `/readyz`."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.database import Database
from tests.support.client import RunningApp, problem, running_app
from tests.support.fake_engine import FakeEngine


async def test_a_server_that_takes_work_says_so_to_anybody(running: RunningApp) -> None:
    async with running.anonymous() as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()) == (200, {"status": "ready"})


async def test_while_the_model_loads_it_lives_and_is_not_ready(tmp_path: Path, sqlite_url: str) -> None:
    engine = FakeEngine(ready=False)
    async with running_app(tmp_path, sqlite_url, engine=engine) as app, app.anonymous() as client:
        assert (await client.get("/healthz")).status_code == 200
        answer = await client.get("/readyz")
        assert problem(answer, 503, "unavailable")["reasons"] == ["the model is loading"]
        assert answer.headers["retry-after"]
        engine.become_ready()
        assert (await client.get("/readyz")).status_code == 200


async def test_monitors_that_want_no_body_get_the_same_status(tmp_path: Path, sqlite_url: str) -> None:
    engine = FakeEngine(ready=False)
    async with running_app(tmp_path, sqlite_url, engine=engine) as app, app.anonymous() as client:
        loading = await client.head("/readyz")
        assert (loading.status_code, loading.content, loading.headers["retry-after"]) == (503, b"", "2")
        engine.become_ready()
        for probe in ("/healthz", "/readyz"):
            answer = await client.head(probe)
            assert (answer.status_code, answer.content) == (200, b"")


async def test_while_it_shuts_down_it_is_not_ready(running_on_sqlite: RunningApp) -> None:
    running_on_sqlite.context.readiness.drain()
    async with running_on_sqlite.anonymous() as client:
        assert (await client.get("/healthz")).status_code == 200
        assert "shutting down" in problem(await client.get("/readyz"), 503, "unavailable")["detail"]


async def test_without_its_redis_it_is_ready_all_the_same_and_says_so(tmp_path: Path, sqlite_url: str) -> None:
    nowhere = "redis://127.0.0.1:1/0"
    async with running_app(tmp_path, sqlite_url, redis_url=nowhere) as app, app.anonymous() as client:
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()["status"]) == (200, "ready")
        assert "Redis does not answer" in answer.json()["degraded"][0]


async def test_without_its_database_it_lives_and_is_not_ready(
    running_on_sqlite: RunningApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: Database) -> None:
        raise OSError("postgresql://user:canary@db")

    monkeypatch.setattr(Database, "ping", fail)
    async with running_on_sqlite.anonymous() as client:
        assert (await client.get("/healthz")).status_code == 200
        answer = await client.get("/readyz")
        assert problem(answer, 503, "unavailable")["reasons"] == ["the database does not answer"]
        assert "canary" not in answer.text
