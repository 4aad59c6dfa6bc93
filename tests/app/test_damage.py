"""What `kvasir db check` finds in a database that fits this version and is not whole."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.damage import damages
from tests.app.responses.chat import open_chat
from tests.support.logs import restored_logging


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    with restored_logging():
        yield tmp_path


async def talked(data: Path) -> str:
    """A database with a conversation in it; its URL."""
    url = f"sqlite:///{data / 'kvasir.sqlite3'}"
    async with open_chat(data, url) as chat:
        for _ in range(3):
            await chat.turn("hello " * 200)
    return url


def checked() -> Result:
    return CliRunner().invoke(main, ["db", "check"])


async def test_a_whole_database_is_said_to_be(folder: Path) -> None:
    (folder / "data").mkdir()
    assert damages(await talked(folder / "data")) == []
    result = checked()
    assert (result.exit_code, result.stdout) == (0, "The database is at this version's schema, and whole.\n")


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        ("DELETE FROM messages WHERE ordinal = (SELECT max(ordinal) FROM messages)", "refers to one of messages"),
        ("UPDATE conversations SET leaf_id = 'nowhere'", "goes on at a message that is not there"),
        ("DELETE FROM response_logs", "has ended and has no event log"),
        ("UPDATE messages SET status = 'failed' WHERE role = 'assistant'", "do not say the same of how it ended"),
        ("UPDATE conversations SET last_ordinal = 1", "has a message behind its last one"),
    ],
)
async def test_rows_that_are_missing_or_contradict_each_other_are_named(folder: Path, harm: str, says: str) -> None:
    (folder / "data").mkdir()
    await talked(folder / "data")
    with closing(sqlite3.connect(folder / "data/kvasir.sqlite3")) as connection:
        connection.execute(harm)
        connection.commit()
    result = checked()
    assert result.exit_code == 1
    assert says in result.stdout
    assert "kvasir restore FILE --replace" in result.stdout


async def test_a_file_with_unreadable_pages_is_damaged(folder: Path) -> None:
    (folder / "data").mkdir()
    await talked(folder / "data")
    path = folder / "data/kvasir.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'messages'").fetchone()
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(path.read_bytes())
    content[(root - 1) * page_bytes : root * page_bytes] = b"\xff" * page_bytes
    path.write_bytes(content)
    result = checked()
    assert result.exit_code == 1
    assert "damaged" in result.stdout or "cannot be read whole" in result.stdout
