"""One tile of attention: some rows of queries over some tokens of one sequence, in place in its pages.

Called by the kernels of `decode_attention` and `prefill_attention`, from inside them. The softmax is taken as it comes, tile
after tile, with a running maximum and sum (Milakov and Gimelshein, 2018; Dao et al., FlashAttention, 2022). It reads no page
beyond the sequence's own context.

    row       one query head of one token: `positions` says which token of its sequence that is
    tokens    [TILE] positions of the tile; page `table[token // PAGE_TOKENS]`, row `token % PAGE_TOKENS` of it
"""

from __future__ import annotations

from typing import Final

import torch
import triton
import triton.language as tl

_TYPES: Final = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}


def product_type(dtype: torch.dtype) -> tl.dtype:
    """The type in which rows of `dtype` are multiplied; sums are always in float32.

    Triton's interpreter keeps bfloat16 as bits and cannot multiply them. Their products are exact in float32, so there it
    computes what a device does.
    """
    interpreted = triton.knobs.runtime.interpret and dtype == torch.bfloat16
    return tl.float32 if interpreted else _TYPES[dtype]


@triton.jit
def attend_tile(
    queries,
    positions,
    maximum,
    total,
    weighted,
    tokens,
    first,
    end,
    table,
    keys,
    values,
    key_scales,
    value_scales,
    kv_head,
    kv_heads,
    scale,
    cap,
    WINDOW: tl.constexpr,
    PAGE_TOKENS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
    CAPPED: tl.constexpr,
    SCALED: tl.constexpr,
    PRODUCT: tl.constexpr,
):
    """The running maximum, sum and weighted values of each row with this tile taken in.

    Only tokens from `first` on and before `end` are read. `queries` [ROWS, HEAD_PADDED] of PRODUCT, `positions`, `maximum` and
    `total` [ROWS], `weighted` [ROWS, HEAD_PADDED]. A window of 0 is none.
    """
    read = (tokens >= first) & (tokens < end)
    pages = tl.load(table + tokens // PAGE_TOKENS, mask=read, other=0).to(tl.int64)
    places = (pages * PAGE_TOKENS + tokens % PAGE_TOKENS) * kv_heads + kv_head
    columns = tl.arange(0, HEAD_PADDED)
    offsets = places[:, None] * HEAD_SIZE + columns[None, :]
    stored = read[:, None] & (columns < HEAD_SIZE)[None, :]
    key_tile = _loaded(keys + offsets, stored, SCALED, PRODUCT)
    scores = tl.dot(queries, tl.trans(key_tile), input_precision="ieee") * scale
    if SCALED:
        scores *= tl.load(key_scales + places, mask=read, other=0.0)[None, :]
    if CAPPED:
        scores = cap * tanh(scores / cap)
    visible = read[None, :] & (tokens[None, :] <= positions[:, None])
    if WINDOW > 0:
        visible = visible & (tokens[None, :] > positions[:, None] - WINDOW)
    scores = tl.where(visible, scores, float("-inf"))
    new_maximum = tl.maximum(maximum, tl.max(scores, 1))
    # A row that has seen nothing yet would subtract minus infinity from itself.
    base = tl.where(new_maximum == float("-inf"), 0.0, new_maximum)
    weights = tl.exp(scores - base[:, None])
    shrink = tl.exp(maximum - base)
    total = total * shrink + tl.sum(weights, 1)
    if SCALED:
        weights *= tl.load(value_scales + places, mask=read, other=0.0)[None, :]
    value_tile = _loaded(values + offsets, stored, SCALED, PRODUCT)
    gathered = tl.dot(weights.to(PRODUCT), value_tile, input_precision="ieee")
    return new_maximum, total, weighted * shrink[:, None] + gathered


@triton.jit
def _loaded(places, stored, SCALED: tl.constexpr, PRODUCT: tl.constexpr):
    """Rows of pages, 0 where nothing is stored. Numbers of 8 bits go through float32: not every pair of types is converted."""
    rows = tl.load(places, mask=stored, other=0.0)
    if SCALED:
        rows = rows.to(tl.float32)
    return rows.to(PRODUCT)


@triton.jit
def tanh(x):
    """By the exponential of a number that is never positive, which cannot overflow."""
    shrunk = tl.exp(-2.0 * tl.abs(x))
    size = (1.0 - shrunk) / (1.0 + shrunk)
    return tl.where(x < 0.0, -size, size)
