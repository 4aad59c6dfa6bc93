"""Who attends to what in a step, for the kernels: the batch's own tensors, unread.

Made by the decoder once per step and kind of attention. The tensors are never looked at on the host: reading one would stop
the host until the device is done, and could not be recorded into a CUDA graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch

SPLIT_TOKENS: Final = 128
"""Of a decoding row's context, computed by one program. A constant, and not what would just fill the device: so the bits of a
row's result do not depend on the rows beside it."""


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """`query_starts` [B + 1], `context_lens` [B] and `block_tables` [B, P], integers, on the device of the pages.

    A sequence without context is padding: its row of the result is 0. Columns of a table beyond its sequence are not read.
    """

    query_starts: torch.Tensor
    context_lens: torch.Tensor
    block_tables: torch.Tensor
    page_tokens: int
    window_tokens: int | None
    split_tokens: int = SPLIT_TOKENS

    @property
    def sequences(self) -> int:
        return self.context_lens.shape[0]

    @property
    def splits(self) -> int:
        """How many parts the longest context, or the longest window, can be in."""
        splits = -(-self.block_tables.shape[1] * self.page_tokens // self.split_tokens)
        if self.window_tokens is None:
            return max(splits, 1)
        return max(min(splits, -(-self.window_tokens // self.split_tokens) + 1), 1)


def plan_attention(
    query_starts: torch.Tensor,
    context_lens: torch.Tensor,
    block_tables: torch.Tensor,
    page_tokens: int,
    dtype: torch.dtype,
    window_tokens: int | None = None,
) -> AttentionPlan:
    """See `kernels.reference`. `dtype` is what its masks are made of; here nothing is made at all."""
    return AttentionPlan(
        query_starts.contiguous(), context_lens.contiguous(), block_tables.contiguous(), page_tokens, window_tokens
    )
