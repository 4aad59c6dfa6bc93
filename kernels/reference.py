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
    """Each row over its root mean square, times `weight`; the mean is taken in float32 whatever the rows are.

    The product is taken in the type of `weight`, which may be wider than the rows; the result is as wide as the rows.
    """
    wide = rows.float()
    scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
    return (weight * scaled.to(weight.dtype)).to(rows.dtype)


def add_rms_norm(
    hidden: torch.Tensor,
    added: torch.Tensor,
    weight: torch.Tensor,
    epsilon: float,
    added_weight: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`hidden` plus `added`, and the norm of that sum. Where there is an `added_weight`, `added` is normed by it before."""
    if added_weight is not None:
        added = rms_norm(added, added_weight, epsilon)
    summed = hidden + added
    return summed, rms_norm(summed, weight, epsilon)


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """[T, 2 * width], gate first: SiLU of the gate times the other half, [T, width]."""
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.silu(gate).mul_(up)


def gelu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """[T, 2 * width], gate first: GELU of the gate, in its approximation by tanh, times the other half, [T, width]."""
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.gelu(gate, approximate="tanh").mul_(up)


def soft_cap(values: torch.Tensor, cap: float) -> torch.Tensor:
    """Values bent to stay between minus `cap` and `cap`; modifies nothing."""
    return (values / cap).tanh_().mul_(cap)


@dataclass(frozen=True, slots=True)
class RotaryAngles:
    """Cosines and sines of one step's positions, [T, 1, head_size]. The first half of the sines is negated, so that turning
    a head is `head * cosines + swapped_halves * sines`."""

    cosines: torch.Tensor
    sines: torch.Tensor


def rotary_angles(
    positions: torch.Tensor, inverse_frequencies: torch.Tensor, dtype: torch.dtype, magnitude: float = 1.0
) -> RotaryAngles:
    """Once per step, for all layers that turn alike; computed in float32.

    Frequencies are the same for all positions, [head_size / 2], or a row for each. Turned heads grow by `magnitude`.
    """
    angles = positions.to(torch.float32)[:, None] * inverse_frequencies
    cosines, sines = angles.cos(), angles.sin()
    if magnitude != 1.0:
        cosines, sines = cosines * magnitude, sines * magnitude
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
    head_norm: torch.Tensor | None = None,
    epsilon: float = 0.0,
) -> torch.Tensor:
    """Turn the queries and keys of `qkv` by their positions, write keys and values to their slots, return the queries.

    `qkv` is [T, (heads + 2 * kv_heads) * head_size], queries first, then keys, then values. Modifies `keys` and `values`.
    Where there is a `head_norm`, [heads + kv_heads, head_size], each query and key goes through `rms_norm` before it is turned.
    """
    kv_heads, head_size = keys.shape[2:]
    by_head = qkv.view(qkv.shape[0], -1, head_size)
    turning, value_rows = by_head[:, :-kv_heads], by_head[:, -kv_heads:]
    if head_norm is not None:
        turning = rms_norm(turning, head_norm, epsilon)
    turned = turning * angles.cosines + turning.roll(head_size // 2, dims=-1) * angles.sines
    keys.view(-1, kv_heads, head_size).index_copy_(0, slots, turned[:, -kv_heads:].to(keys.dtype))
    values.view(-1, kv_heads, head_size).index_copy_(0, slots, value_rows.to(values.dtype))
    return turned[:, :-kv_heads]


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """Rows with one query each and block tables of similar length, computed in one call.

    `rows` is None when the group is the whole batch, in order. `pages` is [n * P]; a row with fewer pages repeats the first one
    it sees, which is masked, so that nothing of another sequence is read. `mask` is [n, 1, 1, P * page_tokens], added to the
    scores.
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
    """Who attends to what in this step: made once, used in every layer with the same window."""

    groups: Sequence[DecodeGroup]
    chunks: Sequence[PromptChunk]


def plan_attention(
    query_starts: torch.Tensor,
    context_lens: torch.Tensor,
    block_tables: torch.Tensor,
    page_tokens: int,
    dtype: torch.dtype,
    window_tokens: int | None = None,
) -> AttentionPlan:
    """Sort the batch into groups of decoding rows and chunks of prompts.

    With a window a query sees its own token and the `window_tokens - 1` before it, and pages before all of a sequence's windows
    are not read:

        table    [ page | page | page | page | page ]      page_tokens 4, window_tokens 6, one query at position 17
        read                   [ 8 .. | 12 . | 16 . ]      of which 12 to 17 are seen

    Decoding rows are grouped by the power of two the count of their pages to read falls into, so that a short row never reads
    more than twice its pages because a long one is beside it.
    """
    device = block_tables.device
    starts, lengths = query_starts.tolist(), context_lens.tolist()
    by_size: dict[int, list[int]] = {}
    first_pages = []
    chunks = []
    for index, length in enumerate(lengths):
        start, end = starts[index], starts[index + 1]
        first_query = length - (end - start)
        first_page = 0 if window_tokens is None else max(0, first_query + 1 - window_tokens) // page_tokens
        end_page = -(-length // page_tokens)
        first_pages.append(first_page)
        if end - start == 1:
            by_size.setdefault(max(end_page - first_page, SMALLEST_GROUP_PAGES).bit_length(), []).append(index)
        else:
            columns = torch.arange(first_page * page_tokens, end_page * page_tokens, device=device)[None, :]
            queries = torch.arange(first_query, length, device=device)[:, None]
            visible = columns <= queries
            if window_tokens is not None:
                visible &= columns > queries - window_tokens
            chunks.append(PromptChunk(start, end, block_tables[index, first_page:end_page], visible))
    whole_batch = len(by_size) == 1 and not chunks
    groups = []
    for members in by_size.values():
        rows = None if whole_batch else torch.tensor([starts[index] for index in members], device=device)
        tables = block_tables if whole_batch else block_tables[members]
        ends = context_lens[:, None] if whole_batch else context_lens[members, None]
        pages = max(-(-lengths[index] // page_tokens) - first_pages[index] for index in members)
        positions = torch.arange(pages * page_tokens, device=device)[None, :]
        if window_tokens is None:
            read = tables[:, :pages]
        else:
            firsts = torch.tensor([first_pages[index] for index in members], device=device)[:, None]
            positions = positions + firsts * page_tokens
            # A column beyond the tables is beyond this row's end too, and is not used.
            read = tables.gather(1, (firsts + torch.arange(pages, device=device)).clamp(max=tables.shape[1] - 1))
        read = torch.where(positions[:, ::page_tokens] >= ends, read[:, :1], read)
        hidden = positions >= ends
        if window_tokens is not None:
            hidden |= positions < ends - window_tokens
        mask = torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, float("-inf"))
        groups.append(DecodeGroup(rows, read.reshape(-1), mask[:, None, None, :]))
    return AttentionPlan(groups, chunks)


@dataclass(frozen=True, slots=True)
class ScoreRule:
    """How scores are made of products: times `scale`, and bent by `soft_cap` where there is a cap."""

    scale: float
    cap: float | None = None


def paged_attention(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    plan: AttentionPlan,
    rule: ScoreRule | None = None,
) -> torch.Tensor:
    """Dot-product attention of [T, heads, head_size] queries over the pages of their sequences; the same shape.

    Without a rule, scores are scaled by one over the root of the head's size.
    """
    rule = rule or ScoreRule(queries.shape[-1] ** -0.5)
    if len(plan.groups) == 1 and plan.groups[0].rows is None:
        return _attend_group(queries, keys, values, plan.groups[0], rule)
    attended = torch.empty_like(queries, memory_format=torch.contiguous_format)
    for group in plan.groups:
        attended[group.rows] = _attend_group(queries[group.rows], keys, values, group, rule)
    for chunk in plan.chunks:
        rows = slice(chunk.start, chunk.end)
        heads_first = queries[rows].transpose(0, 1)[None]
        attended[rows] = _attend(heads_first, keys, values, chunk.pages, chunk.mask, rule)[0].transpose(0, 1)
    return attended


def _attend_group(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, group: DecodeGroup, rule: ScoreRule
) -> torch.Tensor:
    return _attend(queries[:, :, None], keys, values, group.pages, group.mask, rule)[:, :, 0]


def _attend(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    pages: torch.Tensor,
    mask: torch.Tensor,
    rule: ScoreRule,
) -> torch.Tensor:
    """Attention of [n, heads, queries, head_size] over n sequences, whose pages stand one sequence after the other."""
    count, heads = queries.shape[:2]
    kv_heads, head_size = keys.shape[2:]
    # [n, kv_heads, tokens, head_size]: gathering copies the pages once; the turned view costs nothing.
    own_keys = keys.index_select(0, pages).view(count, -1, kv_heads, head_size).transpose(1, 2)
    own_values = values.index_select(0, pages).view(count, -1, kv_heads, head_size).transpose(1, 2)
    if rule.cap is not None:
        return _attend_capped(queries, own_keys, own_values, mask, rule.scale, rule.cap)
    return functional.scaled_dot_product_attention(
        queries, own_keys, own_values, attn_mask=mask, scale=rule.scale, enable_gqa=kv_heads != heads
    )


def _attend_capped(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, scale: float, cap: float
) -> torch.Tensor:
    """Torch's own attention has no place for a cap, so its steps are taken one by one, with the softmax in float32."""
    count, heads, rows, head_size = queries.shape
    by_kv_head = queries.reshape(count, keys.shape[1], -1, rows, head_size)
    scores = soft_cap((by_kv_head @ keys[:, :, None].transpose(-1, -2)).float() * scale, cap)
    if mask.dtype == torch.bool:
        scores.masked_fill_(~mask, float("-inf"))
    else:
        scores += mask[:, :, None]
    weights = scores.softmax(-1).to(values.dtype)
    return (weights @ values[:, :, None]).view(count, heads, rows, head_size)
