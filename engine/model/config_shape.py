"""The shape of a model, read from the `config.json` of a folder.

Called by the loader, and by `hub` about models that have not been fetched yet: importing this module must not import torch.
Defaults are those of transformers, which leaves out of a file what is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from engine.errors import ModelError
from engine.model.architecture import Activation, LayerAttention, ModelShape, NormStyle, checked
from engine.model.model_settings import ModelSettings
from engine.model.rope import Rope, rope_of_config

FULL, SLIDING = "full_attention", "sliding_attention"
MOST_LAYERS: Final = 10_000
"""No model has a tenth of this; more is damage, and would be listed one by one."""


@dataclass(frozen=True, slots=True)
class _Family:
    """What transformers knows of an architecture that a `config.json` does not say."""

    attention: Callable[[ModelSettings, int, int], tuple[LayerAttention, ...]]
    """Of the settings, the number of layers and the context in tokens."""
    biases: Callable[[ModelSettings], tuple[bool, bool, bool]]
    """Whether queries, keys and values, the output of attention, and the feed-forward part have some."""
    context_tokens: int
    head_size: int | None = None
    query_key_norms: bool = False
    is_gemma: bool = False
    activation_key: str = "hidden_act"
    activation: Activation = Activation.SILU


def shape_of_config(config: Mapping[str, Any], where: str) -> ModelShape:
    """The shape a `config.json` describes. `where` names the file in errors. Raises ModelError."""
    architectures = config.get("architectures")
    architecture = str(architectures[0]) if isinstance(architectures, list) and architectures else "(none named)"
    family = _FAMILIES.get(architecture)
    if family is None:
        raise ModelError(f"{where} is of the architecture {architecture}, and supported are {', '.join(_FAMILIES)}")
    settings = ModelSettings(config, where)
    settings.refuse_unless("partial_rotary_factor", 1.0)
    settings.refuse_unless("quantization_config")
    settings.refuse_unless("use_bidirectional_attention", False)
    settings.refuse_unless(family.activation_key, *(known.value for known in Activation))
    layers = settings.whole("num_hidden_layers")
    if layers > MOST_LAYERS:
        raise ModelError(f"{where} says num_hidden_layers = {layers}, and at most {MOST_LAYERS} are supported")
    heads, hidden_size = settings.whole("num_attention_heads"), settings.whole("hidden_size")
    head_size = settings.whole("head_dim", family.head_size or hidden_size // heads)
    context_tokens = settings.whole("max_position_embeddings", family.context_tokens)
    attention = family.attention(settings, layers, context_tokens)
    qkv_bias, output_bias, feed_forward_bias = family.biases(settings)
    shape = ModelShape(
        architecture=architecture,
        hidden_size=hidden_size,
        intermediate_size=settings.whole("intermediate_size"),
        heads=heads,
        kv_heads=settings.whole("num_key_value_heads", heads),
        head_size=head_size,
        vocabulary_size=settings.whole("vocab_size"),
        context_tokens=max(kind.rope.context_tokens(context_tokens) for kind in set(attention)),
        norm_epsilon=settings.number("rms_norm_eps", 1e-6),
        tied_embeddings=settings.flag("tie_word_embeddings", family.is_gemma),
        attention=attention,
        score_scale=(settings.number("query_pre_attn_scalar", 256.0) if family.is_gemma else head_size) ** -0.5,
        activation=Activation(settings.get(family.activation_key, family.activation.value)),
        norm_style=NormStyle.UNIT_OFFSET if family.is_gemma else NormStyle.PLAIN,
        query_key_norms=family.query_key_norms,
        output_norms=family.is_gemma,
        qkv_bias=qkv_bias,
        attention_output_bias=output_bias,
        feed_forward_bias=feed_forward_bias,
        embedding_scale=hidden_size**0.5 if family.is_gemma else 1.0,
        score_cap=settings.number_if_there("attn_logit_softcapping") if family.is_gemma else None,
        logit_cap=settings.number_if_there("final_logit_softcapping") if family.is_gemma else None,
    )
    return checked(shape, where)


def _full(settings: ModelSettings, layers: int, context_tokens: int) -> tuple[LayerAttention, ...]:
    return (LayerAttention(_rope(settings, context_tokens)),) * layers


def _mistral(settings: ModelSettings, layers: int, context_tokens: int) -> tuple[LayerAttention, ...]:
    """A window in every layer, unless it is null."""
    settings.refuse_unless("layer_types")
    window = settings.whole_if_there("sliding_window") if settings.has("sliding_window") else 4096
    return (LayerAttention(_rope(settings, context_tokens), window),) * layers


def _qwen(settings: ModelSettings, layers: int, context_tokens: int) -> tuple[LayerAttention, ...]:
    """A window in the upper layers, where it is switched on."""
    rope = _rope(settings, context_tokens)
    window = None
    if settings.flag("use_sliding_window") and (settings.get("sliding_window") or not settings.has("sliding_window")):
        window = settings.whole("sliding_window", 4096)
    kinds = settings.choices("layer_types", layers, (FULL, SLIDING))
    if kinds is None:
        whole_layers = settings.get("max_window_layers", 28)
        if isinstance(whole_layers, bool) or not isinstance(whole_layers, int):
            raise ModelError(f"{settings.where} says max_window_layers = {whole_layers!r}, where a number was expected")
        kinds = [SLIDING if window and index >= whole_layers else FULL for index in range(layers)]
    if SLIDING in kinds and window is None:
        raise ModelError(f"{settings.where} has layers of {SLIDING} and no sliding_window that is in use")
    return tuple(LayerAttention(rope, window if kind == SLIDING else None) for kind in kinds)


def _gemma3(settings: ModelSettings, layers: int, context_tokens: int) -> tuple[LayerAttention, ...]:
    """Local layers with a window and a rotary base of their own, and every sixth layer global."""
    kinds = settings.choices("layer_types", layers, (FULL, SLIDING))
    if kinds is None:
        period = settings.whole("sliding_window_pattern", 6)
        kinds = [SLIDING if (index + 1) % period else FULL for index in range(layers)]
    if SLIDING in kinds and settings.has("sliding_window") and settings.get("sliding_window") is None:
        raise ModelError(f"{settings.where} has layers of {SLIDING} and no sliding_window")
    parameters = settings.inner("rope_parameters")
    for key in ("rope_type", "type", "rope_theta"):
        parameters.refuse_unless(key)
    # The older files name the two bases apart and scale only the global layers.
    older = settings.inner("rope_scaling")
    full = parameters.inner(FULL).over(older)
    original = settings.whole_if_there("original_max_position_embeddings")
    full_rope = rope_of_config(full, settings.number("rope_theta", 1e6), context_tokens, original)
    local_theta = settings.number("rope_local_base_freq", 1e4)
    sliding_rope = rope_of_config(parameters.inner(SLIDING), local_theta, context_tokens, original)
    by_kind = {
        FULL: LayerAttention(full_rope),
        SLIDING: LayerAttention(sliding_rope, settings.whole("sliding_window", 4096)),
    }
    return tuple(by_kind[kind] for kind in kinds)


def _rope(settings: ModelSettings, context_tokens: int) -> Rope:
    """Of a model that has the same in all layers."""
    rope = settings.inner("rope_scaling" if settings.get("rope_scaling") else "rope_parameters")
    rope.refuse_unless(FULL)
    rope.refuse_unless(SLIDING)
    original = settings.whole_if_there("original_max_position_embeddings")
    return rope_of_config(rope, settings.number("rope_theta", 1e4), context_tokens, original)


def _all_as_configured(settings: ModelSettings) -> tuple[bool, bool, bool]:
    attention = settings.flag("attention_bias")
    return attention, attention, settings.flag("mlp_bias")


def _attention_as_configured(settings: ModelSettings) -> tuple[bool, bool, bool]:
    attention = settings.flag("attention_bias")
    return attention, attention, False


_FAMILIES: Final[Mapping[str, _Family]] = {
    "LlamaForCausalLM": _Family(_full, _all_as_configured, context_tokens=2048),
    "MistralForCausalLM": _Family(_mistral, lambda _settings: (False, False, False), context_tokens=131072),
    "Qwen2ForCausalLM": _Family(_qwen, lambda _settings: (True, False, False), context_tokens=32768),
    "Qwen3ForCausalLM": _Family(
        _qwen, _attention_as_configured, context_tokens=32768, head_size=128, query_key_norms=True
    ),
    "Gemma3ForCausalLM": _Family(
        _gemma3,
        _attention_as_configured,
        context_tokens=131072,
        head_size=256,
        query_key_norms=True,
        is_gemma=True,
        activation_key="hidden_activation",
        activation=Activation.GELU_TANH,
    ),
}
SUPPORTED_ARCHITECTURES: Final = tuple(_FAMILIES)
