"""Matrices of 4 and 8 bits in the layout the CPU kernels read: how they are made, and what numbers they stand for.

Made when a model is loaded, from a file's own blocks without rounding again, or from floating point numbers.
`kernels/cpu/linear.h` draws the same layout. 32 columns of a row are a group with a scale of its own, and 4-bit groups have a
minimum too:

    4 bits   weight = nibble * scale + minimum       nibbles 0 to 15
    8 bits   weight = byte * scale                   bytes -128 to 127
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernels.system_memory import zeros_from_system

GROUP_COLUMNS = 32
TILE_ROWS = 16
"""The lanes of a register of float32."""
SMALL_GROUP_BYTES = 256
"""Of the 16 rows of a tile, 4 bits each; 8 bits take twice as many."""


@dataclass(frozen=True, slots=True)
class SmallBlocks:
    """Rows of 4-bit groups in the order of a GGUF file.

    `nibbles` [rows, groups, 16] uint8: columns 0 to 15 of a group in the low halves, 16 to 31 in the high ones. `scales` and
    `minimums` [rows, groups] float16.
    """

    nibbles: torch.Tensor
    scales: torch.Tensor
    minimums: torch.Tensor

    def rows(self, order: torch.Tensor) -> SmallBlocks:
        return SmallBlocks(self.nibbles[order], self.scales[order], self.minimums[order])


@dataclass(frozen=True, slots=True)
class ByteBlocks:
    """Rows of 8-bit groups: `values` [rows, groups, 32] int8, `scales` [rows, groups] float16."""

    values: torch.Tensor
    scales: torch.Tensor

    def rows(self, order: torch.Tensor) -> ByteBlocks:
        return ByteBlocks(self.values[order], self.scales[order])


Blocks = SmallBlocks | ByteBlocks


@dataclass(frozen=True, slots=True)
class PackedMatrix:
    """`quants` [tiles, groups, 256 or 512] uint8 and `scales` [tiles, groups, 32 or 16] float16. Rows and columns beyond those
    of the matrix, up to whole tiles and groups, are 0."""

    quants: torch.Tensor
    scales: torch.Tensor

    @property
    def bits(self) -> int:
        return 4 if self.quants.shape[2] == SMALL_GROUP_BYTES else 8

    @property
    def rows(self) -> int:
        return self.quants.shape[0] * TILE_ROWS

    @property
    def columns(self) -> int:
        return self.quants.shape[1] * GROUP_COLUMNS


def padded(size: int) -> int:
    """Up to whole groups of 32, which are pairs of tiles as well."""
    return -(-size // GROUP_COLUMNS) * GROUP_COLUMNS


class WeightMemory:
    """Memory of the matrices of one model, side by side in large pieces that the system may keep in huge pages.

    Every step reads all of it: in pages of 4 kB a step of one row takes a quarter longer, because the processor looks ahead
    within a page only and has to find each one.
    """

    def __init__(self, piece_bytes: int = 1 << 26) -> None:
        self._piece_bytes = piece_bytes
        self._piece = torch.empty(0, dtype=torch.uint8)
        self._used = 0

    def zeros(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Zeros on whole cache lines."""
        size = math.prod(shape) * dtype.itemsize
        if self._used + size > len(self._piece):
            self._piece, self._used = zeros_from_system(max(size, self._piece_bytes)), 0
        taken = self._piece[self._used : self._used + size]
        self._used += -(-size // 64) * 64
        return taken.view(dtype).view(shape)


def empty_matrix(rows: int, columns: int, bits: int, memory: WeightMemory | None = None) -> PackedMatrix:
    """A matrix of zeros to be filled by `fill`."""
    memory = memory or WeightMemory(0)
    tiles, groups = padded(rows) // TILE_ROWS, padded(columns) // GROUP_COLUMNS
    group_bytes, numbers = (SMALL_GROUP_BYTES, 32) if bits == 4 else (2 * SMALL_GROUP_BYTES, 16)
    quants = memory.zeros((tiles, groups, group_bytes), torch.uint8)
    if bits == 8:
        # A weight is kept with 128 added; 4-bit zeros have neither scale nor minimum.
        quants.fill_(128)
    return PackedMatrix(quants, memory.zeros((tiles, groups, numbers), torch.float16))


def fill(matrix: PackedMatrix, parts: Sequence[Blocks], starts: Sequence[int]) -> None:
    """Write each part's rows into `matrix` from its start on. Starts are on whole tiles, or follow the part before."""
    if matrix.bits == 4:
        _fill_small(matrix, [part for part in parts if isinstance(part, SmallBlocks)], starts)
    else:
        _fill_bytes(matrix, [part for part in parts if isinstance(part, ByteBlocks)], starts)


def _fill_small(matrix: PackedMatrix, parts: Sequence[SmallBlocks], starts: Sequence[int]) -> None:
    tiles, groups = matrix.quants.shape[:2]
    scales = matrix.scales.view(tiles, groups, 2, TILE_ROWS)
    for part, start in zip(parts, starts, strict=True):
        # A group's bytes hold columns (0..3 | 4..7), (8..11 | 12..15), (16..19 | 20..23), (24..27 | 28..31).
        pairs = part.nibbles.view(*part.nibbles.shape[:2], 2, 2, 4)
        first, second = pairs[..., 0, :], pairs[..., 1, :]
        lower = (first & 15) | (second << 4)
        upper = (first >> 4) | (second & 240)
        own = torch.cat((lower, upper), dim=2)
        for tile, lanes, rows in _tiles(start, own.shape[0]):
            _place(matrix, own[rows], tile, lanes)
            scales[tile, :, 0, lanes] = _by_tile(part.scales[rows], lanes)
            scales[tile, :, 1, lanes] = _by_tile(part.minimums[rows], lanes)


def _fill_bytes(matrix: PackedMatrix, parts: Sequence[ByteBlocks], starts: Sequence[int]) -> None:
    for part, start in zip(parts, starts, strict=True):
        own = part.values.view(torch.uint8) ^ 128
        for tile, lanes, rows in _tiles(start, own.shape[0]):
            _place(matrix, own[rows], tile, lanes)
            matrix.scales[tile, :, lanes] = _by_tile(part.scales[rows], lanes)


def _place(matrix: PackedMatrix, rows: torch.Tensor, tile: slice, lanes: slice) -> None:
    """Rows of bytes into their lanes. Four bytes that stay together are moved as one number."""
    words = rows.reshape(rows.shape[0], -1).view(torch.int32)
    places = matrix.quants.view(torch.int32).view(matrix.quants.shape[0], -1, TILE_ROWS)
    places[tile, :, lanes] = words.view(-1, lanes.stop - lanes.start, words.shape[1]).transpose(1, 2)


def _by_tile(numbers: torch.Tensor, lanes: slice) -> torch.Tensor:
    """[rows, groups] to [tiles, groups, lanes]."""
    return numbers.view(-1, lanes.stop - lanes.start, numbers.shape[1]).transpose(1, 2)


def _tiles(start: int, count: int) -> list[tuple[slice, slice, slice]]:
    """Where `count` rows from `start` on lie: tiles, lanes in them, and which of the rows. Whole tiles are one entry."""
    places, row = [], 0
    while row < count:
        tile, lane = divmod(start + row, TILE_ROWS)
        whole = (count - row) // TILE_ROWS
        if lane == 0 and whole:
            taken = whole * TILE_ROWS
            places.append((slice(tile, tile + whole), slice(0, TILE_ROWS), slice(row, row + taken)))
        else:
            taken = min(TILE_ROWS - lane, count - row)
            places.append((slice(tile, tile + 1), slice(lane, lane + taken), slice(row, row + taken)))
        row += taken
    return places


def byte_blocks(rows: torch.Tensor) -> ByteBlocks:
    """Floating point rows rounded to 8 bits; columns are padded to whole groups with 0."""
    grouped = _grouped(rows)
    # The scale is rounded first, so that a weight is the nearest one that the rounded scale can give.
    scales = (grouped.abs().amax(-1) / 127).to(torch.float16)
    wide = scales.float()[..., None]
    values = torch.where(wide > 0, grouped / wide, 0.0).round_().clamp_(-127, 127)
    return ByteBlocks(values.to(torch.int8), scales)


def small_blocks(rows: torch.Tensor) -> SmallBlocks:
    """Floating point rows rounded to 4 bits between each group's smallest and largest number."""
    grouped = _grouped(rows)
    minimums = grouped.amin(-1).to(torch.float16)
    scales = ((grouped.amax(-1) - minimums.float()) / 15).to(torch.float16)
    wide = scales.float()[..., None]
    steps = torch.where(wide > 0, (grouped - minimums.float()[..., None]) / wide, 0.0).round_().clamp_(0, 15)
    nibbles = steps.to(torch.uint8)
    return SmallBlocks(nibbles[..., :16] | (nibbles[..., 16:] << 4), scales, minimums)


def _grouped(rows: torch.Tensor) -> torch.Tensor:
    wide = torch.nn.functional.pad(rows.float(), (0, padded(rows.shape[1]) - rows.shape[1]))
    return wide.view(rows.shape[0], -1, GROUP_COLUMNS)


def weights_of(matrix: PackedMatrix) -> torch.Tensor:
    """The numbers the matrix stands for, padding included: [rows, columns] float32."""
    tiles, groups = matrix.quants.shape[:2]
    if matrix.bits == 4:
        quants = matrix.quants.view(tiles, groups, 4, TILE_ROWS, 4)
        by_column = torch.stack((quants & 15, quants >> 4), dim=3)
        values = by_column.permute(0, 4, 1, 2, 3, 5).reshape(tiles, TILE_ROWS, groups, GROUP_COLUMNS).float()
        both = matrix.scales.float().view(tiles, groups, 2, TILE_ROWS).permute(2, 0, 3, 1)[..., None]
        weights = values * both[0] + both[1]
        return weights.view(matrix.rows, matrix.columns)
    quants = matrix.quants.view(tiles, groups, 8, TILE_ROWS, 4)
    values = quants.permute(0, 3, 1, 2, 4).reshape(tiles, TILE_ROWS, groups, GROUP_COLUMNS).float() - 128
    weights = values * matrix.scales.float().transpose(1, 2)[..., None]
    return weights.view(matrix.rows, matrix.columns)
