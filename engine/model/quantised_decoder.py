"""The decoder on the CPU kernels: a whole step in one call, matrices of 4 and 8 bits, keys and values in bfloat16.

Made by the loader where the kernels run; it takes the place of `Decoder`. `kernels/README.md` says what a step computes there.
Its pages are as large as those of other decoders in bfloat16 and laid out differently inside, so that no other can read them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.nn import functional

from engine.kv_cache import KVCache
from engine.model.architecture import Activation, ModelShape
from engine.model.batch import ForwardBatch
from engine.model.decoder import DecoderWeights
from engine.model.rotation import Rotation
from kernels.cpu.library import CpuKernels
from kernels.packed_matrix import PackedMatrix, padded

ANGLE_ROWS = 1024
"""Positions whose angles are computed together, whatever position asks first: their bits must not depend on who asks."""


class QuantisedDecoder:
    """Owns the weights and the tables of angles. One step at a time: a second thread waits."""

    def __init__(self, shape: ModelShape, weights: DecoderWeights[PackedMatrix], kernels: CpuKernels) -> None:
        self.shape = shape
        self.weights = weights
        self._angles = [_Angles(rotation) for rotation in weights.rotations]
        self._decoder = kernels.decoder(_numbers_of(shape), _tensors_of(shape, weights))

    @torch.inference_mode()
    def forward(self, batch: ForwardBatch, cache: KVCache) -> torch.Tensor:
        """See DecoderLike. Modifies the cache's pages at `batch.slots`, and reads those in `batch.block_tables`."""
        logits: torch.Tensor = self._decoder.forward(
            batch.token_ids,
            batch.positions,
            batch.slots,
            batch.query_starts,
            batch.context_lens,
            batch.block_tables,
            batch.logit_rows,
            [angles.up_to(batch.max_context_tokens) for angles in self._angles],
            cache.keys,
            cache.values,
        )
        return logits


class _Angles:
    """Cosines and sines of all positions so far, [2, positions, head_size / 2] float32; grows as contexts do."""

    def __init__(self, rotation: Rotation) -> None:
        self._rotation = rotation
        self._table = torch.empty(2, 0, len(rotation.frequencies))

    def up_to(self, tokens: int) -> torch.Tensor:
        known = self._table.shape[1]
        if tokens <= known:
            return self._table
        # Twice as many each time, so that a long answer does not copy the table again for every row of it.
        wanted = max(tokens, 2 * known)
        rows = [self._rows(start) for start in range(known, wanted, ANGLE_ROWS)]
        self._table = torch.cat((self._table, *rows), dim=1)
        return self._table

    def _rows(self, start: int) -> torch.Tensor:
        positions = torch.arange(start, start + ANGLE_ROWS)
        angles = positions.to(torch.float32)[:, None] * self._rotation.at(positions)
        return torch.stack((angles.cos(), angles.sin())) * self._rotation.magnitude


def _numbers_of(shape: ModelShape) -> dict[str, float]:
    """What `kernels/cpu/library.cpp` wants to know; 0 stands for what there is not."""
    numbers: dict[str, float] = {
        "layers": shape.layers,
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "heads": shape.heads,
        "kv_heads": shape.kv_heads,
        "head_size": shape.head_size,
        "vocabulary_size": shape.vocabulary_size,
        "norm_epsilon": shape.norm_epsilon,
        "score_scale": shape.score_scale,
        "score_cap": shape.score_cap or 0.0,
        "logit_cap": shape.logit_cap or 0.0,
        "embedding_scale": shape.embedding_scale,
        "gelu": shape.activation is Activation.GELU_TANH,
        "rotations": len(shape.attention_kinds),
    }
    for index, attention in enumerate(shape.attention):
        numbers[f"layers.{index}.window_tokens"] = attention.window_tokens or 0
        numbers[f"layers.{index}.rotation"] = shape.attention_kinds.index(attention)
    return {name: float(number) for name, number in numbers.items()}


def _tensors_of(shape: ModelShape, weights: DecoderWeights[PackedMatrix]) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {"final_norm": _padded(weights.final_norm)}
    _add(tensors, "embedding", weights.embedding)
    _add(tensors, "head", weights.head)
    for index, layer in enumerate(weights.layers):
        for field in dataclasses.fields(layer):
            value = getattr(layer, field.name)
            if field.name == "gate_up_bias" and value is not None:
                value = torch.cat([_padded(half) for half in value.chunk(2)])
            _add(tensors, f"layers.{index}.{field.name}", value)
    return tensors


def _add(tensors: dict[str, torch.Tensor], name: str, value: Any) -> None:
    if isinstance(value, PackedMatrix):
        tensors[name] = value.quants
        tensors[name + ".scales"] = value.scales
    elif value is not None:
        # The norm of heads has a row for each and is not padded.
        tensors[name] = value.float().contiguous() if value.dim() > 1 else _padded(value)


def _padded(vector: torch.Tensor) -> torch.Tensor:
    return functional.pad(vector.float(), (0, padded(len(vector)) - len(vector)))
