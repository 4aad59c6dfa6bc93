"""The decoder's tensor operations in plain torch: the definition of what every other implementation must compute.

Called by the decoder, on whatever device its tensors are. The operations see rows, slots and pages, never who they belong
to, and attention reads no page outside the block tables it is given.

Keys and values of a layer are [pages, page_tokens, kv_heads, head_size]; a slot is `page * page_tokens + offset`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

SMALLEST_GROUP_PAGES = 4
"""Decode rows with no more pages than this are computed together: below, a padded page costs less than another call."""


def rms_norm(rows: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Each row over its root mean square, times `weight`; the mean is taken in float32 whatever the rows are."""
    wide = rows.float()
    scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
    return weight * scaled.to(rows.dtype)


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """[T, 2 * width], gate first: SiLU of the gate times the other half, [T, width]."""
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.silu(gate).mul_(up)


@dataclass(frozen=True, slots=True)
class RotaryAngles:
    """Cosines and sines of one step's positions, [T, 1, head_size]. The first half of the sines is negated, so that turning
    a head is `head * cosines + swapped_halves * sines`."""

    cosines: torch.Tensor
    sines: torch.Tensor


def rotary_angles(positions: torch.Tensor, inverse_frequencies: torch.Tensor, dtype: torch.dtype) -> RotaryAngles:
    """Once per step, for all layers; computed in float32."""
    angles = positions.to(torch.float32)[:, None] * inverse_frequencies[None, :]
    cosines, sines = angles.cos(), angles.sin()
    return RotaryAngles(
        torch.cat((cosines, cosines), dim=-1)[:, None, :].to(dtype),
        torch.cat((-sines, sines), dim=-1)[:, None, :].to(dtype),
    )


def rotate_and_store(
    qkv: torch.Tensor,
    angles: RotaryAngles,
    slots: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
) -> torch.Tensor:
    """Turn the queries and keys of `qkv` by their positions, write keys and values to their slots, return the queries.

    `qkv` is [T, (heads + 2 * kv_heads) * head_size], queries first, then keys, then values. Modifies `keys` and `values`.
    """
    kv_heads, head_size = keys.shape[2:]
    by_head = qkv.view(qkv.shape[0], -1, head_size)
    turning, value_rows = by_head[:, :-kv_heads], by_head[:, -kv_heads:]
    turned = turning * angles.cosines + turning.roll(head_size // 2, dims=-1) * angles.sines
    keys.view(-1, kv_heads, head_size).index_copy_(0, slots, turned[:, -kv_heads:].to(keys.dtype))
    values.view(-1, kv_heads, head_size).index_copy_(0, slots, value_rows.to(values.dtype))
    return turned[:, :-kv_heads]


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """Rows with one query each and block tables of similar length, computed in one call.

    `rows` is None when the group is the whole batch, in order. `pages` is [n * P]; a row with fewer pages repeats its own
    first one, which is masked, so that nothing of another sequence is read. `mask` is [n, 1, 1, P * page_tokens], added to
    the scores.
    """

    rows: torch.Tensor | None
    pages: torch.Tensor
    mask: torch.Tensor


@dataclass(frozen=True, slots=True)
class PromptChunk:
    """Several queries of one sequence: rows `start` to `end`, which are the last tokens of its context.

    `mask` is [queries, P * page_tokens], True where a query may look.
    """

    start: int
    end: int
    pages: torch.Tensor
    mask: torch.Tensor


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """Who attends to what in this step: made once, used in every layer."""

    groups: Sequence[DecodeGroup]
    chunks: Sequence[PromptChunk]


def plan_attention(
    query_starts: torch.Tensor,
    context_lens: torch.Tensor,
    block_tables: torch.Tensor,
    page_tokens: int,
    dtype: torch.dtype,
) -> AttentionPlan:
    """Sort the batch into groups of decoding rows and chunks of prompts.

    Decoding rows are grouped by the power of two their page count falls into, so that a short row never reads more than twice
    its pages because a long one is beside it.
    """
    starts, lengths = query_starts.tolist(), context_lens.tolist()
    by_size: dict[int, list[int]] = {}
    chunks = []
    for index, length in enumerate(lengths):
        start, end = starts[index], starts[index + 1]
        pages = -(-length // page_tokens)
        if end - start == 1:
            by_size.setdefault(max(pages, SMALLEST_GROUP_PAGES).bit_length(), []).append(index)
        else:
            first_position = length - (end - start)
            columns = torch.arange(pages * page_tokens)
            visible = columns[None, :] <= torch.arange(first_position, length)[:, None]
            chunks.append(PromptChunk(start, end, block_tables[index, :pages], visible))
    whole_batch = len(by_size) == 1 and not chunks
    groups = []
    for members in by_size.values():
        pages = -(-max(lengths[index] for index in members) // page_tokens)
        group_lengths = context_lens if whole_batch else context_lens[members]
        tables = block_tables[:, :pages] if whole_batch else block_tables[members, :pages]
        unused = torch.arange(pages)[None, :] * page_tokens >= group_lengths[:, None]
        tables = torch.where(unused, tables[:, :1], tables)
        hidden = torch.arange(pages * page_tokens)[None, :] >= group_lengths[:, None]
        mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, float("-inf"))
        rows = None if whole_batch else torch.tensor([starts[index] for index in members])
        groups.append(DecodeGroup(rows, tables.reshape(-1), mask[:, None, None, :]))
    return AttentionPlan(groups, chunks)


def paged_attention(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, plan: AttentionPlan
) -> torch.Tensor:
    """Scaled dot-product attention of [T, heads, head_size] queries over the pages of their sequences; the same shape."""
    if len(plan.groups) == 1 and plan.groups[0].rows is None:
        return _attend_group(queries, keys, values, plan.groups[0])
    attended = torch.empty_like(queries, memory_format=torch.contiguous_format)
    for group in plan.groups:
        attended[group.rows] = _attend_group(queries[group.rows], keys, values, group)
    for chunk in plan.chunks:
        rows = slice(chunk.start, chunk.end)
        heads_first = queries[rows].transpose(0, 1)[None]
        attended[rows] = _attend(heads_first, keys, values, chunk.pages, chunk.mask)[0].transpose(0, 1)
    return attended


def _attend_group(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, group: DecodeGroup) -> torch.Tensor:
    return _attend(queries[:, :, None], keys, values, group.pages, group.mask)[:, :, 0]


def _attend(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, pages: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Attention of [n, heads, queries, head_size] over n sequences, whose pages stand one sequence after the other."""
    count, heads = queries.shape[:2]
    kv_heads, head_size = keys.shape[2:]
    # [n, kv_heads, tokens, head_size]: gathering copies the pages once; the turned view costs nothing.
    own_keys = keys.index_select(0, pages).view(count, -1, kv_heads, head_size).transpose(1, 2)
    own_values = values.index_select(0, pages).view(count, -1, kv_heads, head_size).transpose(1, 2)
    return functional.scaled_dot_product_attention(
        queries, own_keys, own_values, attn_mask=mask, enable_gqa=kv_heads != heads
    )
