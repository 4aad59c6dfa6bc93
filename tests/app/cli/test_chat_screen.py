"""What the terminal chat puts where."""

from __future__ import annotations

import io

import pytest

from app.cli.chat_screen import Screen


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("NO_COLOR", "1")])
def test_a_terminal_without_colours_gets_text_alone(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    output = notices = Terminal()
    screen = Screen(output, notices)
    screen.progress("reading 10 of 20 tokens")
    screen.said("hello")
    screen.text("good \x1b[31mday")
    screen.notice("Stopped.")
    assert output.getvalue() == "> hello\ngood [31mday\nStopped.\n"


def test_a_pipe_gets_the_answer_byte_for_byte_and_nothing_else() -> None:
    output, notices = io.StringIO(), io.StringIO()
    screen = Screen(output, notices)
    screen.progress("reading")
    screen.text("a\x1b[31mb")
    screen.notice("Stopped.")
    screen.end_line()
    assert output.getvalue() == "a\x1b[31mb\n"
    assert notices.getvalue() == "Stopped.\n"


@pytest.mark.parametrize("evil", ["\x1b]0;owned\x07", "\x1b[2J", "\x9b2J", "\r", "\x08"])
def test_an_answer_cannot_steer_the_terminal(evil: str) -> None:
    output = Terminal()
    Screen(output, Terminal()).text(f"a{evil}b\tc\n")
    assert not any(character in output.getvalue() for character in "\x1b\x9b\r\x08\x07")
    assert output.getvalue().endswith("b\tc\n")


def test_the_progress_line_is_gone_before_text_comes() -> None:
    output = notices = Terminal()
    screen = Screen(output, notices)
    screen.progress("reading 10 of 20 tokens")
    screen.text("hello")
    assert output.getvalue().rsplit("\x1b[2K", 1)[1] == "hello"


def test_a_line_is_ended_once() -> None:
    output = io.StringIO()
    screen = Screen(output, io.StringIO())
    screen.text("one\n")
    screen.end_line()
    screen.text("two")
    screen.end_line()
    screen.end_line()
    assert output.getvalue() == "one\ntwo\n"
