"""The server's secret: made once, kept for its owner alone."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from engine.errors import EngineError
from engine.tiers.secret import SECRET_FILE, read_or_make_secret


def test_the_secret_is_made_once_and_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "kv"
    secret = read_or_make_secret(folder)
    assert len(secret) == 32
    assert read_or_make_secret(folder) == secret
    assert [path.name for path in folder.iterdir()] == [SECRET_FILE]


def test_only_its_owner_reads_the_secret(tmp_path: Path) -> None:
    folder = tmp_path / "kv"
    secret = read_or_make_secret(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / SECRET_FILE).stat().st_mode & 0o777 == 0o600
    (folder / SECRET_FILE).chmod(0o644)
    assert read_or_make_secret(folder) == secret
    assert (folder / SECRET_FILE).stat().st_mode & 0o777 == 0o600


def test_without_a_folder_every_process_has_its_own() -> None:
    assert read_or_make_secret(None) != read_or_make_secret(None)


def test_a_secret_that_is_not_whole_is_replaced(tmp_path: Path) -> None:
    (tmp_path / SECRET_FILE).write_bytes(b"short")
    (tmp_path / f"{SECRET_FILE}.tmp").write_bytes(b"left by a crash")
    secret = read_or_make_secret(tmp_path)
    assert len(secret) == 32
    assert (tmp_path / SECRET_FILE).read_bytes() == secret
    assert [path.name for path in tmp_path.iterdir()] == [SECRET_FILE]


def test_a_secret_that_cannot_be_read_is_one_sentence_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = read_or_make_secret(tmp_path)

    def failing(path: Path) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", failing)
        with pytest.raises(EngineError, match=r"for KV cannot be used: .*Input/output error"):
            read_or_make_secret(tmp_path)
    assert read_or_make_secret(tmp_path) == secret
