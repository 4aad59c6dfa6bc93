"""Loads a model folder into a decoder and a tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.config import EngineConfig
from engine.kv_cache import KVSpec
from engine.model.decoder import DecoderLike
from engine.tokenizer import ChatTokenizer
from engine.types import ModelInfo


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """Everything the engine needs of a model."""

    decoder: DecoderLike
    tokenizer: ChatTokenizer
    info: ModelInfo
    kv_spec: KVSpec


def load_model(config: EngineConfig, *, on_progress: Callable[[str], None] | None = None) -> LoadedModel:
    """Load `config.model_path`. Raises ModelError with one clear sentence."""
    raise NotImplementedError
