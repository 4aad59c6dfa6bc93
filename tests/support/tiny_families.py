"""Models of every supported family with random weights, small enough to make one per test."""

from __future__ import annotations

from typing import Any

import torch

SIZES: dict[str, Any] = {
    "vocab_size": 211,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.25,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
GEMMA: dict[str, Any] = {
    "head_dim": 16,
    "query_pre_attn_scalar": 24,
    "sliding_window": 20,
    "num_hidden_layers": 4,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    },
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("Llama", {}),
    "Llama with biases": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "Llama, linear": ("Llama", {"rope_parameters": LINEAR}),
    "Llama, YaRN": ("Llama", {"rope_parameters": YARN}),
    "Llama, stretched": ("Llama", {"rope_parameters": LLAMA3}),
    "Mistral": ("Mistral", {"sliding_window": 20}),
    "Mistral without a window": ("Mistral", {"sliding_window": None, "head_dim": 16}),
    "Qwen2": ("Qwen2", {}),
    "Qwen2, YaRN": ("Qwen2", {"rope_parameters": YARN}),
    "Qwen2 with a window in the upper layers": (
        "Qwen2",
        {"use_sliding_window": True, "sliding_window": 18, "max_window_layers": 1},
    ),
    "Qwen3": ("Qwen3", {"head_dim": 24}),
    "Qwen3 with biases and windows": (
        "Qwen3",
        {
            "head_dim": 8,
            "attention_bias": True,
            "use_sliding_window": True,
            "sliding_window": 17,
            "layer_types": ["full_attention", "sliding_attention", "full_attention"],
        },
    ),
    "Gemma 3": ("Gemma3", GEMMA),
    "Gemma 3, capped logits": ("Gemma3", {**GEMMA, "final_logit_softcapping": 3.0, "tie_word_embeddings": False}),
    "Gemma 3, global layers stretched": (
        "Gemma3",
        {
            **GEMMA,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            },
        },
    ),
}


def tiny_family(name: str, seed: int = 0, **changes: Any) -> Any:
    """A model of `FAMILIES`, in which no norm is 1 and no bias 0, as fresh ones are."""
    import transformers

    family, own = FAMILIES[name]
    config_class = getattr(transformers, "Gemma3TextConfig" if family == "Gemma3" else f"{family}Config")
    # A copy of what is nested: transformers writes into it.
    settings = {key: _copied(value) for key, value in {**SIZES, **own, **changes}.items()}
    torch.manual_seed(seed)
    model = getattr(transformers, f"{family}ForCausalLM")(config_class(**settings)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    return list(value) if isinstance(value, list) else value
