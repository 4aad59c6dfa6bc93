"""The C++ kernels, built once for all tests and runs into the checkout's cache, in every variant this CPU can run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch

from engine.kv_cache import KVSpec
from engine.model.config_shape import shape_of_config
from engine.model.decoder import Decoder
from engine.model.json_file import read_json_object
from engine.model.quantised_decoder import QuantisedDecoder
from engine.model.quantised_weights import PackedMatrices
from engine.model.safetensors_source import SafetensorsSource
from engine.model.weights import FloatMatrices, WeightPlan
from kernels.cpu.build import build
from kernels.cpu.library import CpuKernels
from kernels.cpu.variant import VARIANTS, Variant, cpu_flags
from kernels.dispatch import choose_kernels
from kernels.packed_matrix import PackedMatrix, weights_of

KERNELS_FOLDER = Path(__file__).parents[2] / ".cache" / "kernels"

RUNNABLE = [variant for variant in VARIANTS if variant.flags <= cpu_flags()]
"""Tests of the kernels run for these; an x86 machine without AVX2 has none, and tests the fall back alone."""

each_variant = pytest.mark.parametrize("variant", RUNNABLE, ids=lambda variant: variant.name)


@cache
def kernels_of(variant: Variant) -> CpuKernels:
    return CpuKernels(build(KERNELS_FOLDER, variant), variant)


@dataclass(frozen=True)
class QuantisedModel:
    """`decoder` on the kernels, and `plain`, torch's decoder in float32 with the very weights the first one has."""

    decoder: QuantisedDecoder
    plain: Decoder
    kv_spec: KVSpec


def quantised_model(model: Any, variant: Variant, bits: int, kv_dtype: torch.dtype = torch.bfloat16) -> QuantisedModel:
    """Of a transformers model, through a folder on the disk."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        model.save_pretrained(folder)
        shape = shape_of_config(read_json_object(folder / "config.json"), str(folder))
        with SafetensorsSource(folder) as source:
            packed = WeightPlan(source, shape, torch.float32, PackedMatrices(source, bits)).build()
            floats = WeightPlan(source, shape, torch.float32, FloatMatrices(source, torch.float32)).build()
    layers = [
        dataclasses.replace(
            layer,
            qkv=_unpacked(own.qkv, layer.qkv),
            attention_output=_unpacked(own.attention_output, layer.attention_output),
            gate_up=torch.cat(
                [_unpacked(half, part) for half, part in zip(_halves(own.gate_up), layer.gate_up.chunk(2), strict=True)]
            ),
            down=_unpacked(own.down, layer.down),
        )
        for own, layer in zip(packed.layers, floats.layers, strict=True)
    ]
    plain = dataclasses.replace(
        floats,
        embedding=_unpacked(packed.embedding, floats.embedding),
        head=_unpacked(packed.head, floats.head),
        layers=layers,
    )
    return QuantisedModel(
        QuantisedDecoder(shape, packed, kernels_of(variant)),
        Decoder(shape, plain, choose_kernels("reference")),
        shape.kv_spec(kv_dtype),
    )


def _unpacked(matrix: PackedMatrix, like: torch.Tensor) -> torch.Tensor:
    return weights_of(matrix)[: like.shape[0], : like.shape[1]].contiguous()


def _halves(matrix: PackedMatrix) -> list[PackedMatrix]:
    quants, scales = matrix.quants.chunk(2), matrix.scales.chunk(2)
    return [PackedMatrix(*half) for half in zip(quants, scales, strict=True)]
