"""Reads a GGUF file: metadata, the table of tensors, and the tensors themselves as float32.

Called at every start by the loader. The `gguf` package reads the same files, but builds an object of each of the vocabulary's
hundred thousand strings, which takes longer than everything else a start does; here arrays are stepped over. Importing this
module must not import torch: a file is looked at before the engine starts.

    header     magic, version, number of tensors, number of metadata entries
    metadata   key, type, value; …
    tensors    name, dimensions, type, offset; …
    (padding to general.alignment)
    data       each tensor at its offset
"""

from __future__ import annotations

import hashlib
import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from engine.errors import ModelError
from engine.model.gguf_blocks import BLOCK_TYPES, BlockType

if TYPE_CHECKING:
    import torch

    from kernels.packed_matrix import Blocks

MAGIC: Final = b"GGUF"
READABLE_VERSIONS: Final = (2, 3)
DEFAULT_ALIGNMENT: Final = 32
MAX_NESTING: Final = 4
"""Of arrays in arrays; no known file has any, and a damaged one must not recurse without end."""

_STRING, _ARRAY, _BOOL = 8, 9, 7
_NUMBERS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


@dataclass(frozen=True, slots=True, repr=False)
class SkippedArray:
    """An array in the metadata, of which only the length is kept."""

    count: int

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"(array of {self.count})"


MetadataValue = str | int | float | bool | SkippedArray


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Where a tensor is and how it is stored. `shape` is rows first, as in torch."""

    shape: tuple[int, ...]
    kind: BlockType
    start: int
    size_bytes: int


class GgufFile:
    """One open file. Raises ModelError when it is not a GGUF, is damaged, or ends before its last tensor does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._bytes: npt.NDArray[np.uint8] = np.memmap(path, dtype=np.uint8, mode="r")
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
                header = _Header(view, path)
                self.header_sha256 = hashlib.sha256(view[: header.end]).hexdigest()
        except (OSError, ValueError) as problem:
            raise ModelError(f"{path} cannot be read: {problem}") from None
        self.metadata: Mapping[str, MetadataValue] = header.metadata
        self.tensors: Mapping[str, TensorEntry] = header.tensors

    def read(self, name: str) -> torch.Tensor:
        """The tensor as float32; not to be written to."""
        from engine.model.dequantise import dequantise

        entry = self.tensors[name]
        return dequantise(self._bytes_of(entry), entry.kind, entry.shape)

    def packable_bits(self, name: str) -> int | None:
        """The bits of a matrix whose blocks can be had as they are."""
        from engine.model.dequantise import PACKABLE

        return PACKABLE.get(self.tensors[name].kind.name)

    def blocks(self, name: str) -> Blocks:
        """The blocks of a matrix that has `packable_bits`; not to be written to."""
        from engine.model.dequantise import blocks_of

        entry = self.tensors[name]
        return blocks_of(self._bytes_of(entry), entry.kind, entry.shape)

    def _bytes_of(self, entry: TensorEntry) -> npt.NDArray[np.uint8]:
        return self._bytes[entry.start : entry.start + entry.size_bytes]


