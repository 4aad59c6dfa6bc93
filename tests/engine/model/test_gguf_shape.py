"""Metadata of GGUF files describe what llama.cpp computes with them."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import ModelError
from engine.model.architecture import LayerAttention, ModelShape, NormStyle
from engine.model.gguf_file import SkippedArray
from engine.model.gguf_shape import shape_of_gguf
from engine.model.rope import LinearScaling, Rope, YarnScaling

SIZES: dict[str, Any] = {
    "block_count": 7,
    "context_length": 4096,
    "embedding_length": 64,
    "feed_forward_length": 128,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "rope.freq_base": 1000000.0,
    "vocab_size": 100,
}
LINEAR = {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0}
YARN = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 2048,
}


def shape_of(architecture: str, names: frozenset[str] = frozenset(), **changes: Any) -> ModelShape:
    own = {f"{architecture}.{key}": value for key, value in {**SIZES, **changes}.items()}
    return shape_of_gguf({"general.architecture": architecture, **own}, names, "x.gguf")


def test_gemma_3_has_local_layers_with_a_base_of_their_own_and_scales_only_the_global_ones() -> None:
    shape = shape_of("gemma3", **{"attention.key_length": 256, "attention.sliding_window": 512, **LINEAR})
    local, whole = LayerAttention(Rope(10000.0), 512), LayerAttention(Rope(1e6, LinearScaling(8.0)))
    assert shape.attention == (*[local] * 5, whole, local)
    assert (shape.score_scale, shape.embedding_scale) == (1 / 16, 8.0)
    assert shape.norm_style is NormStyle.PLAIN, "the conversion has added the 1"
    assert (shape.output_norms, shape.query_key_norms, shape.tied_embeddings) == (True, True, True)


def test_a_gemma_3_without_a_window_is_global_in_all_layers() -> None:
    assert shape_of("gemma3").attention == (LayerAttention(Rope(1e6)),) * 7


def test_the_largest_gemma_3_scales_its_scores_by_another_width() -> None:
    window = {"attention.sliding_window": 512, "attention.key_length": 128}
    assert shape_of("gemma3", **window, block_count=62).score_scale == 0.25
    assert shape_of("gemma3", **window, **{"attention.scale": 0.5}).score_scale == 0.5


def test_what_the_tensors_are_named_says_which_biases_there_are() -> None:
    names = frozenset({"output.weight", "blk.0.attn_q.bias", "blk.0.ffn_down.bias"})
    shape = shape_of("qwen2", names)
    assert (shape.qkv_bias, shape.attention_output_bias, shape.feed_forward_bias) == (True, False, True)
    assert not shape.tied_embeddings


def test_yarn_has_the_magnitude_llama_cpp_gives_it() -> None:
    shape = shape_of("qwen3", **YARN)
    assert shape.attention[0].rope.scaling == YarnScaling(4.0, 2048, pytest.approx(1.138629436))
    assert shape.context_tokens == 8192
    assert shape.query_key_norms


@pytest.mark.parametrize(
    ("architecture", "changes", "sentence"),
    [
        ("gemma2", {}, "architecture gemma2, and supported are llama, qwen2, qwen3, gemma3"),
        ("gemma3", {"attention.sliding_window": 0}, "sliding_window = 0, where a positive whole number was expected"),
        (
            "gemma3",
            {"attention.sliding_window": 5, "attention.sliding_window_pattern": SkippedArray(7)},
            r"sliding_window_pattern = \(array of 7\)",
        ),
        ("qwen2", {"attention.sliding_window": 5}, "attention.sliding_window = 5, which is not supported"),
        ("llama", {"rope.scaling.type": "longrope"}, "only 'none' or 'linear' or 'yarn' is"),
        ("llama", {"rope.scaling.type": "linear"}, "rope.scaling.factor = None"),
        ("llama", {**YARN, "rope.scaling.attn_factor": 0.8}, "rope.scaling.attn_factor = 0.8"),
        ("llama", {**YARN, "rope.scaling.yarn_log_multiplier": 0.1}, "yarn_log_multiplier = 0.1"),
        ("llama", {**YARN, "rope.freq_base": 1.0}, "type yarn that give no frequencies"),
        ("llama", {"block_count": 10**9}, "block_count = 1000000000, and at most 10000"),
    ],
)
def test_what_is_not_computed_is_refused_by_its_name(architecture: str, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ModelError, match=rf"x\.gguf .*{sentence}"):
        shape_of(architecture, **changes)
