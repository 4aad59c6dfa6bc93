"""The tokens of a page as bytes, four for each: a tenth of the memory that a tuple of numbers takes, compared in one go, and
what a key is made of and a file holds.

Used wherever pages are indexed or stored. Pure.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from struct import unpack
from typing import Final, NewType

from engine.common_length import common_length

PackedTokens = NewType("PackedTokens", bytes)
"""Little-endian, as in a file."""

TOKEN_BYTES: Final = 4


def pack_tokens(tokens: Sequence[int]) -> PackedTokens:
    """Raises OverflowError for what is no token's number."""
    numbers = array("I", tokens)
    if sys.byteorder == "big":
        numbers.byteswap()
    return PackedTokens(numbers.tobytes())


def unpack_tokens(packed: PackedTokens) -> tuple[int, ...]:
    return unpack(f"<{count_tokens(packed)}I", packed)


def count_tokens(packed: PackedTokens) -> int:
    return len(packed) // TOKEN_BYTES


def part_of(packed: PackedTokens, start: int, end: int) -> PackedTokens:
    """The tokens from `start` to before `end`."""
    return PackedTokens(packed[start * TOKEN_BYTES : end * TOKEN_BYTES])


def common_tokens(left: PackedTokens, right: PackedTokens) -> int:
    """Tokens that both begin with."""
    return common_length(unpack_tokens(left), unpack_tokens(right))
