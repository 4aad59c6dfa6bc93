"""Decoding steps as CUDA graphs, one for each bucket of batch sizes: a step's hundreds of launches become one.

Used by `gpu`. On a CPU the same step runs without a graph, so that its padding can be tested anywhere.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import torch

from engine.kv_cache import KVCache
from engine.model.batch import ForwardBatch
from engine.model.decoder import Decoder

BUCKETS: Final = (1, 2, 4, 8, 16, 32)


class GraphedStep:
    """One bucket: the tensors a graph reads and writes are always the same, and a batch is copied into them.

    Rows beyond the batch are padding: their slot is negative, so nothing is written, and their context is empty.
    """

    def __init__(self, decoder: Decoder, cache: KVCache, size: int, table_pages: int, device: torch.device) -> None:
        def numbers(*shape: int, value: int = 0) -> torch.Tensor:
            return torch.full(shape, value, dtype=torch.int64, device=device)

        self.size = size
        self._decoder = decoder
        self._cache = cache
        self._batch = ForwardBatch(
            token_ids=numbers(size),
            positions=numbers(size),
            slots=numbers(size, value=-1),
            query_starts=torch.arange(size + 1, device=device),
            context_lens=numbers(size),
            block_tables=numbers(size, table_pages),
            logit_rows=torch.arange(size, device=device),
            max_context_tokens=table_pages * cache.storage.shape[2],
            is_decode=True,
        )
        self._graph: torch.cuda.CUDAGraph | None = None
        self._logits = torch.empty(0)
        if device.type == "cuda":
            self._record()

    def _record(self) -> None:
        # Compiled and allocated before it is recorded, and on a stream of its own, as torch asks for.
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._decoder.forward(self._batch, self._cache)
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._logits = self._decoder.forward(self._batch, self._cache)

    def __call__(self, batch: ForwardBatch) -> torch.Tensor:
        """The logits of the batch's rows; good until the next call."""
        count, width = batch.block_tables.shape
        if count > self.size or width > self._batch.block_tables.shape[1] or not batch.is_decode:
            raise ValueError(f"{count} rows of {width} pages do not fit a bucket of {self.size} decoding rows")
        mine = self._batch
        mine.slots.fill_(-1)
        mine.context_lens.zero_()
        for name in ("token_ids", "positions", "slots", "context_lens"):
            getattr(mine, name)[:count].copy_(getattr(batch, name))
        mine.block_tables[:count, :width].copy_(batch.block_tables)
        self.replay()
        return self._logits[:count]

    def replay(self) -> None:
        """The step on what was copied in last."""
        if self._graph is None:
            self._logits = self._decoder.forward(self._batch, self._cache)
        else:
            self._graph.replay()


def on_device(batch: ForwardBatch, device: torch.device) -> ForwardBatch:
    moved = {
        field.name: value.to(device)
        for field in dataclasses.fields(batch)
        if isinstance(value := getattr(batch, field.name), torch.Tensor)
    }
    return dataclasses.replace(batch, **moved)


def cache_on(device: torch.device, cache: KVCache) -> KVCache:
    """The same cache, with its storage moved."""
    cache.storage = cache.storage.to(device)
    layers = len(cache.keys)
    cache.keys, cache.values = list(cache.storage[:layers]), list(cache.storage[layers:])
    return cache
