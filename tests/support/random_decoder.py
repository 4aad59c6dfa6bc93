"""A real decoder of the Llama kind with random weights, small enough for hundreds of runs, for the tiny tokenizer."""

from __future__ import annotations

import torch

from engine.model.architecture import LayerAttention, ModelShape
from engine.model.decoder import Decoder, DecoderWeights, LayerWeights
from engine.model.rope import Rope
from engine.model.rotation import rotation_of
from kernels.dispatch import choose_kernels
from tests.support.tiny_model import LOGITS

SHAPE = ModelShape(
    architecture="LlamaForCausalLM",
    hidden_size=32,
    intermediate_size=64,
    heads=4,
    kv_heads=2,
    head_size=8,
    vocabulary_size=LOGITS,
    context_tokens=512,
    norm_epsilon=1e-5,
    tied_embeddings=False,
    attention=(LayerAttention(Rope(10000.0)),) * 2,
    score_scale=8**-0.5,
)
LLAMA_SPEC = SHAPE.kv_spec(torch.float32)


def random_llama(seed: int = 0) -> Decoder:
    """Weights large enough that attention decides between tokens, and answers do not fall into a loop at once."""
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int, scale: float = 1.0) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator) * scale / columns**0.5

    hidden, queries, keys = SHAPE.hidden_size, SHAPE.heads * SHAPE.head_size, SHAPE.kv_heads * SHAPE.head_size
    layers = [
        LayerWeights(
            attention_norm=torch.ones(hidden),
            qkv=matrix(queries + 2 * keys, hidden, scale=2.0),
            attention_output=matrix(hidden, queries, scale=2.0),
            feed_forward_norm=torch.ones(hidden),
            gate_up=matrix(2 * SHAPE.intermediate_size, hidden),
            down=matrix(hidden, SHAPE.intermediate_size, scale=2.0),
        )
        for _ in range(SHAPE.layers)
    ]
    weights = DecoderWeights(
        embedding=torch.randn(LOGITS, hidden, generator=generator),
        layers=layers,
        final_norm=torch.ones(hidden),
        head=matrix(LOGITS, hidden, scale=4.0),
        rotations=[rotation_of(kind.rope, SHAPE.head_size) for kind in SHAPE.attention_kinds],
    )
    return Decoder(SHAPE, weights, choose_kernels())
