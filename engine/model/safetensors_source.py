"""The tensors of a folder with safetensors, in one file or in shards with an index."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open

from engine.errors import ModelError
from engine.model.json_file import read_json_object
from kernels.packed_matrix import Blocks

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
READABLE_TYPES = ("F32", "F16", "BF16")


class SafetensorsSource:
    """Open files of a folder; a context manager, which closes them. Raises ModelError when one is missing or damaged."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open_files = ExitStack()
        self._files: dict[str, Any] = {}
        self.paths = tuple(folder / name for name in self._file_names())
        try:
            for path in self.paths:
                self._open(path)
        except BaseException:
            self._open_files.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open_files.close()

    @property
    def where(self) -> str:
        return str(self._folder)

    def shape(self, name: str) -> tuple[int, ...] | None:
        file = self._files.get(name)
        if file is None:
            return None
        tensor = file.get_slice(name)
        if tensor.get_dtype() not in READABLE_TYPES:
            raise ModelError(
                f"{self._folder} keeps {name} in the type {tensor.get_dtype()}, and supported are {', '.join(READABLE_TYPES)}"
            )
        return tuple(tensor.get_shape())

    def read(self, name: str) -> torch.Tensor:
        tensor: torch.Tensor = self._files[name].get_tensor(name)
        return tensor

    def packable_bits(self, name: str) -> int | None:
        return None

    def blocks(self, name: str) -> Blocks:
        raise LookupError(f"{name} is not kept in blocks")

    def rope_factors(self) -> torch.Tensor | None:
        return None

    def _file_names(self) -> list[str]:
        if not (self._folder / INDEX_FILE).is_file():
            if not (self._folder / SINGLE_FILE).is_file():
                raise ModelError(f"{self._folder} has no weights: neither {SINGLE_FILE} nor {INDEX_FILE} is there")
            return [SINGLE_FILE]
        index = read_json_object(self._folder / INDEX_FILE)
        weight_map = index.get("weight_map")
        if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
            raise ModelError(f"{self._folder / INDEX_FILE} has no weight_map of tensor names to files")
        names = sorted(set(weight_map.values()))
        missing = [name for name in names if Path(name).name != name or not (self._folder / name).is_file()]
        if missing:
            raise ModelError(f"{self._folder} lacks {', '.join(missing)}, which {INDEX_FILE} names")
        return names

    def _open(self, path: Path) -> None:
        try:
            file = self._open_files.enter_context(safe_open(path, framework="pt"))
            self._files.update(dict.fromkeys(file.keys(), file))
        except (SafetensorError, OSError) as problem:
            raise ModelError(f"{path} is damaged or cut off: {problem}") from None
