"""Queries and keys are normed where the model does, turned by their position, and keys and values written to their pages.

Called by the decoder once per layer, in place of four passes over the same rows. Rotary embedding in halves (Su et al., 2021,
as GPT-NeoX lays it out): number i of a head turns with number i + head_size / 2. Products and sums are rounded to the rows'
type as `kernels.reference` rounds them.

    qkv       [T, (heads + 2 * kv_heads) * head_size], queries first, then keys, then values
    grid      (T, heads + 2 * kv_heads): a program a head
    slots     [T]; a negative one is padding: nothing is written for that token
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.reference import RotaryAngles
from kernels.triton.pages import LARGEST_QUANTISED, PageScales, check_pages


def rotate_and_store(
    qkv: torch.Tensor,
    angles: RotaryAngles,
    slots: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    head_norm: torch.Tensor | None = None,
    epsilon: float = 0.0,
    scales: PageScales | None = None,
) -> torch.Tensor:
    """See `kernels.reference`. Pages in int8 or float8 have `scales`, which are written with them."""
    check_pages(keys, values, scales)
    kv_heads, head_size = keys.shape[2:]
    tokens, width = qkv.shape
    all_heads = width // head_size
    if qkv.stride(1) != 1 or head_size % 2 or width % head_size:
        raise ValueError(f"rows of {list(qkv.shape)}, {qkv.stride()}, are not heads of {head_size} numbers")
    turned = qkv.new_empty((tokens, all_heads - 2 * kv_heads, head_size))
    _rotate[(tokens, all_heads)](
        qkv,
        angles.cosines.contiguous(),
        angles.sines.contiguous(),
        slots.contiguous(),
        qkv if head_norm is None else head_norm.contiguous(),
        turned,
        keys,
        values,
        scales.keys if scales else keys,
        scales.values if scales else values,
        epsilon,
        LARGEST_QUANTISED.get(keys.dtype, 1.0),
        qkv.stride(0),
        kv_heads,
        HALF=head_size // 2,
        HALF_PADDED=triton.next_power_of_2(head_size // 2),
        NORMED=head_norm is not None,
        SCALED=scales is not None,
        WHOLE_NUMBERS=keys.dtype == torch.int8,
        num_warps=1,
    )
    return turned


@triton.jit
def _store(
    low,
    high,
    pages,
    scales,
    place,
    largest,
    HALF: tl.constexpr,
    HALF_PADDED: tl.constexpr,
    SCALED: tl.constexpr,
    WHOLE_NUMBERS: tl.constexpr,
):
    """The two halves of one head to its place, scaled so that the largest number is `largest` where pages have scales."""
    columns = tl.arange(0, HALF_PADDED)
    present = columns < HALF
    if SCALED:
        low, high = low.to(tl.float32), high.to(tl.float32)
        size = tl.maximum(tl.max(tl.abs(low), 0), tl.max(tl.abs(high), 0))
        scale = tl.where(size > 0.0, size / largest, 1.0)
        # The quotient of the largest may be rounded beyond what the type can hold.
        low = tl.minimum(tl.maximum(low / scale, -largest), largest)
        high = tl.minimum(tl.maximum(high / scale, -largest), largest)
        if WHOLE_NUMBERS:
            low, high = tl.floor(low + 0.5), tl.floor(high + 0.5)
        tl.store(scales + place, scale)
    row = pages + place * (2 * HALF)
    tl.store(row + columns, low.to(pages.dtype.element_ty), mask=present)
    tl.store(row + HALF + columns, high.to(pages.dtype.element_ty), mask=present)


@triton.jit
def _rotate(
    qkv,
    cosines,
    sines,
    slots,
    head_norm,
    turned,
    keys,
    values,
    key_scales,
    value_scales,
    epsilon,
    largest,
    stride,
    kv_heads,
    HALF: tl.constexpr,
    HALF_PADDED: tl.constexpr,
    NORMED: tl.constexpr,
    SCALED: tl.constexpr,
    WHOLE_NUMBERS: tl.constexpr,
):
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    heads = tl.num_programs(1) - 2 * kv_heads
    columns = tl.arange(0, HALF_PADDED)
    present = columns < HALF
    row = qkv + token * stride + head * (2 * HALF)
    low = tl.load(row + columns, mask=present, other=0.0)
    high = tl.load(row + HALF + columns, mask=present, other=0.0)
    slot = tl.load(slots + token).to(tl.int64)
    if head >= heads + kv_heads:
        if slot >= 0:
            place = slot * kv_heads + head - heads - kv_heads
            _store(low, high, values, value_scales, place, largest, HALF, HALF_PADDED, SCALED, WHOLE_NUMBERS)
        return
    kind = turned.dtype.element_ty
    if NORMED:
        wide_low, wide_high = low.to(tl.float32), high.to(tl.float32)
        squares = tl.sum(wide_low * wide_low, 0) + tl.sum(wide_high * wide_high, 0)
        factor = tl.rsqrt(squares / (2 * HALF) + epsilon)
        weight = head_norm + head * (2 * HALF)
        weight_low = tl.load(weight + columns, mask=present, other=0.0)
        weight_high = tl.load(weight + HALF + columns, mask=present, other=0.0)
        wide_low = (wide_low * factor).to(weight_low.dtype).to(tl.float32) * weight_low.to(tl.float32)
        wide_high = (wide_high * factor).to(weight_high.dtype).to(tl.float32) * weight_high.to(tl.float32)
        low, high = wide_low.to(weight_low.dtype).to(kind), wide_high.to(weight_high.dtype).to(kind)
    # The sines of the first half are negated already; both halves of cosines are the same.
    angle = token * (2 * HALF) + columns
    cosine = tl.load(cosines + angle, mask=present, other=0.0).to(tl.float32)
    low_sine = tl.load(sines + angle, mask=present, other=0.0).to(tl.float32)
    high_sine = tl.load(sines + angle + HALF, mask=present, other=0.0).to(tl.float32)
    wide_low, wide_high = low.to(tl.float32), high.to(tl.float32)
    new_low = (wide_low * cosine).to(kind).to(tl.float32) + (wide_high * low_sine).to(kind).to(tl.float32)
    new_high = (wide_high * cosine).to(kind).to(tl.float32) + (wide_low * high_sine).to(kind).to(tl.float32)
    new_low, new_high = new_low.to(kind), new_high.to(kind)
    if head < heads:
        target = turned + (token * heads + head) * (2 * HALF)
        tl.store(target + columns, new_low, mask=present)
        tl.store(target + HALF + columns, new_high, mask=present)
    else:
        if slot >= 0:
            place = slot * kv_heads + head - heads
            _store(new_low, new_high, keys, key_scales, place, largest, HALF, HALF_PADDED, SCALED, WHOLE_NUMBERS)
