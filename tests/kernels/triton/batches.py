"""A step's batch over scattered pages, for the reference and for the kernels: what neither may read is not a number."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernels import reference
from kernels import triton as kernels

NAN = float("nan")


def random_rows(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@dataclass(frozen=True)
class Batch:
    """`parts`: queries and context of each sequence. `keys` and `values` hold NaN wherever no query may look."""

    parts: Sequence[tuple[int, int]]
    page_tokens: int
    window: int | None
    query_starts: torch.Tensor
    block_tables: torch.Tensor
    queries: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor

    @classmethod
    def random(
        cls,
        parts: Sequence[tuple[int, int]],
        *,
        heads: int,
        kv_heads: int,
        head_size: int,
        page_tokens: int = 4,
        window: int | None = None,
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
    ) -> Batch:
        needed = [-(-context // page_tokens) for _, context in parts]
        pages = sum(needed) + 3
        places = torch.randperm(pages, generator=torch.Generator().manual_seed(seed)).tolist()
        tables = [[places.pop() for _ in range(count)] for count in needed]
        keys, values = random_rows(2, pages, page_tokens, kv_heads, head_size, seed=seed, dtype=dtype)
        unread = torch.ones(pages, page_tokens, dtype=torch.bool)
        for table, (count, context) in zip(tables, parts, strict=True):
            first = max(0, context - count + 1 - window) if window else 0
            for place in range(first, context):
                unread[table[place // page_tokens], place % page_tokens] = False
        keys[unread], values[unread] = NAN, NAN
        # A table is padded with the number of a page that nobody has.
        tables = [table + [places[0]] * (max(needed) - len(table)) for table in tables]
        starts = torch.tensor([0, *(count for count, _ in parts)]).cumsum(0)
        queries = random_rows(int(starts[-1]), heads, head_size, seed=seed + 1, dtype=dtype)
        return cls(parts, page_tokens, window, starts, torch.tensor(tables), queries, keys, values)

    def expected(self, rule: reference.ScoreRule | None = None) -> torch.Tensor:
        """By the reference in float32, which multiplies what it masks and is given numbers there."""
        plan = reference.plan_attention(*self._lengths(), self.page_tokens, torch.float32, self.window)
        return reference.paged_attention(
            self.queries.float(), self.keys.float().nan_to_num(7.0), self.values.float().nan_to_num(7.0), plan, rule
        )

    def plan(self, split_tokens: int = 16) -> kernels.AttentionPlan:
        """Splits shorter than in use, so that short contexts have several."""
        plan = kernels.plan_attention(*self._lengths(), self.page_tokens, self.queries.dtype, self.window)
        return dataclasses.replace(plan, split_tokens=split_tokens)

    def attended(self, rule: reference.ScoreRule | None = None, split_tokens: int = 16) -> torch.Tensor:
        """By the kernels."""
        return kernels.paged_attention(self.queries, self.keys, self.values, self.plan(split_tokens), rule)

    def _lengths(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.query_starts, torch.tensor([context for _, context in self.parts]), self.block_tables
