"""The shape of a model, read from the `config.json` of a folder or from the metadata of a GGUF file.

Only what is computed is accepted: a setting that would change the result and is not implemented is a ModelError, because a
model that almost runs gives answers that are almost right. Importing this module must not import torch: it is asked before the
engine starts, about models that have not been fetched yet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.errors import ModelError
from engine.model.rope import RopeScaling, rope_scaling_of

if TYPE_CHECKING:
    import torch

    from engine.kv_cache import KVSpec

SUPPORTED_ARCHITECTURES = ("LlamaForCausalLM",)
SUPPORTED_GGUF_ARCHITECTURES = ("llama",)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder of the Llama kind: RMSNorm, rotary positions, grouped query attention, SwiGLU."""

    architecture: str
    layers: int
    hidden_size: int
    intermediate_size: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary_size: int
    context_tokens: int
    norm_epsilon: float
    tied_embeddings: bool
    rope_theta: float
    rope_scaling: RopeScaling | None

    def kv_spec(self, dtype: torch.dtype) -> KVSpec:
        """The keys and values this model keeps of each token."""
        from engine.kv_cache import KVSpec

        return KVSpec(self.layers, self.kv_heads, self.head_size, dtype)


def shape_of_config(config: Mapping[str, Any], where: str) -> ModelShape:
    """The shape a Hugging Face `config.json` describes. `where` names the file in errors."""
    architectures = config.get("architectures")
    architecture = str(architectures[0]) if isinstance(architectures, list) and architectures else "(none named)"
    if architecture not in SUPPORTED_ARCHITECTURES:
        raise ModelError(
            f"{where} is of the architecture {architecture}, and supported are {', '.join(SUPPORTED_ARCHITECTURES)}"
        )
    _refuse_unless(config, "hidden_act", "silu", where)
    _refuse_unless(config, "attention_bias", False, where)
    _refuse_unless(config, "mlp_bias", False, where)
    _refuse_unless(config, "partial_rotary_factor", 1.0, where)
    _refuse_unless(config, "quantization_config", None, where)
    heads = _positive(config, "num_attention_heads", where)
    hidden_size = _positive(config, "hidden_size", where)
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(rope, Mapping):
        raise ModelError(f"{where} has rope parameters that are not an object: {rope!r}")
    _refuse_unless(rope, "partial_rotary_factor", 1.0, where)
    theta = rope.get("rope_theta", config.get("rope_theta", 10000.0))
    shape = ModelShape(
        architecture=architecture,
        layers=_positive(config, "num_hidden_layers", where),
        hidden_size=hidden_size,
        intermediate_size=_positive(config, "intermediate_size", where),
        heads=heads,
        kv_heads=_positive(config, "num_key_value_heads", where, default=heads),
        head_size=_positive(config, "head_dim", where, default=hidden_size // heads),
        vocabulary_size=_positive(config, "vocab_size", where),
        context_tokens=_positive(config, "max_position_embeddings", where, default=2048),
        norm_epsilon=_number(config, "rms_norm_eps", where, default=1e-6),
        tied_embeddings=bool(config.get("tie_word_embeddings", False)),
        rope_theta=_as_number(theta, "rope_theta", where),
        rope_scaling=rope_scaling_of(rope, where),
    )
    return _checked(shape, where)


def shape_of_gguf(metadata: Mapping[str, Any], tensor_names: frozenset[str], where: str) -> ModelShape:
    """The shape that the metadata of a GGUF file describe; a missing output matrix means tied embeddings."""
    architecture = str(metadata.get("general.architecture", "(none named)"))
    if architecture not in SUPPORTED_GGUF_ARCHITECTURES:
        supported = ", ".join(SUPPORTED_GGUF_ARCHITECTURES)
        raise ModelError(f"{where} is of the architecture {architecture}, and supported are {supported}")
    own = {key.removeprefix("llama."): value for key, value in metadata.items() if key.startswith("llama.")}
    _refuse_unless(own, "expert_count", 0, where)
    _refuse_unless(own, "attention.sliding_window", None, where)
    _refuse_unless(own, "rope.scaling.type", "none", where)
    # Without a type, a factor alone scales linearly.
    _refuse_unless(own, "rope.scaling.factor", 1.0, where)
    _refuse_unless(own, "rope.scale_linear", 1.0, where)
    heads = _positive(own, "attention.head_count", where)
    hidden_size = _positive(own, "embedding_length", where)
    head_size = _positive(own, "attention.key_length", where, default=hidden_size // heads)
    _refuse_unless(own, "attention.value_length", head_size, where)
    _refuse_unless(own, "rope.dimension_count", head_size, where)
    tokens = metadata.get("tokenizer.ggml.tokens")
    vocabulary_size = _positive(own, "vocab_size", where, default=len(tokens) if isinstance(tokens, Sized) else None)
    shape = ModelShape(
        architecture=architecture,
        layers=_positive(own, "block_count", where),
        hidden_size=hidden_size,
        intermediate_size=_positive(own, "feed_forward_length", where),
        heads=heads,
        kv_heads=_positive(own, "attention.head_count_kv", where, default=heads),
        head_size=head_size,
        vocabulary_size=vocabulary_size,
        context_tokens=_positive(own, "context_length", where),
        norm_epsilon=_number(own, "attention.layer_norm_rms_epsilon", where),
        tied_embeddings="output.weight" not in tensor_names,
        rope_theta=_number(own, "rope.freq_base", where, default=10000.0),
        rope_scaling=None,
    )
    return _checked(shape, where)


def _checked(shape: ModelShape, where: str) -> ModelShape:
    if shape.heads % shape.kv_heads:
        raise ModelError(
            f"{where} has {shape.heads} attention heads, which {shape.kv_heads} key heads cannot share evenly"
        )
    if shape.head_size % 2:
        raise ModelError(f"{where} has heads of {shape.head_size} numbers, and rotary positions need an even size")
    return shape


def _refuse_unless(values: Mapping[str, Any], key: str, expected: object, where: str) -> None:
    """Refuse a setting that is there and says something else than what is implemented."""
    value = values.get(key)
    if value is not None and value != expected:
        shown = f"; only {expected!r} is" if expected is not None else ""
        raise ModelError(f"{where} says {key} = {value!r}, which is not supported{shown}")


def _positive(values: Mapping[str, Any], key: str, where: str, default: int | None = None) -> int:
    value = values.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ModelError(f"{where} says {key} = {value!r}, where a positive whole number was expected")
    return value


def _number(values: Mapping[str, Any], key: str, where: str, default: float | None = None) -> float:
    value = values.get(key)
    return _as_number(default if value is None else value, key, where)


def _as_number(value: object, key: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ModelError(f"{where} says {key} = {value!r}, where a positive number was expected")
    return float(value)
