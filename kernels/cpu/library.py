"""The built kernels, loaded and found to compute what they should."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from kernels import reference_quantised as reference
from kernels.cpu.variant import Variant
from kernels.packed_matrix import byte_blocks, empty_matrix, fill, small_blocks


class KernelsUnusable(Exception):
    """A library that was built cannot be used; the text is one sentence for people."""


class CpuKernels:
    """`operations` has them by their names in `library.cpp`. Raises KernelsUnusable."""

    def __init__(self, path: Path, variant: Variant) -> None:
        self.variant = variant
        self.operations: Any = getattr(torch.ops, path.stem)
        # A library that registers its names a second time ends the process, also when it comes from another folder.
        if not hasattr(self.operations, "linear"):
            try:
                torch.ops.load_library(path)  # type: ignore[no-untyped-call]
            except OSError as problem:
                raise KernelsUnusable(f"{path} cannot be loaded: {problem}") from None
        self._classes: Any = getattr(torch.classes, path.stem)
        self._check()

    def decoder(self, numbers: Mapping[str, float], tensors: Mapping[str, torch.Tensor]) -> Any:
        """A decoder of these weights, which stay where they are. `forward` computes a step."""
        return self._classes.Decoder(dict(numbers), dict(tensors))

    def _check(self) -> None:
        """A few numbers by both ways: a compiler's fault must not become a model that answers a little worse."""
        generator = torch.Generator().manual_seed(0)
        rows, weights = torch.randn(3, 96, generator=generator), torch.randn(64, 96, generator=generator)
        for bits, blocks in ((4, small_blocks(weights)), (8, byte_blocks(weights))):
            matrix = empty_matrix(64, 96, bits)
            fill(matrix, [blocks], [0])
            computed = self.operations.linear(rows, matrix.quants, matrix.scales, None)
            error = float((computed - reference.linear(rows, matrix)).abs().max())
            if not error < 1e-4:
                raise KernelsUnusable(f"the {self.variant.name} kernels miscompute {bits} bits by {error}")
