"""What a server does before it answers: it takes its database for itself, and brings it up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from app import migrate
from app.file_lock import FileLocked, file_lock
from tests.support.client import running_app


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
        assert caught.group_contains(FileLocked, match="locked by process")
        async with first.anonymous() as client:
            assert (await client.get("/healthz")).status_code == 200
    async with running_app(tmp_path, sqlite_url) as again, again.anonymous() as client:
        assert (await client.get("/healthz")).status_code == 200


async def test_two_servers_share_a_postgresql(tmp_path: Path, postgres_url: str) -> None:
    async with (
        running_app(tmp_path / "a", postgres_url) as one,
        running_app(tmp_path / "b", postgres_url) as two,
        one.signed_in("ann") as client,
        two.anonymous() as other,
    ):
        other.headers["Authorization"] = client.headers["Authorization"]
        assert (await other.get("/api/v1/me")).json()["username"] == "ann"


def test_a_lock_says_who_has_it_and_is_free_again_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with file_lock(path, wait=False), pytest.raises(FileLocked) as caught, file_lock(path, wait=False):
        raise AssertionError("two have the lock")
    assert caught.value.holder.isdigit()
    with file_lock(path, wait=False):
        pass
