"""Attention of a step's queries over the pages of their sequences: decoding rows and chunks of prompts, side by side.

Called by the decoder once per layer. Each of the two kernels takes the sequences of its kind and passes over the others, so
that nobody has to sort the batch first.
"""

from __future__ import annotations

import torch

from kernels.reference import ScoreRule
from kernels.triton.decode_attention import attend_decoding
from kernels.triton.pages import PageScales, check_pages
from kernels.triton.plan import AttentionPlan
from kernels.triton.prefill_attention import attend_prompts


def paged_attention(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    plan: AttentionPlan,
    rule: ScoreRule | None = None,
    scales: PageScales | None = None,
) -> torch.Tensor:
    """See `kernels.reference`; `scales` are those of pages in int8 or float8. A head's numbers must lie side by side."""
    rule = rule or ScoreRule(queries.shape[-1] ** -0.5)
    check_pages(keys, values, scales)
    if queries.stride(-1) != 1:
        raise ValueError(f"a query's numbers must lie side by side, and its strides are {queries.stride()}")
    attended = torch.empty_like(queries, memory_format=torch.contiguous_format)
    attend_decoding(queries, keys, values, plan, rule, scales, attended)
    # As many rows as sequences: each has one, since none has none.
    if queries.shape[0] != plan.sequences:
        attend_prompts(queries, keys, values, plan, rule, scales, attended)
    return attended
