"""Blocks of a GGUF file to float32, or as they are to those that compute with them.

The formulas are those of the `gguf` package, which does all types in numpy. The two types that the bundled model is made of
are repeated here in torch, because numpy takes four times as long and a start waits for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from engine.model.gguf_blocks import BlockType
from engine.model.read_only import read_only_tensor
from kernels.packed_matrix import Blocks, ByteBlocks, SmallBlocks

_PLAIN: Final = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def dequantise(raw: npt.NDArray[np.uint8], kind: BlockType, shape: tuple[int, ...]) -> torch.Tensor:
    """The tensor of `shape` that these bytes are; a view of them where they are float32 already."""
    if kind.name in _PLAIN:
        return read_only_tensor(raw).view(_PLAIN[kind.name]).float().view(shape)
    if kind.name in _IN_TORCH:
        return _IN_TORCH[kind.name](read_only_tensor(raw)).view(shape)
    # Imported where it is needed: it takes a tenth of a second.
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    rows = raw.reshape(math.prod(shape[:-1]), -1)
    return torch.from_numpy(dequantize(rows, GGMLQuantizationType(kind.number))).view(shape)


PACKABLE: Final = {"Q4_0": 4, "Q4_1": 4, "Q8_0": 8}
"""Types whose blocks the CPU kernels compute with as they are, and their bits."""


def blocks_of(raw: npt.NDArray[np.uint8], kind: BlockType, shape: tuple[int, ...]) -> Blocks:
    """The blocks of a matrix of one of the `PACKABLE` types, not rounded again; views of these bytes where that is possible."""
    block = read_only_tensor(raw).view(shape[0], shape[1] // 32, -1)
    scales = block[..., :2].contiguous().view(torch.float16)[..., 0]
    match kind.name:
        case "Q8_0":
            return ByteBlocks(block[..., 2:].view(torch.int8), scales)
        case "Q4_1":
            return SmallBlocks(block[..., 4:], scales, block[..., 2:4].contiguous().view(torch.float16)[..., 0])
        case _:
            # Q4_0 keeps nibbles with 8 added; 8 times a scale is as exact as the scale.
            return SmallBlocks(block[..., 2:], scales, scales * -8)


def _q4_1(raw: torch.Tensor) -> torch.Tensor:
    """Blocks of 32: scale and minimum in float16, then 16 bytes, low nibbles first."""
    blocks = raw.view(-1, 20)
    scales = blocks[:, :4].contiguous().view(torch.float16).float()
    wide = torch.empty(blocks.shape[0], 32)
    wide[:, :16] = blocks[:, 4:] & 15
    wide[:, 16:] = blocks[:, 4:] >> 4
    return wide.mul_(scales[:, :1]).add_(scales[:, 1:])


def _q8_0(raw: torch.Tensor) -> torch.Tensor:
    """Blocks of 32: scale in float16, then 32 signed bytes."""
    blocks = raw.view(-1, 34)
    scales = blocks[:, :2].contiguous().view(torch.float16).float()
    return blocks[:, 2:].view(torch.int8).float().mul_(scales)


_IN_TORCH: Final[dict[str, Callable[[torch.Tensor], torch.Tensor]]] = {"Q4_1": _q4_1, "Q8_0": _q8_0}