class _Header:
    """Walks through everything before the data, and checks that each tensor lies within the file."""

    def __init__(self, view: mmap.mmap, path: Path) -> None:
        self._view = view
        self._path = path
        self._at = 0
        if view[:4] != MAGIC:
            raise ModelError(f"{path} is not a GGUF file: it does not begin with {MAGIC.decode()}")
        self._at = 4
        try:
            self._read()
        except (struct.error, UnicodeDecodeError, IndexError) as problem:
            raise ModelError(
                f"{path} is damaged or cut off: its header cannot be read at byte {self._at} ({problem})"
            ) from None

    def _read(self) -> None:
        version = self._number("I")
        if version not in READABLE_VERSIONS:
            known = " and ".join(map(str, READABLE_VERSIONS))
            raise ModelError(f"{self._path} is of the GGUF version {version}, and readable are {known}")
        tensor_count, entry_count = self._number("Q"), self._number("Q")
        self.metadata: dict[str, MetadataValue] = {}
        for _ in range(entry_count):
            key = self._string()
            self.metadata[key] = self._value(self._number("I"))
        if self.metadata.get("split.count", 1) not in (0, 1):
            raise ModelError(f"{self._path} is one part of a split GGUF, which is not supported; merge its parts first")
        tables = [self._tensor() for _ in range(tensor_count)]
        self.end = self._at
        alignment = self.metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1:
            raise ModelError(f"{self._path} is damaged: its alignment is {alignment!r}")
        data = -(-self.end // alignment) * alignment
        self.tensors: dict[str, TensorEntry] = {}
        for name, shape, kind, offset in tables:
            self.tensors[name] = self._placed(name, shape, kind, data + offset)
        if len(self.tensors) != tensor_count:
            raise ModelError(f"{self._path} is damaged: it has the same tensor twice")

    def _tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._string()
        dimensions = tuple(self._number("Q") for _ in range(self._number("I")))
        return name, tuple(reversed(dimensions)), self._number("I"), self._number("Q")

    def _placed(self, name: str, shape: tuple[int, ...], kind_number: int, start: int) -> TensorEntry:
        kind = BLOCK_TYPES.get(kind_number)
        if kind is None:
            names = ", ".join(sorted(known.name for known in BLOCK_TYPES.values()))
            raise ModelError(
                f"{self._path} keeps {name} in the quantisation type {_type_name(kind_number)}, and supported are {names}"
            )
        if not shape or shape[-1] % kind.numbers:
            raise ModelError(f"{self._path} is damaged: {name} has the shape {list(shape)} in blocks of {kind.numbers}")
        size = math.prod(shape) // kind.numbers * kind.size_bytes
        if start + size > len(self._view):
            raise ModelError(
                f"{self._path} is cut off: {name} ends at byte {start + size}, and the file has {len(self._view)}"
            )
        return TensorEntry(shape, kind, start, size)

    def _value(self, kind: int) -> MetadataValue:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array(1)
        if kind not in _NUMBERS:
            raise struct.error(f"no value type {kind}")
        return self._number(_NUMBERS[kind])

    def _array(self, nesting: int) -> SkippedArray:
        kind, count = self._number("I"), self._number("Q")
        if kind == _STRING:
            self._skip_strings(count)
        elif kind == _ARRAY and nesting < MAX_NESTING:
            for _ in range(count):
                self._array(nesting + 1)
        elif kind in _NUMBERS:
            self._step(count * struct.calcsize(_NUMBERS[kind]))
        else:
            raise struct.error(f"no array of the value type {kind}")
        return SkippedArray(count)

    def _skip_strings(self, count: int) -> None:
        # A loop of its own: it runs once per token and merge of the vocabulary.
        length_of, view, at = struct.Struct("<Q").unpack_from, self._view, self._at
        for _ in range(count):
            at += 8 + length_of(view, at)[0]
        self._step(at - self._at)

    def _number(self, code: str) -> int:
        (value,) = struct.unpack_from("<" + code, self._view, self._at)
        self._at += struct.calcsize(code)
        return value  # type: ignore[no-any-return]  # floats and booleans too, where the caller expects them

    def _string(self) -> str:
        length, start = self._number("Q"), self._at
        self._step(length)
        return self._view[start : start + length].decode()

    def _step(self, length: int) -> None:
        if self._at + length > len(self._view):
            raise struct.error(f"a value of {length} bytes, and {len(self._view) - self._at} are left")
        self._at += length


def _type_name(number: int) -> str:
    """For an error: what others call a type that cannot be read here."""
    from gguf.constants import GGMLQuantizationType

    names: dict[int, str] = {kind.value: kind.name for kind in GGMLQuantizationType}
    return names.get(number, str(number))
