"""Puts the tensors of a model file together into the decoder's weights, and refuses a file that does not have them all.

Every tensor's presence and shape is checked before the first one is read, and as it is read, that it is made of numbers. Names
are those of Hugging Face; a source of another format translates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from engine.errors import ModelError
from engine.model.architecture import ModelShape
from engine.model.decoder import DecoderWeights, LayerWeights
from engine.model.rope import inverse_frequencies

EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"
HEAD = "lm_head.weight"


class TensorSource(Protocol):
    """An open model file or folder."""

    @property
    def where(self) -> str:
        """The file or folder, for errors."""

    def shape(self, name: str) -> tuple[int, ...] | None:
        """None when there is no such tensor."""

    def read(self, name: str) -> torch.Tensor:
        """The tensor, in any floating type."""

    def rope_factors(self) -> torch.Tensor | None:
        """By which the rotary frequencies are divided, [head_size / 2], where the file carries such a table."""


Read = Callable[[], None]


class WeightPlan:
    """Collects what has to be read and checks it, then reads it."""

    def __init__(self, source: TensorSource, shape: ModelShape, dtype: torch.dtype) -> None:
        self._source = source
        self._shape = shape
        self._dtype = dtype
        self._reads: list[Read] = []

    def build(self) -> DecoderWeights:
        """Raises ModelError before anything is read when a tensor is missing or has another shape than the config says."""
        shape = self._shape
        hidden = shape.hidden_size
        embedding = self._matrix([EMBEDDING], [shape.vocabulary_size], hidden)
        layers = [self._layer(f"model.layers.{index}.") for index in range(shape.layers)]
        final_norm = self._vector(FINAL_NORM, hidden)
        head = embedding if shape.tied_embeddings else self._matrix([HEAD], [shape.vocabulary_size], hidden)
        frequencies = inverse_frequencies(shape.head_size, shape.rope_theta, shape.rope_scaling)
        factors = self._source.rope_factors()
        if factors is not None:
            if factors.shape != frequencies.shape:
                raise ModelError(
                    f"{self._source.where} has {factors.numel()} rotary factors, where {frequencies.numel()} were expected"
                )
            frequencies = frequencies / factors
            if not frequencies.isfinite().all():
                raise ModelError(
                    f"{self._source.where} is damaged: its rotary factors give frequencies that are not finite"
                )
        for read in self._reads:
            read()
        return DecoderWeights(embedding, layers, final_norm, head, frequencies)

    def _layer(self, prefix: str) -> LayerWeights:
        shape = self._shape
        attention, feed_forward = prefix + "self_attn.", prefix + "mlp."
        query_rows, key_rows = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
        return LayerWeights(
            attention_norm=self._vector(prefix + "input_layernorm.weight", shape.hidden_size),
            qkv=self._matrix(
                [attention + f"{name}_proj.weight" for name in "qkv"],
                [query_rows, key_rows, key_rows],
                shape.hidden_size,
            ),
            attention_output=self._matrix([attention + "o_proj.weight"], [shape.hidden_size], query_rows),
            feed_forward_norm=self._vector(prefix + "post_attention_layernorm.weight", shape.hidden_size),
            gate_up=self._matrix(
                [feed_forward + "gate_proj.weight", feed_forward + "up_proj.weight"],
                [shape.intermediate_size] * 2,
                shape.hidden_size,
            ),
            down=self._matrix([feed_forward + "down_proj.weight"], [shape.hidden_size], shape.intermediate_size),
        )

    def _matrix(self, names: Sequence[str], rows: Sequence[int], columns: int) -> torch.Tensor:
        """One matrix of the named ones, below one another."""
        # Before memory is asked for: a damaged configuration may name any size, and the file's own is one that exists.
        for name, count in zip(names, rows, strict=True):
            self._expect(name, (count, columns))
        matrix = torch.empty(sum(rows), columns, dtype=self._dtype)
        for name, part in zip(names, torch.split(matrix, list(rows)), strict=True):
            self._reads.append(_copy(self._source, name, part))
        return matrix

    def _vector(self, name: str, size: int) -> torch.Tensor:
        self._expect(name, (size,))
        vector = torch.empty(size, dtype=self._dtype)
        self._reads.append(_copy(self._source, name, vector))
        return vector

    def _expect(self, name: str, expected: tuple[int, ...]) -> None:
        found = self._source.shape(name)
        if found is None:
            raise ModelError(f"{self._source.where} lacks the tensor {name}")
        if found != expected:
            raise ModelError(
                f"{self._source.where} has {name} of the shape {list(found)}, where {list(expected)} was expected"
            )


def _copy(source: TensorSource, name: str, target: torch.Tensor) -> Read:
    def read() -> None:
        target.copy_(source.read(name))
        # Both pass NaN on; looking at each number by itself would take ten times as long.
        smallest, largest = target.aminmax()
        if not (smallest.isfinite() and largest.isfinite()):
            raise ModelError(f"{source.where} is damaged: {name} has numbers that are not finite")

    return read
