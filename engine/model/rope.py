"""Frequencies of the rotary positions: the plain ones, and those that Llama 3 stretches for long contexts.

Importing this module must not import torch (see `architecture`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.errors import ModelError

if TYPE_CHECKING:
    import torch

SUPPORTED_ROPE_TYPES = ("default", "llama3")


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """Llama 3's: slow frequencies are divided by `factor`, fast ones stay, those between are blended."""

    factor: float
    low_frequency_factor: float
    high_frequency_factor: float
    original_context_tokens: int


def rope_scaling_of(rope: Mapping[str, Any], where: str) -> RopeScaling | None:
    """Read `rope_parameters` (or the older `rope_scaling`) of a config; None where nothing is scaled."""
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in SUPPORTED_ROPE_TYPES:
        raise ModelError(
            f"{where} scales its positions by the rope type {kind!r}, and supported are {', '.join(SUPPORTED_ROPE_TYPES)}"
        )
    if kind == "default":
        return None
    try:
        scaling = RopeScaling(
            factor=float(rope["factor"]),
            low_frequency_factor=float(rope["low_freq_factor"]),
            high_frequency_factor=float(rope["high_freq_factor"]),
            original_context_tokens=int(rope["original_max_position_embeddings"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as problem:
        raise ModelError(f"{where} has rope parameters of type llama3 that cannot be read: {problem!r}") from None
    is_ordered = 0 < scaling.low_frequency_factor < scaling.high_frequency_factor < math.inf
    if not is_ordered or not 0 < scaling.factor < math.inf or scaling.original_context_tokens < 1:
        raise ModelError(f"{where} has rope parameters of type llama3 that give no frequencies: {scaling}")
    return scaling


def inverse_frequencies(head_size: int, theta: float, scaling: RopeScaling | None) -> torch.Tensor:
    """Radians per token of each pair of numbers in a head, [head_size / 2], float32."""
    import torch

    exponents = torch.arange(0, head_size, 2, dtype=torch.int64).to(torch.float32) / head_size
    plain = 1.0 / (theta**exponents)
    if scaling is None:
        return plain
    wavelengths = 2 * math.pi / plain
    # 0 where a wave is longer than the slow limit (divide), 1 where it is shorter than the fast limit (keep).
    kept = scaling.original_context_tokens / wavelengths - scaling.low_frequency_factor
    kept = (kept / (scaling.high_frequency_factor - scaling.low_frequency_factor)).clamp(0.0, 1.0)
    return (1 - kept) * plain / scaling.factor + kept * plain
