"""A copy of the database that was made while people wrote to it, and what a server makes of it later."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from app import backup, migrate
from app.backup import BackupRefused, make_backup, restore_backup
from app.cli import main
from app.settings import Settings
from app.sole_server import DatabaseTaken, claimed_database
from tests.app.responses.chat import Chat, open_chat
from tests.support.client import PASSWORD
from tests.support.scripts import ENDLESS


@asynccontextmanager
async def restored(data: Path, file: Path) -> AsyncIterator[Chat]:
    """A server of its own on what was restored."""
    url = Settings(data=data).effective_database_url
    await asyncio.to_thread(data.mkdir)
    await asyncio.to_thread(restore_backup, url, file, replace=False)
    async with open_chat(data, url, is_new=False) as chat:
        yield chat


async def test_a_backup_of_a_running_server_has_everything_that_anybody_had_seen(
    tmp_path: Path, sqlite_url: str
) -> None:
    file = tmp_path / "kvasir.backup"
    async with open_chat(tmp_path, sqlite_url, message_flush_s=1000) as chat:
        ended = await chat.turn("hello")
        chat.engine.queue_script(ENDLESS)
        said = await chat.say("go on")
        await chat.engine.received(2)
        await chat.shown(said["response"]["id"], " tick tock tick")
        made = await asyncio.to_thread(make_backup, sqlite_url, tmp_path / "journal", file)
        assert (made.file, made.interrupted) == (file, 1)
        # Here it goes on.
        await chat.shown(said["response"]["id"], " tick tock tick tock")
        conversation = chat.id
    assert file.stat().st_mode & 0o077 == 0
    assert [path.name for path in tmp_path.glob("kvasir.backup*")] == ["kvasir.backup"]  # noqa: ASYNC240 - the same
    async with restored(tmp_path / "other", file) as chat:
        chat.id = conversation
        messages = await chat.messages()
        assert messages[1]["content"] == ended["content"]
        assert (messages[-1]["status"], messages[-1]["content"]) == ("interrupted", " tick tock tick")
        log = await chat.events(said["response"]["id"])
        assert [frame["seq"] for frame in log] == list(range(1, len(log) + 1))
        assert log[-1]["type"] == "response.interrupted"
        assert (await chat.turn("and life goes on"))["status"] == "completed"
    assert migrate.check(Settings(data=tmp_path / "other").effective_database_url) == []


async def test_a_backup_made_while_many_write_is_whole(tmp_path: Path, sqlite_url: str) -> None:
    """open-webui/open-webui#6798: a backup while others write."""
    async with open_chat(tmp_path, sqlite_url) as chat:

        async def talk() -> None:
            for number in range(10):
                await chat.post("conversations", {"title": f"number {number}"})

        async def back_up() -> None:
            for number in range(5):
                await asyncio.to_thread(make_backup, sqlite_url, tmp_path / "journal", tmp_path / f"{number}.backup")

        await asyncio.gather(*(talk() for _ in range(5)), back_up())
        assert len((await chat.http.get("/api/v1/conversations?limit=200")).json()["items"]) == 51
    assert [backup.damage(tmp_path / f"{number}.backup") for number in range(5)] == [None] * 5


async def test_nothing_is_overwritten_unless_told(tmp_path: Path, sqlite_url: str) -> None:
    file = tmp_path / "kvasir.backup"
    await asyncio.to_thread(make_backup, sqlite_url, tmp_path / "journal", file)
    with pytest.raises(BackupRefused, match="overwrites nothing"):
        await asyncio.to_thread(make_backup, sqlite_url, tmp_path / "journal", file)
    with pytest.raises(BackupRefused, match="--replace"):
        await asyncio.to_thread(restore_backup, sqlite_url, file, replace=False)
    kept = await asyncio.to_thread(restore_backup, sqlite_url, file, replace=True)
    again = await asyncio.to_thread(restore_backup, sqlite_url, file, replace=True)
    assert kept is not None
    assert again is not None
    assert kept != again
    assert [backup.damage(path) for path in (kept, again)] == [None, None]


async def test_a_database_under_a_server_is_not_replaced(tmp_path: Path, sqlite_url: str) -> None:
    file = tmp_path / "kvasir.backup"
    await asyncio.to_thread(make_backup, sqlite_url, tmp_path / "journal", file)
    async with claimed_database(sqlite_url):
        with pytest.raises(DatabaseTaken):
            await asyncio.to_thread(restore_backup, sqlite_url, file, replace=True)
    assert migrate.check(sqlite_url) == []


async def test_damaged_foreign_and_newer_files_are_refused(tmp_path: Path, sqlite_url: str) -> None:
    file, url = tmp_path / "kvasir.backup", Settings(data=tmp_path / "new").effective_database_url
    await asyncio.to_thread(make_backup, sqlite_url, tmp_path / "journal", file)
    torn = tmp_path / "torn"
    whole = file.read_bytes()
    torn.write_bytes(whole[: len(whole) // 2])
    foreign = tmp_path / "foreign"
    with closing(sqlite3.connect(foreign)) as connection:
        connection.execute("CREATE TABLE notes (text)")
    newer = tmp_path / "newer"
    newer.write_bytes(whole)
    with closing(sqlite3.connect(newer)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    for path, reason in (
        (torn, "damaged"),
        (foreign, "no backup"),
        (newer, "newer version"),
        (tmp_path / "x", "no file"),
    ):
        with pytest.raises(BackupRefused, match=reason):
            await asyncio.to_thread(restore_backup, url, path, replace=False)
    assert not (tmp_path / "new").exists()


async def test_a_database_of_an_older_version_is_copied_as_it_stands(tmp_path: Path) -> None:
    url = Settings(data=tmp_path).effective_database_url
    migrate.upgrade(url, "0001")
    made = await asyncio.to_thread(make_backup, url, tmp_path / "journal", tmp_path / "old.backup")
    assert made.interrupted is None
    restored_url = Settings(data=tmp_path / "new").effective_database_url
    (tmp_path / "new").mkdir()
    await asyncio.to_thread(restore_backup, restored_url, made.file, replace=False)
    assert migrate.current_revision(restored_url) == "0001"
    migrate.upgrade(restored_url)
    assert migrate.check(restored_url) == []


def test_the_commands_say_what_they_did_and_what_to_use_instead(tmp_path: Path) -> None:
    runner = CliRunner(env={"KVASIR_ADMIN_PASSWORD": PASSWORD})
    data, file = str(tmp_path / "data"), str(tmp_path / "kvasir.backup")
    assert runner.invoke(main, ["db", "upgrade", "--data", data]).exit_code == 0
    made = runner.invoke(main, ["backup", file, "--data", data])
    assert made.exit_code == 0, made.output
    assert "found it whole" in made.output
    refused = runner.invoke(main, ["restore", file, "--data", data])
    assert (refused.exit_code, "--replace" in refused.output) == (2, True)
    replaced = runner.invoke(main, ["restore", file, "--replace", "--data", data])
    assert replaced.exit_code == 0, replaced.output
    assert "kept as" in replaced.output
    postgres = CliRunner(env={"KVASIR_DATABASE_URL": "postgresql://ann:secret@localhost/kvasir"})
    for command, instead in (("backup", "pg_dump"), ("restore", "pg_restore")):
        answer = postgres.invoke(main, [command, file, "--data", data])
        assert (answer.exit_code, instead in answer.output) == (2, True), answer.output
        assert "secret" not in answer.output
