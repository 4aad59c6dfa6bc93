"""What the terminal chat shows: the answer on standard output, everything else on standard error.

So `kvasir chat` in a pipe prints the answer and nothing more. On a terminal the answer's control characters are left out:
a model's text must not move the cursor or rename the window.
"""

from __future__ import annotations

import re
from typing import TextIO

from app.terminal import takes_colours

CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
CLEAR_LINE = "\r\x1b[2K"
DIM, BOLD, PLAIN = "\x1b[2m", "\x1b[1m", "\x1b[0m"


class Screen:
    """Owns the two streams' state: whether a progress line stands on the screen, and whether a line is open."""

    def __init__(self, output: TextIO, notices: TextIO) -> None:
        self._output = output
        self._notices = notices
        self.is_terminal = output.isatty()
        self._output_is_styled = takes_colours(output)
        self._notices_are_styled = takes_colours(notices)
        self._shows_progress = False
        self._line_is_open = False

    def text(self, text: str) -> None:
        """More of an answer, at once."""
        self.no_progress()
        if not text:
            return
        self._output.write(CONTROL_CHARACTERS.sub("", text) if self.is_terminal else text)
        self._output.flush()
        self._line_is_open = not text.endswith("\n")

    def end_line(self) -> None:
        """The answer is over: the next thing begins on a line of its own."""
        self.no_progress()
        if self._line_is_open:
            self._output.write("\n")
            self._output.flush()
            self._line_is_open = False

    def said(self, text: str) -> None:
        """What a person said earlier, when an old conversation is shown."""
        self.end_line()
        shown = CONTROL_CHARACTERS.sub("", text)
        shown = f"{BOLD}> {shown}{PLAIN}" if self._output_is_styled else f"> {shown if self.is_terminal else text}"
        self._output.write(f"{shown}\n")
        self._output.flush()

    def notice(self, sentence: str) -> None:
        """Something the person should know."""
        self.end_line()
        shown = CONTROL_CHARACTERS.sub("", sentence)
        self._notices.write(f"{DIM}{shown}{PLAIN}\n" if self._notices_are_styled else f"{shown}\n")
        self._notices.flush()

    def progress(self, words: str) -> None:
        """What the server is doing while there is no text; replaced by whatever comes next."""
        if self.is_terminal and self._notices_are_styled:
            self._notices.write(f"{CLEAR_LINE}{DIM}{words}{PLAIN}")
            self._notices.flush()
            self._shows_progress = True

    def no_progress(self) -> None:
        """Take the progress line away, if there is one."""
        if self._shows_progress:
            self._notices.write(CLEAR_LINE)
            self._notices.flush()
            self._shows_progress = False
