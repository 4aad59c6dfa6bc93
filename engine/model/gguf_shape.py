"""The shape of a model, read from the metadata of a GGUF file and the names of its tensors.

Called by the loader. What the metadata do not say is what llama.cpp takes for granted. Importing this module must not import
torch (see `architecture`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from typing import Any, Final

from engine.errors import ModelError
from engine.model.architecture import Activation, LayerAttention, ModelShape, checked
from engine.model.config_shape import MOST_LAYERS
from engine.model.model_settings import ModelSettings
from engine.model.rope import LinearScaling, Rope, RopeScaling, YarnScaling, yarn_magnitude

LOCAL_LAYERS: Final = 6
"""Of Gemma 3: every sixth layer is global."""
LOCAL_THETA: Final = 10000.0
LARGEST_GEMMA3_LAYERS: Final = 62
"""The model of 27 billion parameters; it alone scales its scores by the width of a head's share of the model."""


def shape_of_gguf(metadata: Mapping[str, Any], tensor_names: frozenset[str], where: str) -> ModelShape:
    """The shape that the metadata of a GGUF file describe; a missing output matrix means tied embeddings. Raises ModelError."""
    architecture = str(metadata.get("general.architecture", "(none named)"))
    family = _FAMILIES.get(architecture)
    if family is None:
        raise ModelError(f"{where} is of the architecture {architecture}, and supported are {', '.join(_FAMILIES)}")
    prefix = architecture + "."
    own = {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}
    settings = ModelSettings(own, where)
    settings.refuse_unless("expert_count", 0)
    if not family.is_gemma:
        settings.refuse_unless("attn_logit_softcapping")
        settings.refuse_unless("final_logit_softcapping")
    layers = settings.whole("block_count")
    if layers > MOST_LAYERS:
        raise ModelError(f"{where} says block_count = {layers}, and at most {MOST_LAYERS} are supported")
    heads, hidden_size = settings.whole("attention.head_count"), settings.whole("embedding_length")
    head_size = settings.whole("attention.key_length", hidden_size // heads)
    settings.refuse_unless("attention.value_length", head_size)
    settings.refuse_unless("rope.dimension_count", head_size)
    context_tokens = settings.whole("context_length")
    tokens = metadata.get("tokenizer.ggml.tokens")
    rope = Rope(settings.number("rope.freq_base", 10000.0), _scaling(settings, context_tokens))
    score_width = hidden_size / heads if family.is_gemma and layers == LARGEST_GEMMA3_LAYERS else head_size
    shape = ModelShape(
        architecture=architecture,
        hidden_size=hidden_size,
        intermediate_size=settings.whole("feed_forward_length"),
        heads=heads,
        kv_heads=settings.whole("attention.head_count_kv", heads),
        head_size=head_size,
        vocabulary_size=settings.whole("vocab_size", len(tokens) if isinstance(tokens, Sized) else None),
        context_tokens=rope.context_tokens(context_tokens),
        norm_epsilon=settings.number("attention.layer_norm_rms_epsilon"),
        tied_embeddings="output.weight" not in tensor_names,
        attention=family.attention(settings, rope, layers),
        score_scale=settings.number("attention.scale", score_width**-0.5),
        activation=Activation.GELU_TANH if family.is_gemma else Activation.SILU,
        query_key_norms=family.query_key_norms,
        output_norms=family.is_gemma,
        qkv_bias="blk.0.attn_q.bias" in tensor_names,
        attention_output_bias="blk.0.attn_output.bias" in tensor_names,
        feed_forward_bias="blk.0.ffn_down.bias" in tensor_names,
        embedding_scale=hidden_size**0.5 if family.is_gemma else 1.0,
        score_cap=settings.number_if_there("attn_logit_softcapping"),
        logit_cap=settings.number_if_there("final_logit_softcapping"),
    )
    return checked(shape, where)


@dataclass(frozen=True, slots=True)
class _Family:
    """What llama.cpp knows of an architecture that the metadata do not say."""

    attention: Callable[[ModelSettings, Rope, int], tuple[LayerAttention, ...]]
    query_key_norms: bool = False
    is_gemma: bool = False


def _llama(settings: ModelSettings, rope: Rope, layers: int) -> tuple[LayerAttention, ...]:
    """Mistral's files are of this architecture: where they name a window, every layer has it."""
    settings.refuse_unless("attention.sliding_window_pattern")
    return (LayerAttention(rope, settings.whole_if_there("attention.sliding_window")),) * layers


def _qwen(settings: ModelSettings, rope: Rope, layers: int) -> tuple[LayerAttention, ...]:
    settings.refuse_unless("attention.sliding_window")
    return (LayerAttention(rope),) * layers


def _gemma3(settings: ModelSettings, rope: Rope, layers: int) -> tuple[LayerAttention, ...]:
    """Only the global layers are scaled. Without a window all are global."""
    window = settings.whole_if_there("attention.sliding_window")
    if window is None:
        return (LayerAttention(rope),) * layers
    local = LayerAttention(Rope(settings.number("rope.freq_base_swa", LOCAL_THETA)), window)
    period = settings.whole("attention.sliding_window_pattern", LOCAL_LAYERS)
    return tuple(local if (index + 1) % period else LayerAttention(rope) for index in range(layers))


def _scaling(settings: ModelSettings, context_tokens: int) -> RopeScaling | None:
    kind = settings.get("rope.scaling.type", "none")
    settings.refuse_unless("rope.scaling.type", "none", "linear", "yarn")
    settings.refuse_unless("rope.scale_linear", 1.0)
    if kind == "none":
        # Without a type, a factor alone scales linearly.
        settings.refuse_unless("rope.scaling.factor", 1.0)
        return None
    for key in ("attn_factor", "yarn_ext_factor", "yarn_attn_factor"):
        settings.refuse_unless(f"rope.scaling.{key}", 1.0)
    settings.refuse_unless("rope.scaling.yarn_log_multiplier", 0.0)
    factor = settings.number("rope.scaling.factor")
    if kind == "linear":
        return LinearScaling(factor)
    if settings.number("rope.freq_base", 10000.0) <= 1:
        raise ModelError(f"{settings.where} has rotary positions of type yarn that give no frequencies")
    return YarnScaling(
        factor,
        settings.whole("rope.scaling.original_context_length", context_tokens),
        yarn_magnitude(factor),
        settings.number("rope.scaling.yarn_beta_fast", 32.0),
        settings.number("rope.scaling.yarn_beta_slow", 1.0),
    )


_FAMILIES: Final[Mapping[str, _Family]] = {
    "llama": _Family(_llama),
    "qwen2": _Family(_qwen),
    "qwen3": _Family(_qwen, query_key_norms=True),
    "gemma3": _Family(_gemma3, query_key_norms=True, is_gemma=True),
}
SUPPORTED_GGUF_ARCHITECTURES: Final = tuple(_FAMILIES)
