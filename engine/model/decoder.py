"""The decoder: a step's tokens in, logits of the wanted rows out. What it computes is described by a `ModelShape`.

Called by the runner in the engine's thread, once per step. It computes and nothing else: which tokens, which pages and what
becomes of the logits is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch.nn import functional

from engine.config import PAGE_TOKENS
from engine.kv_cache import KVCache
from engine.model.architecture import Activation, ModelShape
from engine.model.batch import ForwardBatch
from engine.model.rotation import Rotation
from kernels.dispatch import KernelChoice


class DecoderLike(Protocol):
    """What the runner needs of a model; its tests hand in a fake."""

    def forward(self, batch: ForwardBatch, cache: KVCache) -> torch.Tensor:
        """[R, vocabulary] float32 logits; keys and values of the batch are written through `batch.slots`."""


Matrix = TypeVar("Matrix")
"""A tensor of floating point numbers, or a matrix of fewer bits in the layout of some kernels."""


@dataclass(frozen=True, slots=True)
class LayerWeights(Generic[Matrix]):
    """One layer. Matrices that read the same rows are one matrix, so a step reads its rows once.

    `qkv`: queries, keys, values, [(heads + 2 * kv_heads) * head_size, hidden]. `gate_up`: gate, up, [2 * intermediate, hidden].
    `head_norm`: of each query and key head, [heads + kv_heads, head_size]. What an architecture does not have is None.
    """

    attention_norm: torch.Tensor
    qkv: Matrix
    attention_output: Matrix
    feed_forward_norm: torch.Tensor
    gate_up: Matrix
    down: Matrix
    qkv_bias: torch.Tensor | None = None
    attention_output_bias: torch.Tensor | None = None
    gate_up_bias: torch.Tensor | None = None
    down_bias: torch.Tensor | None = None
    head_norm: torch.Tensor | None = None
    attention_output_norm: torch.Tensor | None = None
    feed_forward_output_norm: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class DecoderWeights(Generic[Matrix]):
    """All of a model's. `head` is the embedding itself where the two are tied. `rotations`: one for each of the shape's
    `attention_kinds`."""

    embedding: Matrix
    layers: Sequence[LayerWeights[Matrix]]
    final_norm: torch.Tensor
    head: Matrix
    rotations: Sequence[Rotation]


class Decoder:
    """Owns the weights, keeps no state between steps. Any number of threads may call it, on caches of their own."""

    def __init__(self, shape: ModelShape, weights: DecoderWeights[torch.Tensor], kernels: KernelChoice) -> None:
        self.shape = shape
        self.weights = weights
        operations = self._operations = kernels.operations
        self._kinds = list(zip(shape.attention_kinds, weights.rotations, strict=True))
        self._kind_of_layer = [shape.attention_kinds.index(attention) for attention in shape.attention]
        # The norm that follows a layer is taken together with the sum at its end.
        self._next_norms = [*(layer.attention_norm for layer in weights.layers[1:]), weights.final_norm]
        self._gate = operations.silu_mul if shape.activation is Activation.SILU else operations.gelu_mul
        self._score_rule = operations.ScoreRule(shape.score_scale, shape.score_cap)
        # Rounded as the embeddings are: a model in bfloat16 was trained with the rounded one.
        self._embedding_scale = float(torch.tensor(shape.embedding_scale, dtype=weights.embedding.dtype))

    @torch.inference_mode()
    def forward(self, batch: ForwardBatch, cache: KVCache) -> torch.Tensor:
        """See DecoderLike. Modifies the cache's pages at `batch.slots`, and reads those in `batch.block_tables`."""
        operations, weights, epsilon, linear = (
            self._operations,
            self.weights,
            self.shape.norm_epsilon,
            functional.linear,
        )
        hidden = functional.embedding(batch.token_ids, weights.embedding)
        if self._embedding_scale != 1.0:
            hidden = hidden * self._embedding_scale
        angles, plans = [], []
        for attention, rotation in self._kinds:
            frequencies = rotation.at(batch.positions)
            angles.append(operations.rotary_angles(batch.positions, frequencies, hidden.dtype, rotation.magnitude))
            lengths = (batch.query_starts, batch.context_lens, batch.block_tables)
            plans.append(operations.plan_attention(*lengths, PAGE_TOKENS, hidden.dtype, attention.window_tokens))
        rows = operations.rms_norm(hidden, weights.layers[0].attention_norm, epsilon)
        for layer, next_norm, kind, keys, values in zip(
            weights.layers, self._next_norms, self._kind_of_layer, cache.keys, cache.values, strict=True
        ):
            qkv = linear(rows, layer.qkv, layer.qkv_bias)
            queries = operations.rotate_and_store(
                qkv, angles[kind], batch.slots, keys, values, layer.head_norm, epsilon
            )
            attended = operations.paged_attention(queries, keys, values, plans[kind], self._score_rule)
            added = linear(attended.reshape(rows.shape[0], -1), layer.attention_output, layer.attention_output_bias)
            hidden, rows = operations.add_rms_norm(
                hidden, added, layer.feed_forward_norm, epsilon, layer.attention_output_norm
            )
            gated = self._gate(linear(rows, layer.gate_up, layer.gate_up_bias))
            added = linear(gated, layer.down, layer.down_bias)
            hidden, rows = operations.add_rms_norm(hidden, added, next_norm, epsilon, layer.feed_forward_output_norm)
        logits: torch.Tensor = linear(rows[batch.logit_rows], weights.head).float()
        return logits if self.shape.logit_cap is None else operations.soft_cap(logits, self.shape.logit_cap)
