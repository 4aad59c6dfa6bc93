"""Rotary positions as model files describe them: a base, and how its frequencies are stretched for long contexts.

`rotation` computes them. Importing this module must not import torch (see `architecture`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.errors import ModelError
from engine.model.model_settings import ModelSettings

SUPPORTED_ROPE_TYPES = ("default", "linear", "dynamic", "yarn", "llama3")


@dataclass(frozen=True, slots=True)
class LinearScaling:
    """All frequencies are divided by `factor`."""

    factor: float


@dataclass(frozen=True, slots=True)
class DynamicScaling:
    """Plain up to `original_context_tokens`. A position beyond has a larger base, the larger the further it is: the one that
    transformers has when it generates that position. So no key depends on what comes after it."""

    factor: float
    original_context_tokens: int


@dataclass(frozen=True, slots=True)
class YarnScaling:
    """Frequencies that turn fewer than `slow_turns` times in the original context are divided by `factor`, those that turn more
    than `fast_turns` stay, those between are blended. Queries and keys grow by `magnitude`. `whole_bounds`: the bounds of the
    blend are rounded outwards to whole frequencies."""

    factor: float
    original_context_tokens: int
    magnitude: float
    fast_turns: float = 32.0
    slow_turns: float = 1.0
    whole_bounds: bool = True


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Slow frequencies are divided by `factor`, fast ones stay, those between are blended."""

    factor: float
    low_frequency_factor: float
    high_frequency_factor: float
    original_context_tokens: int


RopeScaling = LinearScaling | DynamicScaling | YarnScaling | Llama3Scaling


@dataclass(frozen=True, slots=True)
class Rope:
    """`theta` is the base."""

    theta: float
    scaling: RopeScaling | None = None

    def context_tokens(self, configured: int) -> int:
        """How far a model goes whose file says `configured`: for these two kinds of stretching the files often name the length
        before it."""
        match self.scaling:
            case DynamicScaling(factor=factor):
                return max(configured, int(configured * factor))
            case YarnScaling(factor=factor, original_context_tokens=original):
                return max(configured, int(original * factor))
        return configured


def rope_of_config(rope: ModelSettings, theta: float, context_tokens: int, original_context_tokens: int | None) -> Rope:
    """Read `rope_parameters` (or the older `rope_scaling`) of a config.

    `theta` holds where it says nothing. `context_tokens` is the whole model's, and so is `original_context_tokens`, which wins
    over what the parameters say, as in transformers.
    """
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in SUPPORTED_ROPE_TYPES:
        raise ModelError(
            f"{rope.where} scales its positions by the rope type {kind!r}, and supported are "
            f"{', '.join(SUPPORTED_ROPE_TYPES)}"
        )
    rope.refuse_unless("partial_rotary_factor", 1.0)
    theta = rope.number("rope_theta", theta)
    original = original_context_tokens or rope.whole("original_max_position_embeddings", context_tokens)
    match kind:
        case "linear":
            return Rope(theta, LinearScaling(rope.number("factor")))
        case "dynamic":
            return _checked(rope, kind, Rope(theta, DynamicScaling(rope.number("factor"), context_tokens)))
        case "yarn":
            return _checked(rope, kind, Rope(theta, _yarn(rope, original, context_tokens)))
        case "llama3":
            scaling = Llama3Scaling(
                factor=rope.number("factor"),
                low_frequency_factor=rope.number("low_freq_factor"),
                high_frequency_factor=rope.number("high_freq_factor"),
                original_context_tokens=original,
            )
            return _checked(rope, kind, Rope(theta, scaling))
    return Rope(theta)


def _yarn(rope: ModelSettings, original: int, context_tokens: int) -> YarnScaling:
    factor = rope.number("factor", context_tokens / original)
    magnitude = rope.number_if_there("attention_factor")
    if magnitude is None:
        scale, scale_all = rope.number_if_there("mscale"), rope.number_if_there("mscale_all_dim")
        if scale is None or scale_all is None:
            magnitude = yarn_magnitude(factor)
        else:
            magnitude = yarn_magnitude(factor, scale) / yarn_magnitude(factor, scale_all)
    fast_turns, slow_turns = rope.number("beta_fast", 32.0), rope.number("beta_slow", 1.0)
    return YarnScaling(factor, original, magnitude, fast_turns, slow_turns, rope.flag("truncate", default=True))


def yarn_magnitude(factor: float, scale: float = 1.0) -> float:
    """By how much queries and keys grow where a file does not say it."""
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


def _checked(rope: ModelSettings, kind: str, made: Rope) -> Rope:
    match made.scaling:
        case Llama3Scaling(low_frequency_factor=low, high_frequency_factor=high):
            gives_frequencies = low < high
        case DynamicScaling(factor=factor):
            gives_frequencies = factor >= 1
        case _:
            # The blend of YaRN has its bounds in logarithms to this base.
            gives_frequencies = made.theta > 1
    if not gives_frequencies:
        raise ModelError(f"{rope.where} has rope parameters of type {kind} that give no frequencies: {made}")
    return made
