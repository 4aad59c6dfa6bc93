"""Loads a model folder into a decoder and a tokenizer, or says in one sentence why it cannot be served.

Called once by the engine's thread. Nothing is downloaded or converted here: `registry` has made the folder ready, so that a
start reads two files and computes. Two kinds of folders are known:

    safetensors    config.json, model.safetensors (or shards and their index), tokenizer.json, tokenizer_config.json
    GGUF           a .gguf file, or source.json that names one elsewhere, and its converted tokenizer.json, …
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.config import EngineConfig
from engine.errors import ModelError
from engine.kv_cache import KVSpec
from engine.model.architecture import ModelShape
from engine.model.config_shape import shape_of_config
from engine.model.decoder import Decoder, DecoderLike
from engine.model.fingerprint import fingerprint_of
from engine.model.gguf_file import GgufFile
from engine.model.gguf_folder import gguf_of_folder
from engine.model.gguf_shape import shape_of_gguf
from engine.model.gguf_source import GgufSource
from engine.model.json_file import read_json_object, read_json_object_if_there
from engine.model.precision import Precision, choose_precision
from engine.model.quantised_decoder import QuantisedDecoder
from engine.model.quantised_weights import PackedMatrices
from engine.model.safetensors_source import SafetensorsSource
from engine.model.weights import FloatMatrices, TensorSource, WeightPlan
from engine.tokenizer import ChatTokenizer
from engine.types import ModelInfo
from kernels.cpu.build import build_in_background
from kernels.dispatch import KERNEL_NAMES, choose_kernels

logger = logging.getLogger(__name__)


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
    if config.kernels not in KERNEL_NAMES:
        raise ModelError(f"kernels can be {', '.join(KERNEL_NAMES)}, and not {config.kernels!r}")
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder" if folder.exists() else f"{folder} does not exist")
    report = on_progress or (lambda _words: None)
    kernels = choose_kernels(config.kernels, config.kernels_folder)
    with _opened(folder) as model:
        shape = model.shape
        precision = choose_precision(config.weights, shape, kernels)
        if config.kernels == "cpu" and precision.kernels.cpu is None:
            raise ModelError(f"the CPU kernels cannot be used: {precision.kernels.reason}")
        report("reading the tokenizer")
        tokenizer = ChatTokenizer.from_folder(folder, model.end_ids)
        _require_own_tokenizer(folder, tokenizer, shape)
        report("reading the weights")
        decoder, parameters, weights_name = _decoder_of(model.source, shape, precision)
    info = ModelInfo(
        name=config.model_name,
        architecture=shape.architecture,
        parameters=parameters,
        context_tokens=shape.context_tokens,
        vocabulary_size=shape.vocabulary_size,
        weights=weights_name,
        kernels=precision.kernels.name,
        fingerprint=fingerprint_of(folder, model.files, precision.content_name),
    )
    logger.info("%s weights, %s kernels: %s", info.weights, info.kernels, precision.kernels.reason)
    if kernels.buildable is not None and config.kernels_folder is not None:
        build_in_background(config.kernels_folder, kernels.buildable)
    return LoadedModel(decoder, tokenizer, info, shape.kv_spec(precision.kv_dtype))


def _decoder_of(source: TensorSource, shape: ModelShape, precision: Precision) -> tuple[DecoderLike, int, str]:
    """The decoder, the number of its parameters, and what its weights are called."""
    if precision.kernels.cpu is not None:
        matrices = PackedMatrices(source, precision.bits)
        packed = WeightPlan(source, shape, torch.float32, matrices)
        decoder = QuantisedDecoder(shape, packed.build(), precision.kernels.cpu)
        return decoder, packed.parameters, f"int{matrices.least_bits}"
    dtype = precision.dtype
    plan = WeightPlan(source, shape, dtype, FloatMatrices(source, dtype))
    return Decoder(shape, plan.build(), precision.kernels), plan.parameters, precision.content_name


@dataclass(frozen=True, slots=True)
class _Model:
    """What the two kinds of folders have in common."""

    shape: ModelShape
    source: TensorSource
    end_ids: set[int]
    files: tuple[Path, ...]


@contextmanager
def _opened(folder: Path) -> Iterator[_Model]:
    config_path = folder / "config.json"
    if config_path.exists():
        config = read_json_object(config_path)
        shape = shape_of_config(config, str(config_path))
        generation = read_json_object_if_there(folder / "generation_config.json")
        ends = {*_ids(config.get("eos_token_id")), *_ids(generation.get("eos_token_id"))}
        with SafetensorsSource(folder) as source:
            yield _Model(shape, source, ends, (config_path, *source.paths))
        return
    path = gguf_of_folder(folder)
    file = GgufFile(path)
    shape = shape_of_gguf(file.metadata, frozenset(file.tensors), str(path))
    names = ("eos_token_id", "eot_token_id", "eom_token_id")
    ends = {found for name in names for found in _ids(file.metadata.get(f"tokenizer.ggml.{name}"))}
    yield _Model(shape, GgufSource(file, shape), ends, (path,))


def _require_own_tokenizer(folder: Path, tokenizer: ChatTokenizer, shape: ModelShape) -> None:
    if max(tokenizer.end_token_ids, default=0) >= shape.vocabulary_size:
        raise ModelError(
            f"{folder} has end tokens beyond its {shape.vocabulary_size} embeddings: its tokenizer is another's"
        )
    if tokenizer.vocabulary_size > shape.vocabulary_size:
        raise ModelError(
            f"{folder} has a tokenizer with {tokenizer.vocabulary_size} ids and only {shape.vocabulary_size} "
            "embeddings: it is another model's"
        )


def _ids(value: object) -> Iterable[int]:
    """One id or a list of them, as configurations write it."""
    values = value if isinstance(value, list) else [value]
    return [entry for entry in values if isinstance(entry, int)]
