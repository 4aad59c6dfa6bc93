"""What a decoder computes: a description that `config_shape` and `gguf_shape` read out of model files, and nothing runs.

Only what is computed can be described: a setting that would change the result and is not implemented is a ModelError where it is
read, because a model that almost runs gives answers that are almost right. Importing this module must not import torch: it is
asked before the engine starts, about models that have not been fetched yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from engine.errors import ModelError
from engine.model.rope import DynamicScaling, Rope

if TYPE_CHECKING:
    import torch

    from engine.kv_cache import KVSpec


class Activation(Enum):
    """Of the gate in the feed-forward part; values are the names in a `config.json`."""

    SILU = "silu"
    GELU_TANH = "gelu_pytorch_tanh"


class NormStyle(Enum):
    """`UNIT_OFFSET`, Gemma's: files of transformers keep a norm's weight less 1, and the product with it is taken in float32
    whatever the rows are. A GGUF keeps the whole weight."""

    PLAIN = "plain"
    UNIT_OFFSET = "unit offset"


@dataclass(frozen=True, slots=True)
class LayerAttention:
    """What differs between the attention of one layer and another. Without a window a token sees all before it; with one, itself
    and the `window_tokens - 1` before it."""

    rope: Rope
    window_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ModelShape:
    """RMSNorm, rotary positions, grouped query attention, a gated feed-forward part. The defaults are Llama's."""

    architecture: str
    hidden_size: int
    intermediate_size: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary_size: int
    context_tokens: int
    norm_epsilon: float
    tied_embeddings: bool
    attention: tuple[LayerAttention, ...]
    """Of each layer."""
    score_scale: float
    """By which a query's product with a key is multiplied."""
    activation: Activation = Activation.SILU
    norm_style: NormStyle = NormStyle.PLAIN
    query_key_norms: bool = False
    """Each head's query and key are normed before they are turned."""
    output_norms: bool = False
    """What attention and feed-forward part give is normed before it is added."""
    qkv_bias: bool = False
    attention_output_bias: bool = False
    feed_forward_bias: bool = False
    embedding_scale: float = 1.0
    score_cap: float | None = None
    """Scores are bent to stay between minus this and this: `cap * tanh(score / cap)`. Logits likewise."""
    logit_cap: float | None = None

    @property
    def layers(self) -> int:
        return len(self.attention)

    @property
    def attention_kinds(self) -> tuple[LayerAttention, ...]:
        """The different ones, in the order of the layers."""
        return tuple(dict.fromkeys(self.attention))

    def kv_spec(self, dtype: torch.dtype) -> KVSpec:
        """The keys and values this model keeps of each token."""
        from engine.kv_cache import KVSpec

        return KVSpec(self.layers, self.kv_heads, self.head_size, dtype)


def checked(shape: ModelShape, where: str) -> ModelShape:
    """The shape, unless its numbers contradict each other. Raises ModelError."""
    if shape.heads % shape.kv_heads:
        raise ModelError(
            f"{where} has {shape.heads} attention heads, which {shape.kv_heads} key heads cannot share evenly"
        )
    if shape.head_size % 2:
        raise ModelError(f"{where} has heads of {shape.head_size} numbers, and rotary positions need an even size")
    if shape.head_size == 2 and any(isinstance(kind.rope.scaling, DynamicScaling) for kind in shape.attention_kinds):
        raise ModelError(f"{where} has heads of 2 numbers, which dynamic rotary positions cannot be computed for")
    return shape
