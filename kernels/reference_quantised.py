"""The operations of the CPU kernels in plain torch: what `kernels/cpu` must compute, up to the order of sums.

Called by tests, and once when the kernels are loaded. Rows are float32, padded with 0 to whole groups of 32 columns. Activations
are rounded to 8 bits in groups of 32; keys, values, queries and the weights of attention to bfloat16, or to 8 bits where pages
are in int8; everything else is float32. Pages are as `kernels/cpu/rotate.h` draws them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from kernels.packed_matrix import GROUP_COLUMNS, PackedMatrix, weights_of
from kernels.reference import gelu_mul, rms_norm, silu_mul, soft_cap

PAGE_TOKENS = 16
PART_TOKENS = 128
"""Of a context, what shares a scale of the rounded weights."""
SCALE_BYTES = 4
QUERY_EXTRA_BYTES = 8
"""A query's scale and the sum of its bytes."""
SMALLEST_MAGNITUDE = 1e-30


@dataclass(frozen=True, slots=True)
class RoundedRows:
    """`values` [rows, groups, 32] int8, `scales` [rows, groups] float32."""

    values: torch.Tensor
    scales: torch.Tensor

    def numbers(self) -> torch.Tensor:
        """What the rows are after rounding, [rows, groups * 32]."""
        return (self.values.float() * self.scales[..., None]).flatten(1)


def quantise_rows(rows: torch.Tensor) -> RoundedRows:
    """The largest magnitude of a group becomes 127; halves are rounded to even."""
    grouped = rows.view(rows.shape[0], -1, GROUP_COLUMNS)
    most = grouped.abs().amax(-1)
    # A number over a tensor is computed by torch as a reciprocal times that number, which rounds twice.
    inverse = torch.where(most > 0, torch.tensor(127.0) / most, 0.0)
    return RoundedRows((grouped * inverse[..., None]).round().to(torch.int8), most / 127)


def norm_and_quantise(rows: torch.Tensor, weight: torch.Tensor, size: int, epsilon: float) -> RoundedRows:
    """RMSNorm of the first `size` columns; what pads them stays 0."""
    normed = rms_norm(rows[:, :size], weight[:size], epsilon)
    return quantise_rows(functional.pad(normed, (0, rows.shape[1] - size)))


