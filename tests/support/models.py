"""The real model the tests use: the bundled one, fetched once per machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from engine.config import EngineConfig
from engine.model.bundled import GGUF_NAME
from engine.model.loader import LoadedModel, load_model
from engine.model.registry import AUTO, pull_model

MODELS_VARIABLE = "TEST_MODELS_FOLDER"
"""Folder the tests keep models in; without it `.cache/models` in the repository."""


def bundled_model_folder() -> Path:
    """Where it is; the first call on a machine downloads about 90 MB."""
    default = Path(__file__).parents[2] / ".cache" / "models"
    return pull_model(AUTO, Path(os.environ.get(MODELS_VARIABLE, default)))


def load_bundled_model() -> LoadedModel:
    """In float32, as a CPU serves it."""
    return load_model(EngineConfig(bundled_model_folder(), "bundled"))


def load_bundled_model_in_transformers() -> Any:
    """The same file, read by transformers' own reader. Its usual way in wants another package for no good reason."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    folder = bundled_model_folder()
    model = LlamaForCausalLM(LlamaConfig.from_pretrained(folder, gguf_file=GGUF_NAME))
    tensors = load_gguf_checkpoint(str(folder / GGUF_NAME), return_tensors=True, model_to_load=model)["tensors"]
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert (missing, unexpected) == (["lm_head.weight"], [])
    model.tie_weights()
    model.generation_config.pad_token_id = 0
    return model.to(torch.float32).eval()
