"""The matrices of a model in 4 and 8 bits, for the kernels that compute with them.

Used by the loader. Blocks of a file are taken as they are where they have the bits that are wanted; everything else is rounded
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from engine.errors import ModelError
from engine.model.weights import EMBEDDING, HEAD, Read, TensorSource
from kernels.packed_matrix import (
    Blocks,
    PackedMatrix,
    WeightMemory,
    byte_blocks,
    empty_matrix,
    fill,
    padded,
    small_blocks,
)


class PackedMatrices:
    """`bits` None leaves each matrix the file's own 4 or 8 bits, and gives 8 to one that is kept otherwise. Parts of one matrix
    have the same bits: 8 where they differ. Embeddings and head never get fewer bits than the file has or 8: 4 cost much there
    and save little. `least_bits` is the fewest any matrix so far has."""

    def __init__(self, source: TensorSource, bits: int | None) -> None:
        self._source = source
        self._bits = bits
        self._memory = WeightMemory()
        self.least_bits = 8

    def make(
        self, names: Sequence[str], rows: Sequence[int], columns: int, *, apart: bool
    ) -> tuple[PackedMatrix, Read]:
        bits = self._bits if self._bits == 8 or not {EMBEDDING, HEAD} & set(names) else None
        bits = bits or self._own_bits(names)
        self.least_bits = min(self.least_bits, bits)
        places = [padded(count) for count in rows] if apart else list(rows)
        matrix = empty_matrix(sum(places), columns, bits, self._memory)
        starts = [0, *accumulate(places)][:-1]

        def read() -> None:
            fill(matrix, [self._blocks(name, bits) for name in names], starts)

        return matrix, read

    def _own_bits(self, names: Sequence[str]) -> int:
        return 4 if {self._source.packable_bits(name) for name in names} == {4} else 8

    def _blocks(self, name: str, bits: int) -> Blocks:
        source = self._source
        if source.packable_bits(name) == bits:
            blocks = source.blocks(name)
        else:
            rows = source.read(name)
            blocks = small_blocks(rows) if bits == 4 else byte_blocks(rows)
        # A number that is not finite, or too large for its scale, has left its mark on the scale.
        finite = [scales.isfinite().all() for scales in (blocks.scales, getattr(blocks, "minimums", blocks.scales))]
        if not all(finite):
            raise ModelError(f"{source.where} is damaged: {name} has numbers that are not finite")
        return blocks
