"""Frequencies of rotary positions are those of transformers, and kinds that are not implemented are refused."""

from __future__ import annotations

import pytest
import torch

from engine.errors import ModelError
from engine.model.rope import inverse_frequencies, rope_scaling_of

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


@pytest.mark.parametrize("rope", [{"rope_type": "default", "rope_theta": 100000.0}, LLAMA3])
@pytest.mark.parametrize("head_size", [64, 128])
def test_frequencies_are_those_of_transformers_to_the_last_bit(rope: dict[str, float | str], head_size: int) -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=4 * head_size, num_attention_heads=4, max_position_embeddings=131072, rope_parameters=dict(rope)
    )
    ours = inverse_frequencies(head_size, float(rope["rope_theta"]), rope_scaling_of(rope, "config.json"))
    torch.testing.assert_close(ours, LlamaRotaryEmbedding(config).inv_freq, rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn", "longrope", "su"])
@pytest.mark.parametrize("key", ["rope_type", "type"])
def test_other_kinds_are_refused_by_name(kind: str, key: str) -> None:
    with pytest.raises(ModelError, match=rf"'{kind}', and supported are default, llama3"):
        rope_scaling_of({key: kind, "factor": 2.0}, "config.json")


@pytest.mark.parametrize(
    "missing", ["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"]
)
def test_an_incomplete_table_is_refused(missing: str) -> None:
    with pytest.raises(ModelError, match=missing):
        rope_scaling_of({key: value for key, value in LLAMA3.items() if key != missing}, "config.json")
