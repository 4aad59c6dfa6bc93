"""RMS norm of rows, alone or together with the sum that comes before it.

Called by the decoder. Types are those of `kernels.reference.rms_norm`: the mean square in float32, the product with the weight
in the weight's type, which may be wider than the rows (Gemma's), the result in the rows' type.

    rows, hidden, added   [..., width] float32, bfloat16 or float16, contiguous in the last dimension
    weight                [width], or [heads, width] for rows [..., heads, width]
    grid                  one program a row
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


def rms_norm(rows: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """See `kernels.reference`."""
    flat, weights = _flat(rows, weight)
    normed = torch.empty_like(rows, memory_format=torch.contiguous_format)
    _norm[(flat.shape[0],)](
        flat, weights, normed, epsilon, flat.stride(0), weights.shape[0], WIDTH=rows.shape[-1], **_sizes(rows.shape[-1])
    )
    return normed


def add_rms_norm(
    hidden: torch.Tensor,
    added: torch.Tensor,
    weight: torch.Tensor,
    epsilon: float,
    added_weight: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """See `kernels.reference`: `hidden` plus `added`, and the norm of that."""
    rows, weights = _flat(hidden, weight)
    other, added_weights = _flat(added, weight if added_weight is None else added_weight)
    if other.shape != rows.shape or added.dtype != hidden.dtype:
        raise ValueError(
            f"{list(hidden.shape)} {hidden.dtype} and {list(added.shape)} {added.dtype} cannot be added row by row"
        )
    summed = torch.empty_like(hidden, memory_format=torch.contiguous_format)
    normed = torch.empty_like(summed)
    _add_norm[(rows.shape[0],)](
        rows,
        other,
        weights,
        added_weights,
        summed,
        normed,
        epsilon,
        rows.stride(0),
        other.stride(0),
        WIDTH=hidden.shape[-1],
        ADDED_NORM=added_weight is not None,
        **_sizes(hidden.shape[-1]),
    )
    return summed, normed


def _flat(rows: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both as [count, width]. Rows are copied only where no view of them has all rows at one distance."""
    width = rows.shape[-1]
    if weight.shape[-1] != width or rows.shape[rows.dim() - weight.dim() :] != weight.shape:
        raise ValueError(f"a weight of {list(weight.shape)} does not fit rows of {list(rows.shape)}")
    flat = rows.reshape(-1, width)
    return (flat if flat.stride(1) == 1 else flat.contiguous()), weight.contiguous().view(-1, width)


def _sizes(width: int) -> dict[str, int]:
    block = triton.next_power_of_2(width)
    return {"BLOCK": block, "num_warps": min(max(block // 512, 1), 16)}


@triton.jit
def normed_by(wide, weight, epsilon, WIDTH: tl.constexpr, ROW: tl.constexpr):
    """`wide`, float32 with zeros beyond WIDTH, over its root mean square and times `weight`, rounded as the reference rounds."""
    scaled = wide * tl.rsqrt(tl.sum(wide * wide, 0) / WIDTH + epsilon)
    product = weight.to(tl.float32) * scaled.to(weight.dtype).to(tl.float32)
    return product.to(weight.dtype).to(ROW)


@triton.jit
def _norm(rows, weights, normed, epsilon, stride, weight_rows, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    present = columns < WIDTH
    wide = tl.load(rows + row * stride + columns, mask=present, other=0.0).to(tl.float32)
    weight = tl.load(weights + row % weight_rows * WIDTH + columns, mask=present, other=0.0)
    result = normed_by(wide, weight, epsilon, WIDTH, normed.dtype.element_ty)
    tl.store(normed + row * WIDTH + columns, result, mask=present)


@triton.jit
def _add_norm(
    hidden,
    added,
    weights,
    added_weights,
    summed,
    normed,
    epsilon,
    hidden_stride,
    added_stride,
    WIDTH: tl.constexpr,
    ADDED_NORM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    present = columns < WIDTH
    more = tl.load(added + row * added_stride + columns, mask=present, other=0.0)
    if ADDED_NORM:
        added_weight = tl.load(added_weights + columns, mask=present, other=0.0)
        more = normed_by(more.to(tl.float32), added_weight, epsilon, WIDTH, summed.dtype.element_ty)
    before = tl.load(hidden + row * hidden_stride + columns, mask=present, other=0.0)
    # Rounded to the rows' type before it is normed: that is what is kept, and what the reference norms.
    after = (before.to(tl.float32) + more.to(tl.float32)).to(summed.dtype.element_ty)
    tl.store(summed + row * WIDTH + columns, after, mask=present)
    weight = tl.load(weights + columns, mask=present, other=0.0)
    result = normed_by(after.to(tl.float32), weight, epsilon, WIDTH, normed.dtype.element_ty)
    tl.store(normed + row * WIDTH + columns, result, mask=present)
