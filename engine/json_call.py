"""One call of a tool as JSON that arrives piece by piece: its name, and its arguments as they come.

Used by `engine.tool_reader`. It reads `{"name": …, "arguments": {…}}` with its keys in any order and others beside them. Pure:
every character is looked at once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

ARGUMENT_KEYS: Final = ("arguments", "parameters")
WHITESPACE: Final = " \t\r\n"


class _NoCall(Exception):
    """What was read is no call of a tool."""


class _Part(Enum):
    OPENING = auto()
    KEY = auto()
    COLON = auto()
    VALUE = auto()
    AFTER_VALUE = auto()
    DONE = auto()


@dataclass(slots=True)
class _Value:
    """A value that is being read: its characters, how deep in brackets it is, and whether inside of a string."""

    text: list[str]
    depth: int = 0
    in_string: bool = False
    in_escape: bool = False
    is_string: bool = False


class JsonCall:
    """Owns what was read. `name` is there as soon as its value is whole."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.is_broken = False
        """Whether it is no call of a tool, or went wrong on the way."""
        self._part = _Part.OPENING
        self._key = ""
        self._value = _Value([])
        self._arguments: list[str] = []
        self._has_arguments = False

    @property
    def is_done(self) -> bool:
        return self._part is _Part.DONE

    @property
    def has_begun(self) -> bool:
        """Whether its arguments can be given out as they come."""
        return self.name is not None and (self._has_arguments or self.is_done)

    def take_arguments(self) -> str:
        """What has come of them since the last time; those of a call without any are an empty object."""
        text, self._arguments = "".join(self._arguments), []
        if self.is_done and not self._has_arguments:
            self._has_arguments = True
            return "{}"
        return text

    def push(self, text: str) -> int:
        """Read on; how many characters belong to the call, which is all until it is done or broken."""
        for place, character in enumerate(text):
            try:
                self._read(character)
            except _NoCall:
                self.is_broken = True
                return place
            if self.is_done:
                self.is_broken = self.name is None
                return place + 1
        return len(text)

    def _read(self, character: str) -> None:
        match self._part:
            case _Part.VALUE:
                self._read_value(character)
            case _ if character in WHITESPACE:
                pass
            case _Part.OPENING if character == "{":
                self._part = _Part.KEY
            case _Part.KEY if character == '"':
                self._begin_value(character, key="")
            case _Part.KEY if character == "}":
                self._part = _Part.DONE
            case _Part.COLON if character == ":":
                self._part = _Part.VALUE
                self._value = _Value([])
            case _Part.AFTER_VALUE if character == ",":
                self._part = _Part.KEY
            case _Part.AFTER_VALUE if character == "}":
                self._part = _Part.DONE
            case _:
                raise _NoCall

    def _begin_value(self, character: str, key: str) -> None:
        self._key = key
        self._part = _Part.VALUE
        self._value = _Value([])
        self._read_value(character)

    def _read_value(self, character: str) -> None:
        value = self._value
        if not value.text:
            if character in WHITESPACE:
                return
            value.is_string = character == '"'
            if self._key in ARGUMENT_KEYS and character not in '{"':
                raise _NoCall
        elif not value.in_string and value.depth == 0 and (character in ",}" or character in WHITESPACE):
            self._end_value()
            self._read(character)
            return
        self._keep(character)
        if value.in_escape:
            value.in_escape = False
        elif value.in_string:
            value.in_escape = character == "\\"
            value.in_string = character != '"'
        elif character == '"':
            value.in_string = True
        elif character in "{[":
            value.depth += 1
        elif character in "}]":
            value.depth -= 1
        if not value.in_string and value.depth == 0 and character in '"}]':
            self._end_value()

    def _keep(self, character: str) -> None:
        value = self._value
        value.text.append(character)
        if self._key in ARGUMENT_KEYS and not value.is_string:
            self._has_arguments = True
            self._arguments.append(character)

    def _end_value(self) -> None:
        text = "".join(self._value.text)
        if not self._key:
            self._key = _string(text)
            self._part = _Part.COLON
            return
        if self._key == "name":
            self.name = _string(text)
        elif self._key in ARGUMENT_KEYS and self._value.is_string:
            # Some models write the arguments as a text that is JSON.
            self._has_arguments = True
            self._arguments.append(_string(text))
        self._part = _Part.AFTER_VALUE


def _string(text: str) -> str:
    try:
        value = json.loads(text, strict=False)
    except ValueError:
        raise _NoCall from None
    if not isinstance(value, str) or not value:
        raise _NoCall
    return value
