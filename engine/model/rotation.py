"""The frequencies of rotary positions as tensors: what `rope` describes, computed once when a model is loaded.

Used by the decoder, once per step for each kind of attention.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from engine.model.rope import DynamicScaling, LinearScaling, Llama3Scaling, Rope, YarnScaling


@dataclass(frozen=True, slots=True)
class Rotation:
    """`frequencies`: radians per token of each pair of numbers in a head, [head_size / 2], float32. `dynamic` is there where they
    depend on the position too."""

    frequencies: torch.Tensor
    magnitude: float = 1.0
    dynamic: Rope | None = None

    def at(self, positions: torch.Tensor) -> torch.Tensor:
        """The frequencies of these positions: the same for all, or a row for each."""
        return self.frequencies if self.dynamic is None else _dynamic(self.dynamic, positions, len(self.frequencies))


def rotation_of(rope: Rope, head_size: int) -> Rotation:
    exponents = torch.arange(0, head_size, 2, dtype=torch.int64).to(torch.float32) / head_size
    plain = 1.0 / (rope.theta**exponents)
    match rope.scaling:
        case LinearScaling(factor=factor):
            return Rotation(plain / factor)
        case DynamicScaling():
            return Rotation(plain, dynamic=rope)
        case YarnScaling() as scaling:
            return Rotation(_yarn(plain, rope.theta, scaling), scaling.magnitude)
        case Llama3Scaling() as scaling:
            return Rotation(_llama3(plain, scaling))
    return Rotation(plain)


def _dynamic(rope: Rope, positions: torch.Tensor, pairs: int) -> torch.Tensor:
    assert isinstance(rope.scaling, DynamicScaling)
    factor, original = rope.scaling.factor, rope.scaling.original_context_tokens
    head_size = 2 * pairs
    lengths = (positions + 1).clamp(min=original).to(torch.float32)
    growth = factor * lengths / original - (factor - 1)
    bases = rope.theta * growth ** (head_size / (head_size - 2))
    exponents = torch.arange(0, head_size, 2, dtype=torch.int64).to(torch.float32) / head_size
    return 1.0 / bases[:, None] ** exponents[None, :]


def _yarn(plain: torch.Tensor, theta: float, scaling: YarnScaling) -> torch.Tensor:
    head_size = 2 * len(plain)

    def place_of(turns: float) -> float:
        """Which pair, counted from the fastest, turns this often in the original context."""
        original = scaling.original_context_tokens
        return head_size * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = place_of(scaling.fast_turns), place_of(scaling.slow_turns)
    if scaling.whole_bounds:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_size - 1)
    if low == high:
        high += 0.001
    divided = ((torch.arange(len(plain), dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
    return divided * plain / scaling.factor + (1 - divided) * plain


def _llama3(plain: torch.Tensor, scaling: Llama3Scaling) -> torch.Tensor:
    wavelengths = 2 * math.pi / plain
    # 0 where a wave is longer than the slow limit (divide), 1 where it is shorter than the fast limit (keep).
    kept = scaling.original_context_tokens / wavelengths - scaling.low_frequency_factor
    kept = (kept / (scaling.high_frequency_factor - scaling.low_frequency_factor)).clamp(0.0, 1.0)
    return (1 - kept) * plain / scaling.factor + kept * plain
