"""The decoder: tokens in, logits out."""

from __future__ import annotations

from typing import Protocol

import torch

from engine.kv_cache import KVCache
from engine.model.batch import ForwardBatch


class DecoderLike(Protocol):
    """What the runner needs of a model; tests hand in a fake."""

    def forward(self, batch: ForwardBatch, cache: KVCache) -> torch.Tensor:
        """[R, vocabulary] float32 logits; keys and values of the batch are written through `batch.slots`."""
