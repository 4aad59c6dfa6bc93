"""The operations of the CPU kernels in plain torch: what `kernels/cpu` must compute, up to the order of sums.

Called by tests, and once when the kernels are loaded. Rows are float32, padded with 0 to whole groups of 32 columns. Activations
are rounded to 8 bits in groups of 32, keys, values, queries and the weights of attention to bfloat16; everything else is float32.
Pages are as `kernels/cpu/rotate.h` draws them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from kernels.packed_matrix import GROUP_COLUMNS, PackedMatrix, weights_of
from kernels.reference import gelu_mul, rms_norm, silu_mul, soft_cap

PAGE_TOKENS = 16


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
    """Queries [rows, heads, size] in bfloat16; modifies the pages `keys` and `values`. Angles are [positions, size / 2]."""
    size = cosines.shape[1] * 2
    by_head = qkv[:, : (heads + 2 * kv_heads) * size].view(qkv.shape[0], -1, size)
    turning, value_rows = by_head[:, :-kv_heads], by_head[:, -kv_heads:]
    if head_norm is not None:
        turning = rms_norm(turning, head_norm, epsilon)
    first, second = turning.chunk(2, dim=-1)
    cosine, sine = cosines[positions][:, None], sines[positions][:, None]
    turned = torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1).to(torch.bfloat16)
    pages, tokens = slots // PAGE_TOKENS, slots % PAGE_TOKENS
    key_pages, value_pages = _key_view(keys, kv_heads, size), _value_view(values, kv_heads, size)
    key_pages[pages, :, :, tokens] = turned[:, heads:].view(-1, kv_heads, size // 2, 2)
    value_pages[pages, :, tokens // 2, :, tokens % 2] = value_rows.to(torch.bfloat16)
    return turned[:, :heads]


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
    heads, size = queries.shape[1:]
    attended = torch.empty(queries.shape)
    starts = query_starts.tolist()
    for index, length in enumerate(context_lens.tolist()):
        rows = slice(starts[index], starts[index + 1])
        pages = block_tables[index, : -(-length // PAGE_TOKENS)]
        # [kv_heads, tokens, size]
        own_keys = _key_view(keys, kv_heads, size)[pages].permute(1, 0, 3, 2, 4).reshape(kv_heads, -1, size)
        own_values = _value_view(values, kv_heads, size)[pages].permute(1, 0, 2, 4, 3).reshape(kv_heads, -1, size)
        own_queries = queries[rows].float().view(-1, kv_heads, heads // kv_heads, size).permute(1, 2, 0, 3)
        scores = own_queries @ own_keys[:, None, :length].float().transpose(-1, -2) * scale
        if cap:
            scores = soft_cap(scores, cap)
        places, last = torch.arange(length)[None, :], torch.arange(length - starts[index + 1] + starts[index], length)
        hidden = places > last[:, None]
        if window_tokens:
            hidden |= places <= last[:, None] - window_tokens
        scores.masked_fill_(hidden, float("-inf"))
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        summed = weights.to(torch.bfloat16).float() @ own_values[:, None, :length].float()
        attended[rows] = (summed / weights.sum(-1, keepdim=True)).permute(2, 0, 1, 3).reshape(-1, heads, size)
    return attended


def _key_view(pages: torch.Tensor, kv_heads: int, size: int) -> torch.Tensor:
    """[pages, kv_heads, size / 2, tokens, 2]."""
    return pages.view(pages.shape[0], kv_heads, size // 2, PAGE_TOKENS, 2)


def _value_view(pages: torch.Tensor, kv_heads: int, size: int) -> torch.Tensor:
    """[pages, kv_heads, tokens / 2, size, 2]."""
    return pages.view(pages.shape[0], kv_heads, PAGE_TOKENS // 2, size, 2)
