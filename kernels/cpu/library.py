"""The built library as Python sees it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch


class CpuKernels:
    """Loaded operations. `operations` has them by their names in `library.cpp`."""

    def __init__(self, path: Path, namespace: str) -> None:
        torch.ops.load_library(path)
        self.operations: Any = getattr(torch.ops, namespace)
        self._classes: Any = getattr(torch.classes, namespace)

    def decoder(self, numbers: Mapping[str, float], tensors: Mapping[str, torch.Tensor]) -> Any:
        """A decoder of these weights, which stay where they are."""
        return self._classes.Decoder(dict(numbers), dict(tensors))
