"""Finds the calls of tools in an answer's text while it arrives, piece by piece.

Made by `engine.answer_writer` for requests with tools. However the text is cut, the pieces put together are the same
(vllm-project/vllm#51697, sgl-project/sglang#8417). What looks like a call and is none is text. Pure.

    text    Let me see.⏎<tool_call>⏎{"name": "f", "arguments": {"a": 1}}⏎</tool_call>
    out     Let me see.               name   f          {"a": 1}
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from engine.json_call import WHITESPACE, JsonCall
from engine.tool_dialect import ToolDialect

BETWEEN_CALLS = ",;"


@dataclass(frozen=True, slots=True)
class Said:
    """Text that belongs to no call; never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """More of the call number `index`. The first piece of each has its name."""

    index: int
    arguments: str
    name: str | None = None


Piece = Said | Called


class _Place(Enum):
    START = auto()
    """Nothing but spaces so far."""
    TEXT = auto()
    OPENED = auto()
    """Behind an opening, before the first brace."""
    CALL = auto()
    AFTER = auto()
    """Behind a call: another one, or the closing, or text again."""
    BROKEN = auto()
    """In a call that went wrong after a part of it was given out: nothing is read to its closing."""


class ToolReader:
    """Owns the text that is not understood yet. Not to be used after `flush`."""

    def __init__(self, dialect: ToolDialect) -> None:
        self._dialect = dialect
        self._place = _Place.START
        self._waiting = ""
        """Not looked at yet, because what follows decides."""
        self._spaces = ""
        """Behind text: they are shown unless a call follows."""
        self._opening = ""
        self._raw = ""
        """The opening, and what the call has been so far: should it be none, they are text."""
        self._call = JsonCall()
        self._is_given_out = False
        self.num_calls = 0

    def push(self, text: str) -> list[Piece]:
        """More of the answer's text."""
        self._waiting += text
        pieces: list[Piece] = []
        while self._waiting and self._step(pieces):
            pass
        return _joined(pieces)

    def flush(self) -> list[Piece]:
        """The answer has ended: what was held back. A call that was cut off keeps what it had."""
        pieces: list[Piece] = []
        if self._place in (_Place.CALL, _Place.OPENED) and not self._is_given_out:
            self._say(self._raw, pieces)
        if self._place in (_Place.START, _Place.TEXT, _Place.OPENED):
            self._say(self._waiting, pieces)
        if not self.num_calls and self._spaces:
            pieces.append(Said(self._spaces))
        self._waiting = self._spaces = ""
        return _joined(pieces)

    def _step(self, pieces: list[Piece]) -> bool:
        """Read as much as is certain; false where more text is needed."""
        match self._place:
            case _Place.START | _Place.TEXT:
                return self._read_text(pieces)
            case _Place.OPENED:
                return self._read_opened(pieces)
            case _Place.CALL:
                return self._read_call(pieces)
            case _Place.AFTER:
                return self._read_after()
            case _Place.BROKEN:
                return self._read_broken()

    def _read_text(self, pieces: list[Piece]) -> bool:
        if self._place is _Place.START and not self._waiting.lstrip(WHITESPACE):
            return False
        if self._place is _Place.START and self._dialect.begins_bare and self._waiting.lstrip(WHITESPACE)[0] == "{":
            self._open("")
            return True
        text, opening = self._waiting, self._dialect.opening
        found = text.find(opening)
        end = len(text) - _num_held(text, opening) if found < 0 else found
        self._say(text[:end], pieces)
        if found < 0:
            self._waiting = text[end:]
            if text[:end].strip(WHITESPACE):
                self._place = _Place.TEXT
            return False
        self._waiting = text[found + len(opening) :]
        self._open(opening)
        return True

    def _open(self, opening: str) -> None:
        self._place = _Place.OPENED
        self._opening = self._raw = opening

    def _read_opened(self, pieces: list[Piece]) -> bool:
        rest = self._waiting.lstrip(WHITESPACE + "[")
        if not rest:
            return False
        self._raw += self._waiting[: len(self._waiting) - len(rest)]
        self._waiting = rest
        if rest[0] == "{":
            self._begin_call()
        else:
            self._no_call(pieces)
        return True

    def _begin_call(self) -> None:
        self._place = _Place.CALL
        self._call = JsonCall()
        self._is_given_out = False

    def _read_call(self, pieces: list[Piece]) -> bool:
        count = self._call.push(self._waiting)
        self._raw += self._waiting[:count]
        self._waiting = self._waiting[count:]
        self._give_out(pieces)
        if self._call.is_broken and self._is_given_out:
            self._place = _Place.BROKEN
        elif self._call.is_broken:
            self._no_call(pieces)
        elif self._call.is_done:
            self._place = _Place.AFTER
            self._opening = self._raw = ""
        return True

    def _give_out(self, pieces: list[Piece]) -> None:
        call = self._call
        if not call.has_begun:
            return
        name = None
        if not self._is_given_out:
            self._is_given_out = True
            self._spaces = ""
            self.num_calls += 1
            name = call.name
        arguments = call.take_arguments()
        if arguments or name is not None:
            pieces.append(Called(self.num_calls - 1, arguments, name))

    def _no_call(self, pieces: list[Piece]) -> None:
        """It looked like one: its opening is text, and what follows is read again."""
        text = self._raw + self._waiting
        end = max(1, len(self._opening))
        self._opening = self._raw = ""
        self._waiting = text[end:]
        self._place = _Place.TEXT
        self._say(text[:end], pieces)

    def _read_after(self) -> bool:
        text = self._waiting.lstrip(WHITESPACE + BETWEEN_CALLS)
        closing = self._dialect.closing
        if not text or (closing and len(text) < len(closing) and closing.startswith(text)):
            return False
        if closing and text.startswith(closing):
            self._waiting = text[len(closing) :]
            self._place = _Place.TEXT
        elif text[0] == "{":
            self._waiting = text
            self._begin_call()
        else:
            self._waiting = text
            self._place = _Place.TEXT
        return True

    def _read_broken(self) -> bool:
        closing = self._dialect.closing
        found = self._waiting.find(closing) if closing else -1
        if found < 0:
            self._waiting = self._waiting[len(self._waiting) - _num_held(self._waiting, closing) :]
            return False
        self._waiting = self._waiting[found + len(closing) :]
        self._place = _Place.TEXT
        return True

    def _say(self, text: str, pieces: list[Piece]) -> None:
        """Spaces wait for what follows them: around calls there are none."""
        shown = text.rstrip(WHITESPACE)
        if shown:
            pieces.append(Said(self._spaces + shown))
            self._spaces = ""
        self._spaces += text[len(shown) :]


def _num_held(text: str, marker: str) -> int:
    """Characters at the end that may be the beginning of the marker."""
    most = min(len(text), len(marker) - 1)
    return next((count for count in range(most, 0, -1) if marker.startswith(text[-count:])), 0)


def _joined(pieces: list[Piece]) -> list[Piece]:
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if isinstance(piece, Said) and isinstance(last, Said):
            joined[-1] = Said(last.text + piece.text)
        elif isinstance(piece, Called) and isinstance(last, Called) and piece.name is None:
            joined[-1] = Called(last.index, last.arguments + piece.arguments, last.name)
        else:
            joined.append(piece)
    return joined
