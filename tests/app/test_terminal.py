"""Who takes colours."""

from __future__ import annotations

import io

import pytest

from app.terminal import takes_colours


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "colours"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
def test_a_terminal_takes_colours_unless_its_person_says_otherwise(
    stream: io.StringIO, environment: dict[str, str], colours: bool
) -> None:
    assert takes_colours(stream, environment) is colours
