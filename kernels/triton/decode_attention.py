"""Attention of decoding rows, one query per sequence, over its pages: split over the context, then put together.

Called by `attention`. The context is cut into parts that are computed at the same time, so that a few long streams fill the
device too; each part leaves its own softmax and the logarithm of its sum, by which a second kernel weighs them (Flash-Decoding:
Dao, Haziza, Massa and Sizov, 2023). All query heads that share a key head are the rows of one program, so that a page is
read once for all of them.

    grid      (sequences, kv_heads, splits)                   then (sequences, heads)
    parts     [sequences, heads, splits, head_size] float32   and their log-sums [sequences, heads, splits]

Sequences with more than one query in this step are left to `prefill_attention`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.reference import ScoreRule
from kernels.triton.pages import PageScales
from kernels.triton.plan import AttentionPlan
from kernels.triton.tile import attend_tile, product_type

REDUCED_AT_ONCE = 16
"""Parts that the second kernel holds at a time."""


def attend_decoding(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    plan: AttentionPlan,
    rule: ScoreRule,
    scales: PageScales | None,
    attended: torch.Tensor,
) -> None:
    """Writes the rows of `attended`, [T, heads, head_size], that belong to sequences with one query."""
    _, heads, head_size = queries.shape
    kv_heads = keys.shape[2]
    splits = plan.splits
    padded = max(triton.next_power_of_2(head_size), 16)
    parts, log_sums = attended, attended
    if splits > 1:
        parts = queries.new_empty((plan.sequences, heads, splits, head_size), dtype=torch.float32)
        log_sums = queries.new_empty((plan.sequences, heads, splits), dtype=torch.float32)
    tile = tile_tokens(padded, queries.dtype, plan.split_tokens)
    _attend_split[(plan.sequences, kv_heads, splits)](
        queries,
        keys,
        values,
        scales.keys if scales else keys,
        scales.values if scales else values,
        plan.query_starts,
        plan.context_lens,
        plan.block_tables,
        attended,
        parts,
        log_sums,
        rule.scale,
        rule.cap or 1.0,
        kv_heads,
        splits,
        plan.block_tables.stride(0),
        queries.stride(0),
        queries.stride(1),
        SHARED=heads // kv_heads,
        SHARED_PADDED=max(triton.next_power_of_2(heads // kv_heads), 16),
        SPLIT=plan.split_tokens,
        TILE=tile,
        WINDOW=plan.window_tokens or 0,
        PAGE_TOKENS=plan.page_tokens,
        HEAD_SIZE=head_size,
        HEAD_PADDED=padded,
        CAPPED=rule.cap is not None,
        SCALED=scales is not None,
        PRODUCT=product_type(queries.dtype),
        WHOLE=splits == 1,
        num_warps=4,
        num_stages=2,
    )
    if splits > 1:
        _reduce_splits[(plan.sequences, heads)](
            parts,
            log_sums,
            plan.query_starts,
            plan.context_lens,
            attended,
            heads,
            splits,
            SPLIT=plan.split_tokens,
            WINDOW=plan.window_tokens or 0,
            HEAD_SIZE=head_size,
            HEAD_PADDED=padded,
            AT_ONCE=REDUCED_AT_ONCE,
            num_warps=4,
        )


def tile_tokens(head_padded: int, dtype: torch.dtype, most: int) -> int:
    """Tokens of one tile: keys of at most 16 KiB, so that two stages of keys and values fit into any device's shared memory."""
    return max(16, min(64, 16384 // (head_padded * dtype.itemsize), most))


@triton.jit
def first_split(context, SPLIT: tl.constexpr, WINDOW: tl.constexpr):
    """The first part of the context of which the query sees something."""
    first = context * 0
    if WINDOW > 0:
        first = tl.maximum(context - WINDOW, 0) // SPLIT
    return first


@triton.jit
def _attend_split(
    queries,
    keys,
    values,
    key_scales,
    value_scales,
    query_starts,
    context_lens,
    block_tables,
    attended,
    parts,
    log_sums,
    scale,
    cap,
    kv_heads,
    splits,
    table_stride,
    query_stride,
    head_stride,
    SHARED: tl.constexpr,
    SHARED_PADDED: tl.constexpr,
    SPLIT: tl.constexpr,
    TILE: tl.constexpr,
    WINDOW: tl.constexpr,
    PAGE_TOKENS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
    CAPPED: tl.constexpr,
    SCALED: tl.constexpr,
    PRODUCT: tl.constexpr,
    WHOLE: tl.constexpr,
):
    sequence, kv_head, place = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    row = tl.load(query_starts + sequence).to(tl.int64)
    if tl.load(query_starts + sequence + 1) - row != 1:
        return
    context = tl.load(context_lens + sequence)
    begin = (first_split(context, SPLIT, WINDOW) + place) * SPLIT
    if not WHOLE and begin >= context:
        return
    shared = tl.arange(0, SHARED_PADDED)
    columns = tl.arange(0, HEAD_PADDED)
    heads = kv_head * SHARED + shared
    present = (shared < SHARED)[:, None] & (columns < HEAD_SIZE)[None, :]
    query_rows = tl.load(
        queries + row * query_stride + heads[:, None] * head_stride + columns[None, :], mask=present, other=0.0
    ).to(PRODUCT)
    positions = tl.zeros([SHARED_PADDED], dtype=tl.int64) + context - 1
    maximum = tl.full([SHARED_PADDED], float("-inf"), dtype=tl.float32)
    total = tl.zeros([SHARED_PADDED], dtype=tl.float32)
    weighted = tl.zeros([SHARED_PADDED, HEAD_PADDED], dtype=tl.float32)
    end = tl.minimum(begin + SPLIT, context)
    first = begin
    if WINDOW > 0:
        # Whole tiles before the window are passed over.
        first = tl.maximum(context - WINDOW, begin)
        begin += (first - begin) // TILE * TILE
    for start in range(begin, end, TILE):
        maximum, total, weighted = attend_tile(
            query_rows,
            positions,
            maximum,
            total,
            weighted,
            start + tl.arange(0, TILE),
            first,
            end,
            block_tables + sequence.to(tl.int64) * table_stride,
            keys,
            values,
            key_scales,
            value_scales,
            kv_head,
            kv_heads,
            scale,
            cap,
            WINDOW,
            PAGE_TOKENS,
            HEAD_SIZE,
            HEAD_PADDED,
            CAPPED,
            SCALED,
            PRODUCT,
        )
    mean = weighted / tl.where(total > 0.0, total, 1.0)[:, None]
    if WHOLE:
        places = (row * kv_heads * SHARED + heads)[:, None] * HEAD_SIZE + columns[None, :]
        tl.store(attended + places, mean.to(attended.dtype.element_ty), mask=present)
    else:
        part = (sequence.to(tl.int64) * kv_heads * SHARED + heads) * splits + place
        tl.store(parts + part[:, None] * HEAD_SIZE + columns[None, :], mean, mask=present)
        tl.store(log_sums + part, maximum + tl.log(total), mask=shared < SHARED)


@triton.jit
def _reduce_splits(
    parts,
    log_sums,
    query_starts,
    context_lens,
    attended,
    heads,
    splits,
    SPLIT: tl.constexpr,
    WINDOW: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
    AT_ONCE: tl.constexpr,
):
    sequence, head = tl.program_id(0), tl.program_id(1)
    row = tl.load(query_starts + sequence).to(tl.int64)
    if tl.load(query_starts + sequence + 1) - row != 1:
        return
    context = tl.load(context_lens + sequence)
    count = tl.cdiv(context, SPLIT) - first_split(context, SPLIT, WINDOW)
    columns = tl.arange(0, HEAD_PADDED)
    first = (sequence.to(tl.int64) * heads + head) * splits
    maximum = tl.full([], float("-inf"), dtype=tl.float32)
    total = tl.zeros([], dtype=tl.float32)
    weighted = tl.zeros([HEAD_PADDED], dtype=tl.float32)
    for start in range(0, count, AT_ONCE):
        places = start + tl.arange(0, AT_ONCE)
        log_sum = tl.load(log_sums + first + places, mask=places < count, other=float("-inf"))
        new_maximum = tl.maximum(maximum, tl.max(log_sum, 0))
        weights = tl.exp(log_sum - new_maximum)
        shrink = tl.exp(maximum - new_maximum)
        present = (places < count)[:, None] & (columns < HEAD_SIZE)[None, :]
        part = tl.load(parts + (first + places)[:, None] * HEAD_SIZE + columns[None, :], mask=present, other=0.0)
        weighted = weighted * shrink + tl.sum(part * weights[:, None], 0)
        total = total * shrink + tl.sum(weights, 0)
        maximum = new_maximum
    mean = weighted / tl.where(total > 0.0, total, 1.0)
    places = (row * heads + head) * HEAD_SIZE + columns
    tl.store(attended + places, mean.to(attended.dtype.element_ty), mask=columns < HEAD_SIZE)