def linear(rows: torch.Tensor, matrix: PackedMatrix, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Rows rounded to 8 bits times a matrix of 4 or 8 bits."""
    return functional.linear(quantise_rows(rows).numbers(), weights_of(matrix), bias)


def gated(rows: torch.Tensor, matrix: PackedMatrix, bias: torch.Tensor | None, *, gelu: bool) -> RoundedRows:
    """The product with gate and up, the gate's half first, and the activation of the gate times up, rounded at once."""
    gate_up = linear(rows, matrix, bias)
    return quantise_rows(gelu_mul(gate_up) if gelu else silu_mul(gate_up))


def rotate_and_store(
    qkv: torch.Tensor,
    cosines: torch.Tensor,
    sines: torch.Tensor,
    positions: torch.Tensor,
    slots: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    heads: int,
    kv_heads: int,
    head_norm: torch.Tensor | None,
    epsilon: float,
) -> torch.Tensor:
    """Queries [rows, heads, size] in bfloat16, or as `rounded_queries`; modifies the pages `keys` and `values`. Angles are
    [positions, size / 2]."""
    size = cosines.shape[1] * 2
    by_head = qkv[:, : (heads + 2 * kv_heads) * size].view(qkv.shape[0], -1, size)
    turning, value_rows = by_head[:, :-kv_heads], by_head[:, -kv_heads:]
    if head_norm is not None:
        turning = rms_norm(turning, head_norm, epsilon)
    first, second = turning.chunk(2, dim=-1)
    cosine, sine = cosines[positions][:, None], sines[positions][:, None]
    turned = torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)
    pages, tokens = slots // PAGE_TOKENS, slots % PAGE_TOKENS
    if keys.dtype == torch.int8:
        turned = mix(turned)
        (key_rows, key_scales), (value_rows, value_scales) = round_heads(turned[:, heads:]), round_heads(value_rows)
        key_rows = key_rows ^ -128
        _scale_view(keys, kv_heads, size)[pages, :, tokens] = key_scales
        _scale_view(values, kv_heads, size)[pages, :, tokens] = value_scales
        queries = rounded_queries(turned[:, :heads])
    else:
        turned = turned.to(torch.bfloat16)
        queries, key_rows, value_rows = turned[:, :heads], turned[:, heads:], value_rows.to(torch.bfloat16)
    together = _together(keys)
    key_view, value_view = _key_view(keys, kv_heads, size), _value_view(values, kv_heads, size)
    key_view[pages, :, :, tokens] = key_rows.view(-1, kv_heads, size // together, together)
    value_view[pages, :, tokens // together, :, tokens % together] = value_rows
    return queries


def mix(heads: torch.Tensor) -> torch.Tensor:
    """A Walsh-Hadamard transform of each head, in blocks of the largest power of two that divides its size; not scaled."""
    block = heads.shape[-1] & -heads.shape[-1]
    transform = torch.ones(1, 1)
    while len(transform) < block:
        transform = torch.cat((torch.cat((transform, transform), 1), torch.cat((transform, -transform), 1)))
    return (heads.reshape(*heads.shape[:-1], -1, block) @ transform).flatten(-2)


def round_heads(heads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """In 8 bits, the largest magnitude of a head becoming 127; and the scales."""
    most = heads.abs().amax(-1)
    inverse = torch.where(most > SMALLEST_MAGNITUDE, torch.tensor(127.0) / most, 0.0)
    return (heads * inverse[..., None]).round().to(torch.int8), most / 127


def rounded_queries(mixed: torch.Tensor) -> torch.Tensor:
    """[rows, heads, size + 8] int8: a query, its scale over the growth of products by `mix`, and the sum of its bytes."""
    rounded, scales = round_heads(mixed)
    sums = rounded.sum(-1, dtype=torch.int32)
    scales = scales / (mixed.shape[-1] & -mixed.shape[-1])
    return torch.cat((rounded, scales[..., None].view(torch.int8), sums[..., None].view(torch.int8)), dim=-1)


def paged_attention(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    query_starts: torch.Tensor,
    context_lens: torch.Tensor,
    block_tables: torch.Tensor,
    kv_heads: int,
    scale: float,
    cap: float,
    window_tokens: int,
) -> torch.Tensor:
    """[rows, heads, size] float32. `cap` and `window_tokens` 0 stand for none."""
    is_rounded = keys.dtype == torch.int8
    heads, size = queries.shape[1], queries.shape[2] - (QUERY_EXTRA_BYTES if is_rounded else 0)
    attended = torch.empty(*queries.shape[:2], size)
    starts = query_starts.tolist()
    for index, length in enumerate(context_lens.tolist()):
        rows = slice(starts[index], starts[index + 1])
        pages = block_tables[index, : -(-length // PAGE_TOKENS)]
        # [kv_heads, tokens, size]
        own_keys = _key_view(keys, kv_heads, size)[pages].permute(1, 0, 3, 2, 4).reshape(kv_heads, -1, size)[:, :length]
        own_values = _value_view(values, kv_heads, size)[pages].permute(1, 0, 2, 4, 3).reshape(kv_heads, -1, size)
        own_values = own_values[:, :length].float()
        own_queries = queries[rows, :, :size].float().view(-1, kv_heads, heads // kv_heads, size).permute(1, 2, 0, 3)
        value_scales = None
        if is_rounded:
            key_scales, value_scales = (
                _scale_view(kept, kv_heads, size)[pages].transpose(0, 1).reshape(kv_heads, 1, 1, -1)[..., :length]
                for kept in (keys, values)
            )
            query_scales = queries[rows, :, size : size + SCALE_BYTES].contiguous().view(torch.float32)
            query_scales = query_scales.view(-1, kv_heads, heads // kv_heads, 1).permute(1, 2, 0, 3)
            products = own_queries @ (own_keys ^ -128).float()[:, None].transpose(-1, -2)
            scores = products * key_scales * query_scales * scale
        else:
            scores = own_queries @ own_keys.float()[:, None].transpose(-1, -2) * scale
        if cap:
            scores = soft_cap(scores, cap)
        places, last = torch.arange(length)[None, :], torch.arange(length - starts[index + 1] + starts[index], length)
        hidden = places > last[:, None]
        if window_tokens:
            hidden |= places <= last[:, None] - window_tokens
        scores.masked_fill_(hidden, float("-inf"))
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        rounded = (
            weights.to(torch.bfloat16).float() if value_scales is None else _rounded_weights(weights * value_scales)
        )
        summed = rounded @ own_values[:, None]
        attended[rows] = (summed / weights.sum(-1, keepdim=True)).permute(2, 0, 1, 3).reshape(-1, heads, size)
    return attended


def _rounded_weights(weights: torch.Tensor) -> torch.Tensor:
    """To 8 bits without a sign, the largest of each row in each part becoming 255."""
    tokens = weights.shape[-1]
    parts = functional.pad(weights, (0, -tokens % PART_TOKENS)).view(*weights.shape[:-1], -1, PART_TOKENS)
    most = parts.amax(-1, keepdim=True)
    inverse = torch.where(most > SMALLEST_MAGNITUDE, torch.tensor(255.0) / most, 0.0)
    return ((parts * inverse).round() * (most / 255)).flatten(-2)[..., :tokens]


def _together(pages: torch.Tensor) -> int:
    """Dimensions of a key, or tokens of a value, that lie side by side."""
    return 4 // pages.itemsize


def _numbers(pages: torch.Tensor, kv_heads: int, size: int) -> torch.Tensor:
    return pages.view(pages.shape[0], kv_heads, -1)[..., : PAGE_TOKENS * size]


def _key_view(pages: torch.Tensor, kv_heads: int, size: int) -> torch.Tensor:
    """[pages, kv_heads, size / together, tokens, together]."""
    return _numbers(pages, kv_heads, size).view(len(pages), kv_heads, -1, PAGE_TOKENS, _together(pages))


def _value_view(pages: torch.Tensor, kv_heads: int, size: int) -> torch.Tensor:
    """[pages, kv_heads, tokens / together, size, together]."""
    return _numbers(pages, kv_heads, size).view(len(pages), kv_heads, -1, size, _together(pages))


def _scale_view(pages: torch.Tensor, kv_heads: int, size: int) -> torch.Tensor:
    """Of pages in 8 bits, [pages, kv_heads, tokens]."""
    return pages.view(pages.shape[0], kv_heads, -1)[..., PAGE_TOKENS * size :].view(torch.float32)
