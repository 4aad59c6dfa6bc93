"""Ways to compute the attention of decoding rows over pages, against each other. The table in kernels/README.md is its output.

    python -m tests.bench.attention_ways

Shapes are those of the bundled model, all 30 layers, pages scattered over the pool. Milliseconds per step, the best of five.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch
from torch.nn import functional

LAYERS, KV_HEADS, SHARED, HEAD_SIZE, PAGE_TOKENS, PAGES = 30, 3, 3, 64, 16, 1200
LOADS = ((1, 64), (1, 500), (8, 64), (8, 250), (8, 500), (32, 500))


class Load:
    """One step's queries and pages."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, streams: int, context: int) -> None:
        self.keys, self.values = keys, values
        self.streams, self.context = streams, context
        width = -(-context // PAGE_TOKENS)
        self.table = torch.randperm(PAGES)[: streams * width].view(streams, width)
        self.queries = torch.randn(streams, KV_HEADS * SHARED, HEAD_SIZE)
        self.mask = torch.zeros(streams, 1, 1, width * PAGE_TOKENS)
        self.mask[..., context:] = float("-inf")

    def gathered(self, pool: torch.Tensor) -> torch.Tensor:
        """[streams, tokens, kv_heads, head_size]"""
        return pool.index_select(0, self.table.view(-1)).view(self.streams, -1, KV_HEADS, HEAD_SIZE)

    def gathered_one(self, pool: torch.Tensor, stream: int) -> torch.Tensor:
        """[tokens, kv_heads, head_size]"""
        return pool.index_select(0, self.table[stream]).view(-1, KV_HEADS, HEAD_SIZE)[: self.context]


def gather_shared(load: Load, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """All streams at once; queries that share a key head stand as several queries of one head."""
    return functional.scaled_dot_product_attention(
        load.queries.view(load.streams, KV_HEADS, SHARED, HEAD_SIZE),
        load.gathered(keys).transpose(1, 2),
        load.gathered(values).transpose(1, 2),
        attn_mask=load.mask,
    )


def gather_enable_gqa(load: Load, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """All streams at once; torch shares the key heads."""
    return functional.scaled_dot_product_attention(
        load.queries[:, :, None],
        load.gathered(keys).transpose(1, 2),
        load.gathered(values).transpose(1, 2),
        attn_mask=load.mask,
        enable_gqa=True,
    )


def gather_baddbmm(load: Load, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """All streams at once, with batched matrix products and a softmax."""
    batch = load.streams * KV_HEADS
    turned = load.gathered(keys).permute(0, 2, 3, 1).reshape(batch, HEAD_SIZE, -1)
    mask = load.mask.expand(-1, KV_HEADS, SHARED, -1).reshape(batch, SHARED, -1)
    queries = load.queries.view(batch, SHARED, HEAD_SIZE)
    weights = torch.baddbmm(mask, queries, turned, alpha=HEAD_SIZE**-0.5).softmax(-1)
    return torch.bmm(weights, load.gathered(values).transpose(1, 2).reshape(batch, -1, HEAD_SIZE))


def loop_sdpa(load: Load, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """One stream after the other."""
    queries = load.queries.view(load.streams, 1, KV_HEADS, SHARED, HEAD_SIZE)
    return torch.cat(
        [
            functional.scaled_dot_product_attention(
                queries[stream],
                load.gathered_one(keys, stream)[None].transpose(1, 2),
                load.gathered_one(values, stream)[None].transpose(1, 2),
            )
            for stream in range(load.streams)
        ]
    )


def loop_bmm(load: Load, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """One stream after the other, with batched matrix products and a softmax."""
    queries = load.queries.view(load.streams, KV_HEADS, SHARED, HEAD_SIZE)
    results = []
    for stream in range(load.streams):
        scores = torch.bmm(queries[stream], load.gathered_one(keys, stream).permute(1, 2, 0))
        weights = scores.mul_(HEAD_SIZE**-0.5).softmax(-1)
        results.append(torch.bmm(weights, load.gathered_one(values, stream).transpose(0, 1)))
    return torch.stack(results)


Way = Callable[[Load, torch.Tensor, torch.Tensor], torch.Tensor]
WAYS: tuple[Way, ...] = (gather_shared, gather_enable_gqa, gather_baddbmm, loop_sdpa, loop_bmm)


def milliseconds(run: Callable[[], object]) -> float:
    """The best of five, after one to warm up."""
    run()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times) * 1000


def step(way: Way, load: Load, pool: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    for keys, values in pool:
        way(load, keys, values)


@torch.inference_mode()
def main() -> None:
    torch.manual_seed(0)
    shape = (PAGES, PAGE_TOKENS, KV_HEADS, HEAD_SIZE)
    pool = [(torch.randn(shape), torch.randn(shape)) for _ in range(LAYERS)]
    print("| way | " + " | ".join(f"{streams} x {context}" for streams, context in LOADS) + " |")
    print("| --- |" + " --- |" * len(LOADS))
    loads = [Load(*pool[0], streams, context) for streams, context in LOADS]
    for way in WAYS:
        numbers = [milliseconds(partial(step, way, load, pool)) for load in loads]
        print(f"| `{way.__name__}` | " + " | ".join(f"{number:.1f}" for number in numbers) + " |", flush=True)


if __name__ == "__main__":
    main()
