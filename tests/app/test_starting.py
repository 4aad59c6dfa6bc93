"""What a server does before it answers: it takes its database for itself, and brings it up to date."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest

from app import migrate
from app.file_lock import FileLocked, file_lock
from app.sole_server import DatabaseTaken, FolderTaken, claimed_database, require_unclaimed
from tests.support.client import running_app
from tests.support.redis_server import RedisServer


async def test_an_empty_data_folder_becomes_a_server(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    async with running_app(data, "") as app, app.signed_in("ann") as client:
        assert (await client.get("/api/v1/me")).status_code == 200
    url = f"sqlite:///{data / 'kvasir.sqlite3'}"
    assert migrate.check(url) == []


async def test_a_second_server_on_the_same_file_is_refused(tmp_path: Path, sqlite_url: str) -> None:
    """open-webui/open-webui#26163: two engines on one SQLite file."""
    async with running_app(tmp_path, sqlite_url) as first:
        # The framework runs its lifespan in a group of tasks, so what is raised there comes out as a group.
        with pytest.raises(ExceptionGroup) as caught:
            async with running_app(tmp_path / "other", sqlite_url):
                pass
        assert caught.group_contains(DatabaseTaken, match=r"another Kvasir server \(process \d+\)")
        async with first.anonymous() as client:
            assert (await client.get("/healthz")).status_code == 200
    async with running_app(tmp_path, sqlite_url) as again, again.anonymous() as client:
        assert (await client.get("/healthz")).status_code == 200


async def test_a_second_server_on_the_same_postgresql_is_refused_until_the_first_has_ended(
    tmp_path: Path, postgres_url: str
) -> None:
    """open-webui/open-webui#14340: more than one process without what makes them work together."""
    async with running_app(tmp_path / "a", postgres_url):
        with pytest.raises(DatabaseTaken, match="another Kvasir server uses"):
            require_unclaimed(postgres_url)
        with pytest.raises(ExceptionGroup) as caught:
            async with running_app(tmp_path / "b", postgres_url):
                pass
        assert caught.group_contains(DatabaseTaken)
    require_unclaimed(postgres_url)
    async with running_app(tmp_path / "b", postgres_url) as again, again.anonymous() as client:
        assert (await client.get("/healthz")).status_code == 200


async def test_servers_with_a_redis_share_a_database_and_one_without_is_not_let_in(
    tmp_path: Path, postgres_url: str, redis_server: RedisServer
) -> None:
    shared = {"redis_url": redis_server.url}
    async with running_app(tmp_path / "a", postgres_url, **shared), running_app(tmp_path / "b", postgres_url, **shared):
        require_unclaimed(postgres_url, is_shared=True)
        with pytest.raises(DatabaseTaken):
            require_unclaimed(postgres_url)
        with pytest.raises(ExceptionGroup) as caught:
            async with running_app(tmp_path / "a", postgres_url, **shared):
                pass
        assert caught.group_contains(FolderTaken, match="uses the data folder")
    async with running_app(tmp_path / "c", postgres_url):
        with pytest.raises(DatabaseTaken):
            require_unclaimed(postgres_url, is_shared=True)
    redis_server.empty()


async def test_a_sqlite_file_is_for_one_server_with_a_redis_too(
    tmp_path: Path, sqlite_url: str, redis_server: RedisServer
) -> None:
    async with running_app(tmp_path / "a", sqlite_url, redis_url=redis_server.url):
        with pytest.raises(DatabaseTaken):
            require_unclaimed(sqlite_url, is_shared=True)
    redis_server.empty()


async def test_a_claim_is_taken_again_after_postgresql_has_ended_its_connection(postgres_url: str) -> None:
    asleep, woken = asyncio.Queue[None](), asyncio.Queue[None]()

    async def sleep(_seconds: float) -> None:
        asleep.put_nowait(None)
        await woken.get()

    async def one_round() -> None:
        woken.put_nowait(None)
        await asleep.get()

    async with claimed_database(postgres_url, sleep=sleep):
        await asleep.get()
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks"
                " WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
            )
        await one_round()
        assert _is_free(postgres_url)
        await one_round()
        assert not _is_free(postgres_url)
    assert _is_free(postgres_url)


def _is_free(url: str) -> bool:
    try:
        require_unclaimed(url, patience_s=0.01)
    except DatabaseTaken:
        return False
    return True


def test_a_lock_says_who_has_it_and_is_free_again_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with file_lock(path, wait=False), pytest.raises(FileLocked) as caught, file_lock(path, wait=False):
        raise AssertionError("two have the lock")
    assert caught.value.holder.isdigit()
    with file_lock(path, wait=False):
        pass
