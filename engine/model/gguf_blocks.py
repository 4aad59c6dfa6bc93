"""The types of blocks in GGUF files that can be read here, and how large their blocks are.

The `gguf` package knows them all, but importing it takes a tenth of a second, which a start whose weights are kept on the disk
would spend on nothing else. A test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class BlockType:
    """`numbers` of a tensor are stored in each block of `size_bytes`. Name and number are those of the files."""

    name: str
    number: int
    numbers: int
    size_bytes: int


BLOCK_TYPES: Final[Mapping[int, BlockType]] = {
    kind.number: kind
    for kind in (
        BlockType("F32", 0, 1, 4),
        BlockType("F16", 1, 1, 2),
        BlockType("Q4_0", 2, 32, 18),
        BlockType("Q4_1", 3, 32, 20),
        BlockType("Q5_0", 6, 32, 22),
        BlockType("Q5_1", 7, 32, 24),
        BlockType("Q8_0", 8, 32, 34),
        BlockType("Q2_K", 10, 256, 84),
        BlockType("Q3_K", 11, 256, 110),
        BlockType("Q4_K", 12, 256, 144),
        BlockType("Q5_K", 13, 256, 176),
        BlockType("Q6_K", 14, 256, 210),
        BlockType("IQ4_NL", 20, 32, 18),
        BlockType("IQ4_XS", 23, 256, 136),
        BlockType("BF16", 30, 1, 2),
    )
}
"""By their numbers in a file."""
