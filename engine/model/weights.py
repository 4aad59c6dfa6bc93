"""Puts the tensors of a model file together into the decoder's weights, and refuses a file that does not have them all.

Every tensor's presence and shape is checked before the first one is read, and as it is read, that it is made of numbers. Names
are those of Hugging Face; a source of another format translates.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

import torch

from engine.errors import ModelError
from engine.model.architecture import ModelShape, NormStyle
from engine.model.decoder import DecoderWeights, LayerWeights, Matrix
from engine.model.rotation import Rotation, rotation_of
from kernels.packed_matrix import Blocks

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

    def packable_bits(self, name: str) -> int | None:
        """4 or 8 where the matrix is kept in blocks of so many bits that `blocks` returns."""

    def blocks(self, name: str) -> Blocks:
        """The matrix in the blocks it is kept in."""

    def rope_factors(self) -> torch.Tensor | None:
        """By which the rotary frequencies are divided, [head_size / 2], where the file carries such a table."""


Read = Callable[[], None]


Made = TypeVar("Made", covariant=True)


class Matrices(Protocol[Made]):
    """Makes the matrices of a model, in the form that its decoder wants."""

    def make(self, names: Sequence[str], rows: Sequence[int], columns: int, *, apart: bool) -> tuple[Made, Read]:
        """One matrix of the named ones, below one another, and what fills it. With `apart`, each begins a group of rows of its
        own where the form has groups."""


class FloatMatrices:
    """Tensors of `dtype`."""

    def __init__(self, source: TensorSource, dtype: torch.dtype) -> None:
        self._source = source
        self._dtype = dtype

    def make(
        self, names: Sequence[str], rows: Sequence[int], columns: int, *, apart: bool
    ) -> tuple[torch.Tensor, Read]:
        matrix = torch.empty(sum(rows), columns, dtype=self._dtype)
        reads = [
            _copy(self._source, name, part) for name, part in zip(names, torch.split(matrix, list(rows)), strict=True)
        ]

        def read() -> None:
            for of_part in reads:
                of_part()

        return matrix, read


class WeightPlan(Generic[Matrix]):
    """Collects what has to be read and checks it, then reads it. `parameters` counts the numbers of the file that are used.

    Biases and norms are of `dtype`, and `matrices` decides what the matrices are.
    """

    def __init__(self, source: TensorSource, shape: ModelShape, dtype: torch.dtype, matrices: Matrices[Matrix]) -> None:
        self._source = source
        self._shape = shape
        self._dtype = dtype
        self._matrices = matrices
        has_offset = shape.norm_style is NormStyle.UNIT_OFFSET
        self._norm_offset = 1.0 if has_offset else 0.0
        self._norm_dtype = torch.float32 if has_offset or shape.output_norms else dtype
        self._reads: list[Read] = []
        self.parameters = 0

    def build(self) -> DecoderWeights[Matrix]:
        """Raises ModelError before anything is read when a tensor is missing or has another shape than the config says."""
        shape = self._shape
        hidden = shape.hidden_size
        embedding = self._matrix([EMBEDDING], [shape.vocabulary_size], hidden)
        layers = [self._layer(f"model.layers.{index}.") for index in range(shape.layers)]
        final_norm = self._norm(FINAL_NORM, hidden)
        head = embedding if shape.tied_embeddings else self._matrix([HEAD], [shape.vocabulary_size], hidden)
        rotations = [self._rotation(rotation_of(kind.rope, shape.head_size)) for kind in shape.attention_kinds]
        for read in self._reads:
            read()
        return DecoderWeights(embedding, layers, final_norm, head, rotations)

    def _rotation(self, rotation: Rotation) -> Rotation:
        factors = self._source.rope_factors()
        frequencies = rotation.frequencies
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
        return dataclasses.replace(rotation, frequencies=frequencies)

    def _layer(self, prefix: str) -> LayerWeights[Matrix]:
        shape = self._shape
        hidden, width = shape.hidden_size, shape.intermediate_size
        query_rows, key_rows = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
        # The norm before the feed-forward part has two names, and one of them is another norm where there are four.
        before_feed_forward = "pre_feedforward" if shape.output_norms else "post_attention"
        attention = [prefix + f"self_attn.{name}_proj" for name in "qkv"]
        attention_rows = [query_rows, key_rows, key_rows]
        output, down = prefix + "self_attn.o_proj", prefix + "mlp.down_proj"
        gate_up = [prefix + "mlp.gate_proj", prefix + "mlp.up_proj"]
        return LayerWeights(
            attention_norm=self._norm(prefix + "input_layernorm.weight", hidden),
            qkv=self._matrix(_named("weight", attention), attention_rows, hidden),
            attention_output=self._matrix([output + ".weight"], [hidden], query_rows),
            feed_forward_norm=self._norm(prefix + before_feed_forward + "_layernorm.weight", hidden),
            gate_up=self._matrix(_named("weight", gate_up), [width] * 2, hidden, apart=True),
            down=self._matrix([down + ".weight"], [hidden], width),
            qkv_bias=self._bias(_named("bias", attention), attention_rows) if shape.qkv_bias else None,
            attention_output_bias=self._bias([output + ".bias"], [hidden]) if shape.attention_output_bias else None,
            gate_up_bias=self._bias(_named("bias", gate_up), [width] * 2) if shape.feed_forward_bias else None,
            down_bias=self._bias([down + ".bias"], [hidden]) if shape.feed_forward_bias else None,
            head_norm=self._head_norm(prefix + "self_attn.") if shape.query_key_norms else None,
            attention_output_norm=(
                self._norm(prefix + "post_attention_layernorm.weight", hidden) if shape.output_norms else None
            ),
            feed_forward_output_norm=(
                self._norm(prefix + "post_feedforward_layernorm.weight", hidden) if shape.output_norms else None
            ),
        )

    def _matrix(self, names: Sequence[str], rows: Sequence[int], columns: int, *, apart: bool = False) -> Matrix:
        # Before memory is asked for: a damaged configuration may name any size, and the file's own is one that exists.
        for name, count in zip(names, rows, strict=True):
            self._expect(name, (count, columns))
        matrix, read = self._matrices.make(names, rows, columns, apart=apart)
        self._reads.append(read)
        return matrix

    def _bias(self, names: Sequence[str], rows: Sequence[int]) -> torch.Tensor:
        """One vector of the named ones, one after the other."""
        for name, count in zip(names, rows, strict=True):
            self._expect(name, (count,))
        vector = torch.empty(sum(rows), dtype=self._dtype)
        for name, part in zip(names, torch.split(vector, list(rows)), strict=True):
            self._reads.append(_copy(self._source, name, part))
        return vector

    def _norm(self, name: str, size: int) -> torch.Tensor:
        self._expect(name, (size,))
        vector = torch.empty(size, dtype=self._norm_dtype)
        self._reads.append(_copy(self._source, name, vector, self._norm_offset))
        return vector

    def _head_norm(self, prefix: str) -> torch.Tensor:
        """All query heads have one norm, all key heads another; a row for each head."""
        shape = self._shape
        names = prefix + "q_norm.weight", prefix + "k_norm.weight"
        for name in names:
            self._expect(name, (shape.head_size,))
        rows = torch.empty(shape.heads + shape.kv_heads, shape.head_size, dtype=self._norm_dtype)
        for name, part in zip(names, torch.split(rows, [shape.heads, shape.kv_heads]), strict=True):
            self._reads.append(_copy(self._source, name, part, self._norm_offset))
        return rows

    def _expect(self, name: str, expected: tuple[int, ...]) -> None:
        found = self._source.shape(name)
        if found is None:
            raise ModelError(f"{self._source.where} lacks the tensor {name}")
        if found != expected:
            raise ModelError(
                f"{self._source.where} has {name} of the shape {list(found)}, where {list(expected)} was expected"
            )
        self.parameters += math.prod(expected)


def _named(part: str, modules: Sequence[str]) -> list[str]:
    return [f"{module}.{part}" for module in modules]


def _copy(source: TensorSource, name: str, target: torch.Tensor, offset: float = 0.0) -> Read:
    def read() -> None:
        target.copy_(source.read(name))
        if offset:
            target.add_(offset)
        # Both pass NaN on; looking at each number by itself would take ten times as long.
        smallest, largest = target.aminmax()
        if not (smallest.isfinite() and largest.isfinite()):
            raise ModelError(f"{source.where} is damaged: {name} has numbers that are not finite")

    return read
