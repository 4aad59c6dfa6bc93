"""The gate of a feed-forward part: SiLU or GELU of one half of each row times the other half, in one pass.

Called by the decoder. GELU is the approximation by tanh (Hendrycks and Gimpel, 2016). The bent gate is rounded to the rows'
type before the product, as `kernels.reference` does.

    gate_up   [T, 2 * width], gate first; float32, bfloat16 or float16
    grid      (T, blocks of columns)
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.triton.tile import tanh

BLOCK = 1024


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """See `kernels.reference`."""
    return _gated(gate_up, gelu=False)


def gelu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """See `kernels.reference`."""
    return _gated(gate_up, gelu=True)


def _gated(gate_up: torch.Tensor, *, gelu: bool) -> torch.Tensor:
    if gate_up.stride(-1) != 1 or gate_up.dim() != 2 or gate_up.shape[1] % 2:
        raise ValueError(f"gate and up must be two halves of rows, and are {list(gate_up.shape)}, {gate_up.stride()}")
    rows, width = gate_up.shape[0], gate_up.shape[1] // 2
    gated = gate_up.new_empty((rows, width))
    block = min(BLOCK, triton.next_power_of_2(width))
    _gate[(rows, triton.cdiv(width, block))](
        gate_up, gated, width, gate_up.stride(0), GELU=gelu, BLOCK=block, num_warps=4
    )
    return gated


@triton.jit
def sigmoid(x):
    """By the exponential of a number that is never positive, which cannot overflow."""
    shrunk = tl.exp(-tl.abs(x))
    return tl.where(x < 0.0, shrunk, 1.0) / (1.0 + shrunk)


@triton.jit
def _gate(gate_up, gated, width, stride, GELU: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    present = columns < width
    gate = tl.load(gate_up + row * stride + columns, mask=present, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * stride + width + columns, mask=present, other=0.0).to(tl.float32)
    if GELU:
        # The root of 2 / pi, and the cubic term's factor.
        bent = 0.5 * gate * (1.0 + tanh(0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)))
    else:
        bent = gate * sigmoid(gate)
    product = bent.to(gated.dtype.element_ty).to(tl.float32) * up
    tl.store(gated + row * width + columns, product.to(gated.dtype.element_ty), mask=present)
