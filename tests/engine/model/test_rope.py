"""Frequencies of rotary positions are those of transformers, and kinds that are not implemented are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine.errors import ModelError
from engine.model.model_settings import ModelSettings
from engine.model.rope import Rope, rope_of_config
from engine.model.rotation import rotation_of

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1000000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 32768,
}
KINDS: dict[str, dict[str, Any]] = {
    "default": {"rope_type": "default", "rope_theta": 100000.0},
    "linear": {"rope_type": "linear", "rope_theta": 100000.0, "factor": 8.0},
    "dynamic": {"rope_type": "dynamic", "rope_theta": 100000.0, "factor": 8.0},
    "llama3": LLAMA3,
    "yarn": YARN,
    "yarn, its own magnitude": {**YARN, "attention_factor": 1.5},
    "yarn, magnitudes of two": {**YARN, "mscale": 0.707, "mscale_all_dim": 1.3},
    "yarn, other turns": {**YARN, "beta_fast": 16.0, "beta_slow": 2.0},
    "yarn, bounds as they are": {**YARN, "truncate": False},
    "yarn, a factor below 1": {**YARN, "factor": 0.5},
}
CONTEXT = 131072


def read(rope: dict[str, Any], context_tokens: int = CONTEXT) -> Rope:
    return rope_of_config(ModelSettings(rope, "config.json"), 10000.0, context_tokens, None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head_size", [64, 128])
def test_frequencies_and_magnitude_are_those_of_transformers(kind: str, head_size: int) -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=4 * head_size,
        num_attention_heads=4,
        max_position_embeddings=CONTEXT,
        rope_parameters=dict(KINDS[kind]),
    )
    theirs, ours = LlamaRotaryEmbedding(config), rotation_of(read(KINDS[kind]), head_size)
    torch.testing.assert_close(ours.frequencies, theirs.inv_freq, rtol=1e-6, atol=0)
    assert ours.magnitude == pytest.approx(theirs.attention_scaling, rel=1e-12)


def test_dynamic_frequencies_of_a_place_are_those_of_a_text_that_ends_there() -> None:
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
    config = LlamaConfig(
        hidden_size=256, num_attention_heads=4, max_position_embeddings=100, rope_parameters=dict(rope)
    )
    rotation = rotation_of(read(rope, 100), 64)
    rows = rotation.at(torch.tensor([0, 99, 100, 399]))
    for length, row in zip((1, 100, 101, 400), rows, strict=True):
        expected, _ = ROPE_INIT_FUNCTIONS["dynamic"](config, torch.device("cpu"), seq_len=torch.tensor(length))
        torch.testing.assert_close(row, expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(rows[0], rotation.frequencies)


@pytest.mark.parametrize(
    ("rope", "context_tokens"),
    [
        (KINDS["default"], 40960),
        (KINDS["linear"], 40960),
        (LLAMA3, 40960),
        (KINDS["dynamic"], 8 * 40960),
        (YARN, 4 * 32768),
        ({**YARN, "factor": 1.1}, 40960),
    ],
)
def test_a_context_is_as_long_as_its_positions_are_stretched(rope: dict[str, Any], context_tokens: int) -> None:
    assert read(rope, 40960).context_tokens(40960) == context_tokens


@pytest.mark.parametrize("kind", ["longrope", "su", "proportional", ["yarn"]])
@pytest.mark.parametrize("key", ["rope_type", "type"])
def test_other_kinds_are_refused_by_name(kind: object, key: str) -> None:
    with pytest.raises(ModelError, match=r", and supported are default, linear, dynamic, yarn, llama3"):
        read({key: kind, "factor": 2.0})


@pytest.mark.parametrize("missing", ["factor", "low_freq_factor", "high_freq_factor"])
def test_an_incomplete_table_is_refused(missing: str) -> None:
    with pytest.raises(ModelError, match=missing):
        read({key: value for key, value in LLAMA3.items() if key != missing})


@pytest.mark.parametrize("kind", ["linear", "dynamic"])
def test_a_scaling_without_a_factor_is_refused(kind: str) -> None:
    with pytest.raises(ModelError, match="factor = None, where a positive number was expected"):
        read({"rope_type": kind})


def test_the_original_context_is_the_models_where_none_is_named() -> None:
    made = read({key: value for key, value in LLAMA3.items() if key != "original_max_position_embeddings"}, 4096)
    assert made == read({**LLAMA3, "original_max_position_embeddings": 4096})


def test_the_original_context_of_the_whole_config_wins_over_that_of_its_parameters() -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=256,
        num_attention_heads=4,
        max_position_embeddings=8192,
        rope_parameters={**YARN, "original_max_position_embeddings": 4096},
        original_max_position_embeddings=2048,
    )
    theirs = LlamaRotaryEmbedding(config).inv_freq
    made = rope_of_config(ModelSettings(YARN, "config.json"), 10000.0, 8192, 2048)
    torch.testing.assert_close(rotation_of(made, 64).frequencies, theirs, rtol=1e-6, atol=0)
    assert made != read(YARN, 8192)
