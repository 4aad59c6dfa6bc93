"""Attention of chunks of prompts, several queries per sequence, over their pages: what was there before, and themselves.

Called by `attention`. The batch is flat: sequences of different lengths one after the other. A program has a block of queries
of one sequence, with all heads that share a key head, and goes over the tokens they see in tiles (FlashAttention: Dao et al.,
2022). Which sequence a program's block lies in is found by bisection in `query_starts`, so that the host need not know.

    blocks    sequence s owns blocks query_starts[s] // BLOCK_QUERIES + s and up: never fewer than it needs
    rows      [BLOCK_QUERIES * shared heads, head_size]: all heads of a token, then those of the next

Sequences with one query in this step are left to `decode_attention`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.reference import ScoreRule
from kernels.triton.decode_attention import tile_tokens
from kernels.triton.pages import PageScales
from kernels.triton.plan import AttentionPlan
from kernels.triton.tile import attend_tile, product_type

BLOCK_BYTES = 32768
"""Of the queries of a program: they stay in shared memory beside the tiles."""


def attend_prompts(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    plan: AttentionPlan,
    rule: ScoreRule,
    scales: PageScales | None,
    attended: torch.Tensor,
) -> None:
    """Writes the rows of `attended`, [T, heads, head_size], that belong to sequences with more than one query."""
    tokens, heads, head_size = queries.shape
    kv_heads = keys.shape[2]
    shared = heads // kv_heads
    padded = max(triton.next_power_of_2(head_size), 16)
    rows = max(min(64, BLOCK_BYTES // (padded * queries.element_size())), 16, triton.next_power_of_2(shared))
    block_queries = rows // shared
    _attend_block[(tokens // block_queries + plan.sequences, kv_heads)](
        queries,
        keys,
        values,
        scales.keys if scales else keys,
        scales.values if scales else values,
        plan.query_starts,
        plan.context_lens,
        plan.block_tables,
        attended,
        rule.scale,
        rule.cap or 1.0,
        plan.sequences,
        kv_heads,
        plan.block_tables.stride(0),
        queries.stride(0),
        queries.stride(1),
        SHARED=shared,
        ROWS=rows,
        BLOCK_QUERIES=block_queries,
        TILE=tile_tokens(padded, queries.dtype, 64),
        WINDOW=plan.window_tokens or 0,
        PAGE_TOKENS=plan.page_tokens,
        HEAD_SIZE=head_size,
        HEAD_PADDED=padded,
        CAPPED=rule.cap is not None,
        SCALED=scales is not None,
        PRODUCT=product_type(queries.dtype),
        num_warps=4 if padded <= 128 else 8,
        num_stages=2,
    )


@triton.jit
def _sequence_of(block, query_starts, sequences, BLOCK_QUERIES: tl.constexpr):
    """The last sequence whose first block is not after this one."""
    low, high = sequences * 0, sequences
    while high - low > 1:
        middle = (low + high) // 2
        if tl.load(query_starts + middle) // BLOCK_QUERIES + middle <= block:
            low = middle
        else:
            high = middle
    return low


@triton.jit
def _attend_block(
    queries,
    keys,
    values,
    key_scales,
    value_scales,
    query_starts,
    context_lens,
    block_tables,
    attended,
    scale,
    cap,
    sequences,
    kv_heads,
    table_stride,
    query_stride,
    head_stride,
    SHARED: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_QUERIES: tl.constexpr,
    TILE: tl.constexpr,
    WINDOW: tl.constexpr,
    PAGE_TOKENS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
    CAPPED: tl.constexpr,
    SCALED: tl.constexpr,
    PRODUCT: tl.constexpr,
):
    block, kv_head = tl.program_id(0), tl.program_id(1)
    sequence = _sequence_of(block, query_starts, sequences, BLOCK_QUERIES)
    start = tl.load(query_starts + sequence).to(tl.int64)
    count = tl.load(query_starts + sequence + 1) - start
    first = (block - (start // BLOCK_QUERIES + sequence)) * BLOCK_QUERIES
    if count == 1:
        return
    if first >= count:
        return
    context = tl.load(context_lens + sequence)
    rows = tl.arange(0, ROWS)
    columns = tl.arange(0, HEAD_PADDED)
    query = first + rows // SHARED
    head = kv_head * SHARED + rows % SHARED
    present_rows = (rows < BLOCK_QUERIES * SHARED) & (query < count)
    present = present_rows[:, None] & (columns < HEAD_SIZE)[None, :]
    query_rows = tl.load(
        queries + (start + query)[:, None] * query_stride + head[:, None] * head_stride + columns[None, :],
        mask=present,
        other=0.0,
    ).to(PRODUCT)
    positions = context - count + query
    # What the last query of the block sees is the last token to read, and the first query's window the first.
    end = tl.minimum(context - count + first + BLOCK_QUERIES, context)
    first_seen = end * 0
    if WINDOW > 0:
        first_seen = tl.maximum(context - count + first + 1 - WINDOW, 0)
    maximum = tl.full([ROWS], float("-inf"), dtype=tl.float32)
    total = tl.zeros([ROWS], dtype=tl.float32)
    weighted = tl.zeros([ROWS, HEAD_PADDED], dtype=tl.float32)
    for tile in range(first_seen // TILE * TILE, end, TILE):
        maximum, total, weighted = attend_tile(
            query_rows,
            positions,
            maximum,
            total,
            weighted,
            tile + tl.arange(0, TILE),
            first_seen,
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
    places = ((start + query) * kv_heads * SHARED + head)[:, None] * HEAD_SIZE + columns[None, :]
    tl.store(attended + places, mean.to(attended.dtype.element_ty), mask=present)
