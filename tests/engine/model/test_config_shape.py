"""Configurations as they are published, also of older versions, describe what transformers computes with them."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import ModelError
from engine.model.architecture import Activation, LayerAttention, ModelShape, NormStyle
from engine.model.config_shape import shape_of_config
from engine.model.rope import LinearScaling, Rope, YarnScaling

SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "vocab_size": 100,
}


def shape_of(architecture: str, **changes: Any) -> ModelShape:
    return shape_of_config({"architectures": [f"{architecture}ForCausalLM"], **SIZES, **changes}, "config.json")


def windows(shape: ModelShape) -> list[int | None]:
    return [attention.window_tokens for attention in shape.attention]


def test_llama_is_plain() -> None:
    shape = shape_of("Llama", rms_norm_eps=1e-5, max_position_embeddings=8192, rope_theta=500000.0)
    assert shape.attention == (LayerAttention(Rope(500000.0)),) * 4
    assert (shape.head_size, shape.score_scale) == (16, 0.25)
    assert (shape.qkv_bias, shape.attention_output_bias, shape.feed_forward_bias) == (False, False, False)
    assert shape.activation is Activation.SILU
    assert not shape.tied_embeddings


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({"sliding_window": 512}, 512), ({"sliding_window": None}, None), ({}, 4096)],
)
def test_mistral_has_its_window_in_every_layer(settings: dict[str, Any], expected: int | None) -> None:
    assert windows(shape_of("Mistral", **settings)) == [expected] * 4


def test_qwen2_names_a_window_that_is_not_in_use() -> None:
    shape = shape_of("Qwen2", sliding_window=131072, max_window_layers=2, use_sliding_window=False)
    assert windows(shape) == [None] * 4
    assert (shape.qkv_bias, shape.attention_output_bias) == (True, False)
    assert windows(shape_of("Qwen2", sliding_window=9, max_window_layers=3, use_sliding_window=True)) == [
        *[None] * 3,
        9,
    ]


def test_qwen2_with_yarn_as_its_page_says_reaches_four_times_as_far() -> None:
    scaling = {"factor": 4.0, "original_max_position_embeddings": 32768, "type": "yarn"}
    shape = shape_of("Qwen2", max_position_embeddings=32768, rope_theta=1000000.0, rope_scaling=scaling)
    assert shape.context_tokens == 131072
    rope = shape.attention[0].rope
    assert rope.theta == 1e6
    assert isinstance(rope.scaling, YarnScaling)
    assert rope.scaling.magnitude == pytest.approx(1.138629436)


def test_qwen3_norms_its_heads_which_have_a_size_of_their_own() -> None:
    shape = shape_of("Qwen3", tie_word_embeddings=True)
    assert shape.query_key_norms
    assert (shape.head_size, shape.tied_embeddings, shape.qkv_bias) == (128, True, False)


GEMMA_OLD = {
    "head_dim": 32,
    "rope_theta": 1000000,
    "rope_local_base_freq": 10000,
    "sliding_window": 512,
    "sliding_window_pattern": 3,
    "query_pre_attn_scalar": 100,
    "hidden_activation": "gelu_pytorch_tanh",
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}
GEMMA_NEW = {
    "head_dim": 32,
    "sliding_window": 512,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
    "query_pre_attn_scalar": 100,
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "rope_theta": 1000000, "factor": 8.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000},
    },
}


@pytest.mark.parametrize("settings", [GEMMA_OLD, GEMMA_NEW])
def test_gemma_3_is_the_same_in_its_older_and_newer_spelling(settings: dict[str, Any]) -> None:
    shape = shape_of("Gemma3", **settings)
    local = LayerAttention(Rope(1e4), 512)
    assert shape.attention == (local, local, LayerAttention(Rope(1e6, LinearScaling(8.0))), local)
    assert (shape.score_scale, shape.embedding_scale) == (0.1, 8.0)
    assert shape.norm_style is NormStyle.UNIT_OFFSET
    assert shape.activation is Activation.GELU_TANH
    assert (shape.output_norms, shape.query_key_norms, shape.tied_embeddings) == (True, True, True)
    assert (shape.score_cap, shape.logit_cap) == (None, None)


def test_gemma_3_has_what_it_does_not_say() -> None:
    shape = shape_of("Gemma3", num_hidden_layers=7)
    assert windows(shape) == [4096] * 5 + [None, 4096]
    assert [kind.rope.theta for kind in shape.attention_kinds] == [1e4, 1e6]
    assert (shape.head_size, shape.score_scale, shape.context_tokens) == (256, 1 / 16, 131072)


@pytest.mark.parametrize(
    ("architecture", "settings", "sentence"),
    [
        ("Gemma2", {}, "architecture Gemma2ForCausalLM, and supported are LlamaForCausalLM, Mistral"),
        ("Mistral", {"layer_types": ["full_attention"] * 4}, "layer_types = .* which is not supported"),
        ("Mistral", {"sliding_window": 0}, "sliding_window = 0, where a positive whole number was expected"),
        ("Qwen2", {"layer_types": ["full_attention"]}, "where 4 of full_attention, sliding_attention were expected"),
        ("Qwen2", {"layer_types": ["chunked_attention"] * 4}, "where 4 of full_attention, sliding_attention were"),
        ("Qwen3", {"layer_types": ["sliding_attention"] * 4}, "no sliding_window that is in use"),
        ("Qwen2", {"use_sliding_window": True, "max_window_layers": "2"}, "max_window_layers = '2'"),
        ("Qwen2", {"rope_parameters": {"full_attention": {"rope_theta": 1}}}, "full_attention = .* not supported"),
        ("Gemma3", {"sliding_window": None}, "layers of sliding_attention and no sliding_window"),
        ("Gemma3", {"rope_parameters": {"rope_type": "linear"}}, "rope_type = 'linear', which is not supported"),
        ("Gemma3", {"rope_parameters": {"full_attention": 3}}, "full_attention = 3, where an object was expected"),
        ("Gemma3", {"hidden_activation": "relu"}, "only 'silu' or 'gelu_pytorch_tanh' is"),
        ("Gemma3", {"use_bidirectional_attention": True}, "use_bidirectional_attention = True"),
        ("Gemma3", {"final_logit_softcapping": -1}, "final_logit_softcapping = -1, where a positive number"),
        ("Llama", {"head_dim": 2, "rope_scaling": {"type": "dynamic", "factor": 2}}, "heads of 2 numbers"),
    ],
)
def test_what_is_not_computed_is_refused_by_its_name(
    architecture: str, settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ModelError, match=rf"config\.json .*{sentence}"):
        shape_of(architecture, **settings)
