"""Keeps the numbers of a JSON answer from running on: a model that loops writes digits to the end of its tokens.

Used by `engine.grammar`. JSON itself has no bound for the digits of a number (vllm-project/vllm#38696), nor for its size: 1e999
is JSON, and infinity to whoever reads it. Pure.
"""

from __future__ import annotations

import re
from typing import Final

MOST_DIGITS: Final = 20
"""Of one number, its fraction included. A double has 17; a longer one is ended where the schema lets it end."""

MOST_EXPONENT_DIGITS: Final = 2
"""So many, with those before it, stay within a double."""

_DIGITS: Final = frozenset(b"0123456789")
_INSIDE_NUMBERS: Final = frozenset(b"0123456789+-.eE")
_QUOTE, _BACKSLASH = ord('"'), ord("\\")
_LEADING_DIGITS: Final = re.compile(rb"[0-9]*")
_OWN_EXPONENT: Final = re.compile(rb"[eE][+-]?[0-9]{%d}" % (MOST_EXPONENT_DIGITS + 1))


def num_leading_digits(token: bytes) -> int:
    """How many digits a token would add to a number."""
    found = _LEADING_DIGITS.match(token)
    return 0 if found is None else found.end()


def has_own_exponent(token: bytes) -> bool:
    """Whether a token would give a number an exponent that is too large, all by itself."""
    return _OWN_EXPONENT.search(token) is not None


class NumberBound:
    """Where the JSON so far has come to: inside of a string or of a number, and how many digits that has."""

    __slots__ = ("_exponent_digits", "_in_escape", "_in_string", "_num_digits")

    def __init__(self) -> None:
        self._in_string = False
        self._in_escape = False
        self._num_digits = 0
        self._exponent_digits: int | None = None
        """None before the exponent."""

    @property
    def is_in_number(self) -> bool:
        return self._num_digits > 0

    @property
    def most_digits(self) -> int:
        """How many more the number that is being written should have, as far as that is less than any token has."""
        if self._exponent_digits is not None:
            return max(0, MOST_EXPONENT_DIGITS - self._exponent_digits)
        return 0 if self._num_digits >= MOST_DIGITS else MOST_DIGITS

    def follow(self, text: bytes) -> None:
        """More of the JSON."""
        for byte in text:
            if self._in_escape:
                self._in_escape = False
            elif byte == _BACKSLASH:
                self._in_escape = self._in_string
            elif byte == _QUOTE:
                self._in_string = not self._in_string
                self._end_number()
            elif not self._in_string:
                self._follow_outside(byte)

    def _follow_outside(self, byte: int) -> None:
        if byte not in _INSIDE_NUMBERS:
            self._end_number()
        elif byte in _DIGITS:
            self._num_digits += 1
            if self._exponent_digits is not None:
                self._exponent_digits += 1
        elif byte in b"eE" and self._num_digits:
            # The words true and false have one, too.
            self._exponent_digits = 0

    def _end_number(self) -> None:
        self._num_digits = 0
        self._exponent_digits = None

    def copy(self) -> NumberBound:
        other = NumberBound()
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        return other
