"""`kvasir chat` as a person uses it, in a pipe and on a terminal, against a real server process."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.server_process import FAKE, ServerProcess, server_process

PASSWORD = "correct horse"
CHAT = [sys.executable, "-c", "from app.cli import main; main()", "chat"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def server(data: Path) -> Iterator[ServerProcess]:
    """A server whose answers repeat what was said."""
    with server_process(*FAKE, "--data", str(data), "--delay-ms", "2") as server:
        assert server.url
        yield server


def piped(text: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CHAT, *options], input=text, capture_output=True, text=True, timeout=60, cwd="/")


class Terminal:
    """`kvasir chat` on a terminal of its own. `screen` is what it has shown, without colours."""

    def __init__(self, *options: str) -> None:
        self._master, slave = pty.openpty()
        self._raw = b""
        self.process = subprocess.Popen(
            [*CHAT, *options],
            cwd="/",
            stdin=slave,
            stdout=slave,
            stderr=slave,
            # A session of its own, so that Ctrl-C goes to it and not to the tests.
            start_new_session=True,
            preexec_fn=_take_terminal,
            env={**os.environ, "TERM": "xterm"},
        )
        os.close(slave)

    @property
    def screen(self) -> str:
        text = self._raw.decode(errors="replace").replace("\r\n", "\n")
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def expect(self, words: str, *, timeout_s: float = 20) -> None:
        """Read until these words were shown, and forget everything up to them."""
        deadline = time.monotonic() + timeout_s
        while words not in self.screen:
            readable, _, _ = select.select([self._master], [], [], 0.1)
            if readable:
                try:
                    self._raw += os.read(self._master, 65536)
                except OSError:
                    raise AssertionError(f"it ended before {words!r}:\n{self.screen}") from None
            assert time.monotonic() < deadline, f"no {words!r} in:\n{self.screen}"
        self._raw = self.screen.partition(words)[2].encode()

    def press_ctrl_c(self, words: str) -> None:
        """Until these words are shown. A signal in the instant before readline begins to wait is noticed at the next key."""
        for key in ("\x03", " ") * 10:
            self.type(key)
            try:
                return self.expect(words, timeout_s=2)
            except AssertionError:
                if self.process.poll() is not None:
                    raise
        raise AssertionError(f"no {words!r} in:\n{self.screen}")

    def end(self) -> int:
        """Its exit code."""
        code = self.process.wait(20)
        os.close(self._master)
        return code


def _take_terminal() -> None:
    import fcntl
    import signal
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    # A shell without job control has what it starts in the background ignore Ctrl-C, tests too, and all that those start.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def terminal(*options: str) -> Iterator[Terminal]:
    chat = Terminal(*options)
    try:
        yield chat
    finally:
        if chat.process.poll() is None:
            chat.process.kill()
            chat.end()


def test_a_pipe_gets_the_answer_and_nothing_else(server: ServerProcess, data: Path) -> None:
    result = piped("What is the capital of France?\n", "--url", server.url, "--data", str(data))
    assert (result.returncode, result.stdout, result.stderr) == (0, "You said: What is the capital of France?.\n", "")


def test_the_sign_in_of_a_pipe_is_ended_with_it(server: ServerProcess, data: Path) -> None:
    import sqlite3

    piped("hello", "--url", server.url, "--data", str(data))
    connection = sqlite3.connect(data / "kvasir.sqlite3")
    left = connection.execute(
        "SELECT count(*) FROM credentials WHERE kind = 'session' AND revoked_at IS NULL"
    ).fetchone()
    connection.close()
    assert left == (0,)


def test_a_token_signs_in_from_anywhere_and_stays_valid(server: ServerProcess) -> None:
    login = {"username": "admin", "password": PASSWORD}
    token = httpx.post(f"{server.url}/api/v1/auth/login", json=login).json()["token"]
    for _ in range(2):
        result = piped("hello", "--url", server.url, "--token", token)
        assert (result.returncode, result.stdout) == (0, "You said: hello.\n")
    httpx.post(f"{server.url}/api/v1/auth/logout", headers={"Authorization": f"Bearer {token}"})


def test_a_wrong_token_and_another_servers_data_folder_are_one_sentence(server: ServerProcess, tmp_path: Path) -> None:
    result = piped("hello", "--url", server.url, "--token", "wrong")
    assert result.returncode == 2
    assert result.stderr == "Error: this sign-in is unknown, has expired or was ended\n"
    subprocess.run(
        [*CHAT[:-1], "db", "upgrade", "--data", str(tmp_path)], check=True, cwd="/", stdout=subprocess.DEVNULL
    )
    result = piped("hello", "--url", server.url, "--data", str(tmp_path))
    assert result.returncode == 2
    assert "--username" in result.stderr


def test_a_pipe_that_is_not_utf_8_is_one_sentence(server: ServerProcess, data: Path) -> None:
    options = ["--url", server.url, "--data", str(data)]
    result = subprocess.run([*CHAT, *options], input=b"gr\xfc\xdfe", capture_output=True, timeout=60, cwd="/")
    assert result.returncode == 2
    assert result.stderr == b"Error: the message on standard input is not UTF-8 at byte 2\n"


def test_a_person_talks_lists_opens_and_leaves(server: ServerProcess, data: Path) -> None:
    with terminal("--url", server.url, "--data", str(data)) as chat:
        chat.expect("> ")
        chat.type("My cat is called Ferdinand\r")
        chat.expect("You said: My cat is called Ferdinand.")
        chat.expect("> ")
        chat.type("/regenerate\r")
        chat.expect("You said: My cat is called Ferdinand.")
        chat.expect("> ")
        chat.type("/new\r")
        chat.expect("A new conversation.")
        chat.type("//start\r")
        chat.expect("You said: /start.")
        chat.type("/list\r")
        chat.expect("  2  ")
        chat.expect("Ferdinand")
        chat.type("/open 2\r")
        chat.expect("> My cat is called Ferdinand\nYou said: My cat is called Ferdinand.\n")
        chat.type("/open 99\r")
        chat.expect("Expected a number from 1 to")
        chat.type("/dance\r")
        chat.expect("There is no command /dance")
        chat.type("/help\r")
        chat.expect("Ctrl-C stops an answer")
        chat.type("/quit\r")
        assert chat.end() == 0


def test_ctrl_c_at_the_prompt_leaves_at_the_second_time_and_ctrl_d_at_once(server: ServerProcess, data: Path) -> None:
    with terminal("--url", server.url, "--data", str(data)) as chat:
        chat.expect("> ")
        chat.press_ctrl_c("Ctrl-C again, or Ctrl-D, leaves.")
        chat.expect("> ")
        chat.press_ctrl_c("Good-bye.")
        assert chat.end() == 0
    with terminal("--url", server.url, "--data", str(data)) as chat:
        chat.expect("> ")
        chat.type("\x04")
        assert chat.end() == 0


def test_ctrl_c_stops_the_answer_and_not_the_program(tmp_path: Path) -> None:
    with (
        server_process(*FAKE, "--data", str(tmp_path), "--delay-ms", "10", "--words", "2000") as server,
        terminal("--url", server.url, "--data", str(tmp_path)) as chat,
    ):
        chat.expect("> ")
        chat.type("count\r")
        chat.expect("word20 ")
        chat.type("\x03")
        chat.expect("Stopped.")
        chat.expect("> ")
        chat.type("again\r")
        chat.expect("word20 ")
        chat.type("\x03")
        chat.expect("Stopped.")
        chat.expect("> ")
        chat.type("/quit\r")
        assert chat.end() == 0


def test_a_killed_server_is_found_again_and_the_answer_goes_as_far_as_it_was_shown(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    options = (*FAKE, "--data", str(tmp_path), "--port", port, "--delay-ms", "10", "--words", "400")
    with server_process(*options) as first, terminal("--url", first.url, "--data", str(tmp_path)) as chat:
        chat.expect("> ")
        chat.type("count\r")
        chat.expect("word30 ")
        first.stop(signal.SIGKILL)
        chat.expect("The connection was lost; trying again in 0.5 s.")
        with server_process(*options) as second:
            assert second.url == first.url
            chat.expect("The server was restarted while it answered")
            chat.expect("> ")
            chat.type("/regenerate\r")
            chat.expect("word400")
            chat.expect("> ")
            chat.type("/quit\r")
            assert chat.end() == 0
