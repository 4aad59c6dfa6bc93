"""A file of tensors that is mapped instead of read: how it is written, and how a whole one is told from a damaged one.

Used by `kept_weights`, and by `registry` for what it says of itself. It knows no model. A file with its own name is never
changed: it is written beside and renamed, and mapped so that it can only be read. Importing this module imports no torch.

    data      each tensor from a multiple of 64 bytes on
    table     JSON: the file's key, notes, and of each tensor its type, shape, place, and the CRC-32 of every MiB
    end       length of the table, its CRC-32, mark

What the file is for stands at its end, so one that was cut off anywhere has none.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self

if TYPE_CHECKING:
    import torch

MARK: Final = b"kvasir tensors 1"
END: Final = struct.Struct("<QI16s")
"""Bytes of the table, its CRC-32, and the mark."""

ALIGNMENT: Final = 64
"""A cache line, and the widest register there is."""

PIECE_BYTES: Final = 1 << 20
"""What is checked at once: it should still be in the core's cache when it has been read."""

SIZES: Final = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1, "uint8": 1}
"""Bytes of a number of the types that a file can have."""


class TensorFileDamaged(Exception):
    """The file is not what was written, or was never finished; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Where a tensor lies in the data, and what its bytes add up to."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    checksums: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * SIZES[self.dtype]


@dataclass(frozen=True, slots=True)
class TensorTable:
    """What a file says of itself."""

    key: str
    notes: Mapping[str, Any]
    places: Mapping[str, TensorPlace]


def read_table(path: Path) -> TensorTable:
    """Without looking at the data. Raises TensorFileDamaged, and OSError where there is no such file."""
    with path.open("rb") as file:
        return _table_of(file)


def write_tensors(path: Path, key: str, notes: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> None:
    """Raises OSError, also where the disk is full; the file then is still there, without its end."""
    places = {}
    with path.open("wb") as file:
        for name, tensor in tensors.items():
            file.write(bytes(-file.tell() % ALIGNMENT))
            start, content = file.tell(), _bytes_of(tensor)
            checksums = []
            for at in range(0, len(content), PIECE_BYTES):
                piece = content[at : at + PIECE_BYTES]
                checksums.append(zlib.crc32(piece))
                file.write(piece)
            places[name] = (_name_of(tensor.dtype), list(tensor.shape), start, checksums)
        text = json.dumps({"key": key, "notes": dict(notes), "tensors": places}).encode()
        file.write(text)
        file.write(END.pack(len(text), zlib.crc32(text), MARK))
        file.flush()
        os.fsync(file.fileno())


class MappedTensors:
    """An open file; a context manager, which closes it. The memory stays mapped as long as one of its tensors lives.

    Raises what `read_table` does.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        try:
            self.table = _table_of(self._file)
            self._mapping = mmap.mmap(self._file.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def check(self, share: int, shares: int) -> None:
        """Compare one share of the pieces with their checksums; any number of threads may, each its own.

        Raises TensorFileDamaged. The file is read and not its mapping: what a disk cannot read is an error then, and through
        the mapping it would be the end of the process.
        """
        pieces = [
            (name, place.start + index * PIECE_BYTES, place.start + place.size_bytes, checksum)
            for name, place in self.table.places.items()
            for index, checksum in enumerate(place.checksums)
        ]
        buffer = memoryview(bytearray(PIECE_BYTES))
        for name, start, end, checksum in pieces[share::shares]:
            piece = buffer[: min(PIECE_BYTES, end - start)]
            try:
                count = os.preadv(self._file.fileno(), [piece], start)
            except OSError as problem:
                raise TensorFileDamaged(f"{name} cannot be read at byte {start}: {problem.strerror}") from None
            if count < len(piece) or zlib.crc32(piece) != checksum:
                raise TensorFileDamaged(f"{name} does not have its checksum at byte {start}")

    def tensors(self) -> dict[str, torch.Tensor]:
        """Views of the mapping, by name. Writing to one ends the process."""
        import numpy as np
        import torch

        from engine.model.read_only import read_only_tensor

        data = read_only_tensor(np.frombuffer(self._mapping, dtype=np.uint8))
        return {
            name: data[place.start : place.start + place.size_bytes].view(getattr(torch, place.dtype)).view(place.shape)
            for name, place in self.table.places.items()
        }


def _table_of(file: BinaryIO) -> TensorTable:
    size = os.fstat(file.fileno()).st_size
    if size < END.size:
        raise TensorFileDamaged(f"it has {size} bytes, which are too few")
    file.seek(size - END.size)
    length, checksum, mark = END.unpack(file.read(END.size))
    start = size - END.size - length
    if mark != MARK or start < 0:
        raise TensorFileDamaged("its end is missing")
    file.seek(start)
    text = file.read(length)
    if zlib.crc32(text) != checksum:
        raise TensorFileDamaged("its table does not have its checksum")
    table = json.loads(text)
    places = {
        name: TensorPlace(dtype, tuple(shape), at, tuple(checksums))
        for name, (dtype, shape, at, checksums) in table["tensors"].items()
    }
    return TensorTable(table["key"], table["notes"], places)


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    import torch

    return tensor.contiguous().view(-1).view(torch.uint8).numpy().data


def _name_of(dtype: torch.dtype) -> str:
    name = str(dtype).removeprefix("torch.")
    if name not in SIZES:
        raise TypeError(f"expected a tensor of {', '.join(SIZES)}, got {name}")
    return name
