"""Loads a model folder into a decoder and a tokenizer, or says in one sentence why it cannot be served.

Called once by the engine's thread. Nothing is downloaded or converted here: `registry` has made the folder ready, so that a
start reads two files and computes. Two kinds of folders are known:

    safetensors    config.json, model.safetensors (or shards and their index), tokenizer.json, tokenizer_config.json
    GGUF           a .gguf file, or source.json that names one elsewhere, and its converted tokenizer.json, …
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from engine.config import EngineConfig
from engine.errors import ModelError
from engine.kv_cache import KVSpec
from engine.model.architecture import ModelShape
from engine.model.config_shape import shape_of_config
from engine.model.decoder import Decoder, DecoderLike, DecoderWeights
from engine.model.fingerprint import fingerprint_of
from engine.model.gguf_file import GgufFile
from engine.model.gguf_folder import gguf_of_folder
from engine.model.gguf_shape import shape_of_gguf
from engine.model.gguf_source import GgufSource
from engine.model.json_file import read_json_object, read_json_object_if_there
from engine.model.safetensors_source import SafetensorsSource
from engine.model.weights import WeightPlan
from engine.tokenizer import ChatTokenizer
from engine.types import ModelInfo
from kernels.dispatch import choose_kernels

PRECISIONS: Final = {"auto": torch.float32, "fp32": torch.float32, "bf16": torch.bfloat16}
"""`auto` is float32: on a CPU without bfloat16 instructions the smaller type is the slower one."""

PRECISION_NAMES: Final = {torch.float32: "fp32", torch.bfloat16: "bf16"}


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """Everything the engine needs of a model."""

    decoder: DecoderLike
    tokenizer: ChatTokenizer
    info: ModelInfo
    kv_spec: KVSpec


def load_model(config: EngineConfig, *, on_progress: Callable[[str], None] | None = None) -> LoadedModel:
    """Load the folder `config.model_path`. `on_progress` gets a few words before each part of the work. Raises ModelError."""
    folder = config.model_path
    dtype = PRECISIONS.get(config.weights)
    if dtype is None:
        raise ModelError(f"weights can be {', '.join(PRECISIONS)}, and not {config.weights!r}")
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder" if folder.exists() else f"{folder} does not exist")
    report = on_progress or (lambda _words: None)
    load = _load_safetensors if (folder / "config.json").exists() else _load_gguf
    parts = load(folder, dtype, report)
    shape = parts.shape
    if max(parts.tokenizer.end_token_ids, default=0) >= shape.vocabulary_size:
        raise ModelError(
            f"{folder} has end tokens beyond its {shape.vocabulary_size} embeddings: its tokenizer is another's"
        )
    if parts.tokenizer.vocabulary_size > shape.vocabulary_size:
        raise ModelError(
            f"{folder} has a tokenizer with {parts.tokenizer.vocabulary_size} ids and only {shape.vocabulary_size} "
            "embeddings: it is another model's"
        )
    kernels = choose_kernels()
    info = ModelInfo(
        name=config.model_name,
        architecture=shape.architecture,
        parameters=parts.parameters,
        context_tokens=shape.context_tokens,
        vocabulary_size=shape.vocabulary_size,
        weights=PRECISION_NAMES[dtype],
        kernels=kernels.name,
        fingerprint=fingerprint_of(folder, parts.files, PRECISION_NAMES[dtype]),
    )
    return LoadedModel(Decoder(shape, parts.weights, kernels), parts.tokenizer, info, shape.kv_spec(dtype))


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the two kinds of folders have in common."""

    shape: ModelShape
    weights: DecoderWeights
    parameters: int
    tokenizer: ChatTokenizer
    files: tuple[Path, ...]


def _load_safetensors(folder: Path, dtype: torch.dtype, report: Callable[[str], None]) -> _Parts:
    config_path = folder / "config.json"
    config = read_json_object(config_path)
    shape = shape_of_config(config, str(config_path))
    generation = read_json_object_if_there(folder / "generation_config.json")
    report("reading the tokenizer")
    ends = {*_ids(config.get("eos_token_id")), *_ids(generation.get("eos_token_id"))}
    tokenizer = ChatTokenizer.from_folder(folder, ends)
    report("reading the weights")
    with SafetensorsSource(folder) as source:
        plan = WeightPlan(source, shape, dtype)
        return _Parts(shape, plan.build(), plan.parameters, tokenizer, (config_path, *source.paths))


def _load_gguf(folder: Path, dtype: torch.dtype, report: Callable[[str], None]) -> _Parts:
    path = gguf_of_folder(folder)
    file = GgufFile(path)
    shape = shape_of_gguf(file.metadata, frozenset(file.tensors), str(path))
    report("reading the tokenizer")
    names = ("eos_token_id", "eot_token_id", "eom_token_id")
    ends = {found for name in names for found in _ids(file.metadata.get(f"tokenizer.ggml.{name}"))}
    tokenizer = ChatTokenizer.from_folder(folder, ends)
    report("reading the weights")
    plan = WeightPlan(GgufSource(file, shape), shape, dtype)
    return _Parts(shape, plan.build(), plan.parameters, tokenizer, (path,))


def _ids(value: object) -> Iterable[int]:
    """One id or a list of them, as configurations write it."""
    values = value if isinstance(value, list) else [value]
    return [entry for entry in values if isinstance(entry, int)]
