"""Our formulas of quantised blocks are those of the gguf package, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from engine.model.dequantise import dequantise
from engine.model.gguf_blocks import BLOCK_TYPES, BlockType

ROWS, COLUMNS = 6, 512


@pytest.mark.parametrize("kind", BLOCK_TYPES.values(), ids=lambda kind: kind.name)
def test_blocks_become_the_numbers_of_the_gguf_package(kind: BlockType) -> None:
    theirs = GGMLQuantizationType[kind.name]
    assert theirs.value == kind.number
    numbers, size = kind.numbers, kind.size_bytes
    assert GGML_QUANT_SIZES[theirs] == (numbers, size)
    random = np.random.default_rng(0)
    raw = random.integers(0, 256, (ROWS, COLUMNS // numbers * size), dtype=np.uint8)
    if kind.name in ("F32", "F16", "BF16"):
        raw = random.standard_normal((ROWS, raw.shape[1] // 2), dtype=np.float32).astype(np.float16).view(np.uint8)
        raw = raw[:, : COLUMNS // numbers * size].copy()
    with np.errstate(all="ignore"):
        expected = torch.from_numpy(dequantize(raw, theirs).astype(np.float32))
        ours = dequantise(raw.reshape(-1), kind, (ROWS, COLUMNS))
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, expected.view(ROWS, COLUMNS), rtol=0, atol=0, equal_nan=True)
