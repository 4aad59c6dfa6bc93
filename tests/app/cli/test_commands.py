"""The commands that need no server: what they print, and that what a person does wrong is one sentence and exit code 2."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli import COMMANDS, main
from tests.support.logs import restored_logging
from tests.support.tiny_llama import write_folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory, so that no .env file of a person is read."""
    monkeypatch.chdir(tmp_path)
    with restored_logging():
        yield tmp_path


def kvasir(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, list(arguments), input=stdin)


def environment() -> dict[str, str]:
    """For a process of its own, which is started in another folder than the checkout."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def refused(*arguments: str, stdin: str = "") -> str:
    """The one sentence of a command that has to be refused."""
    result = kvasir(*arguments, stdin=stdin)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("Error: ")
    return lines[0]


def test_help_lists_every_command(folder: Path) -> None:
    output = kvasir("--help").output
    assert [name for name in COMMANDS if f"  {name} " not in output] == []


def test_a_command_that_does_not_exist_is_refused(folder: Path) -> None:
    result = kvasir("sevre")
    assert result.exit_code == 2
    assert "No such command 'sevre'" in result.stderr


def test_config_shows_value_origin_and_description(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVASIR_PORT", "9000")
    (folder / ".env").write_text("KVASIR_HOST=0.0.0.0\n")
    output = kvasir("config").output
    assert "KVASIR_PORT=9000  (environment)\n    Port to listen on; 0 takes a free one" in output
    assert "KVASIR_HOST=0.0.0.0  (.env)" in output
    assert "KVASIR_DRAIN_S=30  (default)" in output


def test_config_never_shows_a_secret(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVASIR_ADMIN_PASSWORD", "hunter2")
    monkeypatch.setenv("KVASIR_DATABASE_URL", "postgresql://kvasir:hunter2@db/kvasir")
    assert "hunter2" not in kvasir("config").output
    rows = json.loads(kvasir("config", "--json").output)
    assert "hunter2" not in str(rows)
    row = next(row for row in rows if row["name"] == "KVASIR_DATABASE_URL")
    assert row["value"] == "postgresql://kvasir:***@db/kvasir"
    assert row["origin"] == "environment"
    assert row["description"]


@pytest.mark.parametrize("command", [["config"], ["db", "check"], ["doctor"], ["serve"], ["user", "link", "ann"]])
def test_a_setting_that_does_not_exist_or_cannot_be_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv("KVASIR_PROT", "1")
    assert "KVASIR_PROT in the environment is not a setting; did you mean KVASIR_PORT?" in refused(*command)
    monkeypatch.delenv("KVASIR_PROT")
    monkeypatch.setenv("KVASIR_PORT", "eighty")
    assert "KVASIR_PORT: Expected `int`, got `str`, got 'eighty'" in refused(*command)


def test_the_database_is_made_checked_and_refused_when_it_is_newer(folder: Path) -> None:
    assert "there is no database at" in refused("db", "check")
    assert not (folder / "data").exists()
    assert kvasir("db", "upgrade").exit_code == 0
    assert kvasir("db", "check").exit_code == 0
    with sqlite3.connect(folder / "data/kvasir.sqlite3") as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'from-the-future'")
    connection.close()
    assert "newer version of Kvasir" in refused("db", "upgrade")
    result = kvasir("db", "check")
    assert result.exit_code == 1
    assert "from-the-future, which this version does not know: a newer Kvasir made it" in result.stdout


def test_a_database_that_cannot_be_used_is_one_sentence_without_its_password(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "data").mkdir()
    (folder / "data/kvasir.sqlite3").write_text("this is a letter to my aunt, and not a database at all")
    assert "file is not a database" in refused("db", "upgrade")
    for url, words in [
        ("postgresql://kvasir:hunter2@127.0.0.1:1/kvasir", "Connection refused"),
        ("mysql://kvasir:hunter2@127.0.0.1/kvasir", "expected a database URL of sqlite or postgresql"),
        ("sqlite:///data/kvasir.sqlite3/x", "File exists"),
        ("sqlite://", "expected a file"),
        ("sqlite:///:memory:", "expected a file"),
        ("hunter2", "expected a database URL like"),
        ("postgresql://kvasir:secret@127.0.0.1:hunter2/kvasir", "expected a database URL like"),
    ]:
        monkeypatch.setenv("KVASIR_DATABASE_URL", url)
        sentence = refused("db", "upgrade")
        assert words in sentence
        assert "hunter2" not in sentence


def test_a_database_is_looked_for_where_it_was_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVASIR_DATABASE_URL", "sqlite:///mine.sqlite3")
    assert kvasir("db", "upgrade").exit_code == 0
    assert kvasir("db", "check").exit_code == 0
    assert (folder / "mine.sqlite3").exists()


def test_a_password_of_the_settings_that_cannot_be_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVASIR_ADMIN_PASSWORD", "x" * 1025)
    result = kvasir("serve", "--port", "0")
    assert result.exit_code == 2
    assert "Error: KVASIR_ADMIN_PASSWORD: a password has 1 to 1024 bytes" in result.stderr


def test_a_data_folder_that_cannot_be_is_one_sentence(folder: Path) -> None:
    (folder / "file").touch()
    assert "cannot be made: Not a directory" in refused("db", "upgrade", "--data", "file/data")


def test_only_its_owner_may_look_into_a_new_data_folder(folder: Path) -> None:
    kvasir("db", "upgrade")
    assert (folder / "data").stat().st_mode & 0o077 == 0


def test_only_its_owner_may_read_the_database_in_a_folder_that_was_there_before(folder: Path) -> None:
    (folder / "data").mkdir(mode=0o755)
    kvasir("db", "upgrade")
    assert (folder / "data/kvasir.sqlite3").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "command", [["db", "check"], ["user", "link", "ann"], ["chat"], ["model", "list"], ["serve", "--model", "m"]]
)
def test_a_folder_where_this_user_may_not_look_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """As root every folder can be looked into, so it is the system call that refuses."""
    real_stat = Path.stat

    def stat(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.name in ("models", "kvasir.sqlite3", "m"):
            raise PermissionError(13, "Permission denied", str(path))
        return real_stat(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", stat)
    assert "Permission denied" in refused(*command, stdin="hello")


def test_an_account_is_made_with_a_password_from_standard_input(folder: Path) -> None:
    result = kvasir("user", "create", "Ann", "--role", "agent", "--password-stdin", stdin="correct horse\n")
    assert result.output == "Made the account 'ann' with the role agent.\n"
    assert "already an account 'ann'" in refused("user", "create", "ANN", "--password-stdin", stdin="other\n")


def test_an_account_is_made_with_a_password_typed_twice(folder: Path) -> None:
    result = kvasir("user", "create", "ann", stdin="one\nother\none\none\n")
    assert result.exit_code == 0
    assert "do not match" in result.output
    assert "Made the account 'ann' with the role user." in result.output


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "ann/../bob"])
def test_a_name_that_cannot_be_is_one_sentence(folder: Path, name: str) -> None:
    assert "a username is 1 to 64" in refused("user", "create", name, "--password-stdin", stdin="password\n")


def test_an_empty_password_is_refused(folder: Path) -> None:
    assert "a password has" in refused("user", "create", "ann", "--password-stdin", stdin="\n")


def test_a_password_that_is_not_utf_8_is_refused(folder: Path) -> None:
    result = CliRunner().invoke(main, ["user", "create", "ann", "--password-stdin"], input=b"gr\xfc\xdfe\n")
    assert result.exit_code == 2
    assert result.stderr == "Error: the password on standard input is not UTF-8 at byte 2\n"


def test_who_is_called_admin_is_one(folder: Path) -> None:
    """Every start prints a link that signs in as the account of this name."""
    assert "has the role admin, got user" in refused("user", "create", "Admin", "--password-stdin", stdin="password\n")
    assert kvasir("user", "create", "admin", "--role", "admin", "--password-stdin", stdin="password\n").exit_code == 0


@pytest.mark.parametrize("arguments", [["config"], ["user", "create", "ann", "--password-stdin"], ["chat"]])
def test_closed_standard_streams_are_no_fault(folder: Path, arguments: list[str]) -> None:
    command = [sys.executable, "-c", "from app.cli import main; main()", *arguments]
    result = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&-', "sh", *command], stderr=subprocess.PIPE, text=True, env=environment()
    )
    assert "Traceback" not in result.stderr
    assert result.returncode == (0 if arguments == ["config"] else 2)


def test_a_link_signs_in_who_exists(folder: Path) -> None:
    kvasir("user", "create", "ann", "--password-stdin", stdin="correct horse\n")
    result = kvasir("user", "link", "Ann")
    assert result.stdout.startswith("http://127.0.0.1:8080/?ticket=")
    assert "once, within 10 minutes" in result.stderr
    assert "there is no account 'bob'" in refused("user", "link", "bob")


def test_chat_says_what_it_needs(folder: Path) -> None:
    assert "there is no database" in refused("chat", stdin="hello")
    assert "--username or --token is needed" in refused("chat", "--url", "https://chat.example", stdin="hello")
    assert "begins with http" in refused("chat", "--url", "chat.example", stdin="hello")
    assert "no Kvasir server answers at http://127.0.0.1:1/" in refused(
        "chat", "--url", "http://127.0.0.1:1", "--token", "secret", stdin="hello"
    )


@pytest.mark.parametrize("url", ["http://", "http://[::1", "http://127.0.0.1:99999", "http://127.0.0.1:port"])
def test_chat_refuses_what_is_no_address(folder: Path, url: str) -> None:
    assert "expected an address" in refused("chat", "--url", url, "--token", "secret", stdin="hello")


def test_chat_repeats_no_secret(folder: Path) -> None:
    assert "hunter2" not in refused("chat", "--url", "http://ann:hunter2@127.0.0.1:1", "--token", "x", stdin="hello")
    for token in ("", "hunter2\n", "hunter2 ü"):
        assert "--token is empty, or holds" in (sentence := refused("chat", "--token", token, stdin="hello"))
        assert "hunter2" not in sentence


def test_models_are_listed_and_a_wrong_name_is_one_sentence(folder: Path) -> None:
    result = kvasir("model", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "`kvasir model pull` fetches the bundled one" in result.stderr
    assert "is no model: no folder, no GGUF file, and no hub id" in refused("model", "pull", "./nowhere.gguf")
    (folder / "letter.gguf").write_text("Dear aunt")
    assert "letter.gguf" in refused("model", "pull", "letter.gguf")


def test_a_pulled_model_is_converted_and_the_list_says_what_that_takes(folder: Path) -> None:
    write_folder(folder / "mine")
    result = kvasir("model", "pull", "./mine")
    assert result.exit_code == 0, result.output
    assert result.stdout == "./mine is ready in mine\n"
    assert "converting the weights" in result.stderr
    assert "keeping the weights for the next start" in result.stderr
    (line,) = kvasir("model", "list").stdout.splitlines()
    assert line.startswith(str(folder / "mine"))
    assert " MB converted  data/models/folder-" in line
    assert "keeping" not in kvasir("model", "pull", "./mine").stderr


@pytest.mark.parametrize("model", ["./nowhere", "empty", "letter.gguf", "gpt"])
def test_serve_refuses_a_model_that_cannot_be_before_anything_is_open(folder: Path, model: str) -> None:
    (folder / "empty").mkdir()
    (folder / "letter.gguf").write_text("Dear aunt")
    (folder / "gpt").mkdir()
    (folder / "gpt/config.json").write_text('{"architectures": ["GPT2LMHeadModel"]}')
    assert model.removeprefix("./") in refused("serve", "--port", "0", "--model", model)


def test_an_api_key_is_printed_once_and_noted(folder: Path) -> None:
    assert kvasir("user", "create", "ann", "--password-stdin", stdin="correct horse").exit_code == 0
    result = kvasir("key", "create", "--user", "Ann", "--name", "nightly report", "--expires-in-days", "30")
    assert result.exit_code == 0, result.output
    key = result.stdout.strip()
    assert key.startswith("kv_")
    assert key not in result.stderr
    with sqlite3.connect(folder / "data/kvasir.sqlite3") as connection:
        stored = connection.execute("SELECT * FROM credentials").fetchall()
        noted = connection.execute("SELECT actor_name, action FROM audit_entries ORDER BY created_at").fetchall()
    connection.close()
    assert key not in str(stored)
    assert "nightly report" in str(stored)
    assert noted == [("command line", "user.create"), ("command line", "key.create")]
    assert "there is no account 'bob'" in refused("key", "create", "--user", "bob", "--name", "x")
    assert "at least one character" in refused("key", "create", "--user", "ann", "--name", " ")
