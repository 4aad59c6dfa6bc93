"""The decoder of the Llama kind: a step's tokens in, logits of the wanted rows out.

Called by the runner in the engine's thread, once per step. It computes and nothing else: which tokens, which pages and what
becomes of the logits is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn import functional

from engine.config import PAGE_TOKENS
from engine.kv_cache import KVCache
from engine.model.architecture import ModelShape
from engine.model.batch import ForwardBatch
from kernels.dispatch import KernelChoice


class DecoderLike(Protocol):
    """What the runner needs of a model; its tests hand in a fake."""

    def forward(self, batch: ForwardBatch, cache: KVCache) -> torch.Tensor:
        """[R, vocabulary] float32 logits; keys and values of the batch are written through `batch.slots`."""


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer. Matrices that read the same rows are one matrix, so a step reads its rows once.

    `qkv`: queries, keys, values, [(heads + 2 * kv_heads) * head_size, hidden]. `gate_up`: gate, up, [2 * intermediate, hidden].
    """

    attention_norm: torch.Tensor
    qkv: torch.Tensor
    attention_output: torch.Tensor
    feed_forward_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    """All weights. `head` is `embedding` itself where the two are tied."""

    embedding: torch.Tensor
    layers: Sequence[LayerWeights]
    final_norm: torch.Tensor
    head: torch.Tensor
    inverse_frequencies: torch.Tensor


class Decoder:
    """Owns the weights, keeps no state between steps. Any number of threads may call it, on caches of their own."""

    def __init__(self, shape: ModelShape, weights: DecoderWeights, kernels: KernelChoice) -> None:
        self.shape = shape
        self.weights = weights
        self._operations = kernels.operations

    @torch.inference_mode()
    def forward(self, batch: ForwardBatch, cache: KVCache) -> torch.Tensor:
        """See DecoderLike. Modifies the cache's pages at `batch.slots`, and reads those in `batch.block_tables`."""
        operations, weights, epsilon = self._operations, self.weights, self.shape.norm_epsilon
        hidden = functional.embedding(batch.token_ids, weights.embedding)
        angles = operations.rotary_angles(batch.positions, weights.inverse_frequencies, hidden.dtype)
        plan = operations.plan_attention(
            batch.query_starts, batch.context_lens, batch.block_tables, PAGE_TOKENS, hidden.dtype
        )
        for layer, keys, values in zip(weights.layers, cache.keys, cache.values, strict=True):
            rows = operations.rms_norm(hidden, layer.attention_norm, epsilon)
            qkv = functional.linear(rows, layer.qkv)
            queries = operations.rotate_and_store(qkv, angles, batch.slots, keys, values)
            attended = operations.paged_attention(queries, keys, values, plan)
            hidden = hidden + functional.linear(attended.reshape(rows.shape[0], -1), layer.attention_output)
            rows = operations.rms_norm(hidden, layer.feed_forward_norm, epsilon)
            gated = operations.silu_mul(functional.linear(rows, layer.gate_up))
            hidden = hidden + functional.linear(gated, layer.down)
        wanted = operations.rms_norm(hidden[batch.logit_rows], weights.final_norm, epsilon)
        return functional.linear(wanted, weights.head).float()
