"""Where the parts of a large JSON document are, without reading it into memory: the members of an object, the items of an array.

Used by `import_file` on a mapped file. It finds ends and checks nothing else: a piece is JSON once somebody has decoded it.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from typing import NamedTuple

# A string as a whole, so that a bracket inside of one is none.
_MARK = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]', re.DOTALL)
_STRING = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_WORD = re.compile(rb"[-+.0-9A-Za-z]+")
_SPACE = re.compile(rb"[ \t\r\n]*")


class NotJson(Exception):
    """What was expected, and at which byte something else came."""


class Member(NamedTuple):
    """`key` as it is written, and where the value begins."""

    key: bytes
    start: int


class JsonPieces:
    """Owns nothing: places in the bytes it was given."""

    def __init__(self, mapped: mmap.mmap | bytes) -> None:
        self._bytes = mapped

    def members(self, start: int = 0) -> Iterator[Member]:
        """The members of the object that begins here. Raises NotJson."""
        for place in self._inside(start, b"{", b"}"):
            name = _STRING.match(self._bytes, place)
            if name is None:
                raise NotJson(f"expected a name at byte {place}")
            colon = self._skip_space(name.end())
            self._require(colon, b":")
            yield Member(name[1], self._skip_space(colon + 1))

    def items(self, start: int) -> Iterator[tuple[int, int]]:
        """Begin and end of every item of the array that begins here. Raises NotJson."""
        for place in self._inside(start, b"[", b"]"):
            yield place, self.end(place)

    def end(self, start: int) -> int:
        """The end of the value that begins here. Raises NotJson."""
        first = self._bytes[start : start + 1]
        if first not in (b"{", b"["):
            value = (_STRING if first == b'"' else _WORD).match(self._bytes, start)
            if value is None:
                raise NotJson(f"expected a value at byte {start}")
            return value.end()
        depth = 0
        for mark in _MARK.finditer(self._bytes, start):
            kind = self._bytes[mark.start() : mark.start() + 1]
            if kind in (b"{", b"["):
                depth += 1
            elif kind in (b"}", b"]"):
                depth -= 1
                if depth == 0:
                    return mark.end()
        raise NotJson("it ends in the middle")

    def _inside(self, start: int, opening: bytes, closing: bytes) -> Iterator[int]:
        """Where each part between two brackets begins, the commas between them being there."""
        place = self._skip_space(start)
        self._require(place, opening)
        place = self._skip_space(place + 1)
        while self._bytes[place : place + 1] != closing:
            yield place
            value = place
            if opening == b"{":
                # Behind the name and its colon, which `members` has found there.
                name = _STRING.match(self._bytes, place)
                value = self._skip_space(self._skip_space(name.end() if name else place) + 1)
            place = self._skip_space(self.end(value))
            if self._bytes[place : place + 1] != closing:
                self._require(place, b",")
                place = self._skip_space(place + 1)
                if self._bytes[place : place + 1] == closing:
                    raise NotJson(f"expected something behind the comma before byte {place}")

    def _require(self, place: int, wanted: bytes) -> None:
        if self._bytes[place : place + 1] != wanted:
            raise NotJson(f"expected {wanted.decode()} at byte {place}")

    def _skip_space(self, place: int) -> int:
        space = _SPACE.match(self._bytes, place)
        return place if space is None else space.end()
