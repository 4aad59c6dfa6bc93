"""Loads a model folder into a decoder and a tokenizer, or says in one sentence why it cannot be served.

Called once by the engine's thread. Nothing is downloaded here: `registry` has made the folder ready. The weights are converted
once and mapped from then on, see `kept_weights`. Two kinds of folders are known:

    safetensors    config.json, model.safetensors (or shards and their index), tokenizer.json, tokenizer_config.json
    GGUF           a .gguf file, or source.json that names one elsewhere, and its converted tokenizer.json, …
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
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
from engine.model.kept_files import PARAMETERS
from engine.model.kept_weights import KeptWeights, weights_of
from engine.model.safetensors_source import SafetensorsSource
from engine.model.weights import TensorSource, WeightPlan
from engine.tokenizer import ChatTokenizer
from engine.types import ModelInfo
from kernels.dispatch import KernelChoice, choose_kernels

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
    report = on_progress or (lambda _words: None)
    report("reading the model's files")
    with _open_folder(config) as files:
        shape, kernels = files.shape, choose_kernels()
        kept = _kept_weights(config, files, kernels)
        with kept.opened() if kept is not None else nullcontext() as opened:
            report("reading the tokenizer")
            tokenizer = ChatTokenizer.from_folder(config.model_path, files.end_token_ids)
            _require_fit(config.model_path, tokenizer, shape)
            if opened is not None:
                report("mapping the weights")
            mapped = kept.checked(opened) if kept is not None else None
        if mapped is not None:
            weights, parameters = weights_of(mapped.tensors(), shape), int(mapped.table.notes[PARAMETERS])
        else:
            weights, parameters = _converted(files, kept, report)
    info = ModelInfo(
        name=config.model_name,
        architecture=shape.architecture,
        parameters=parameters,
        context_tokens=shape.context_tokens,
        vocabulary_size=shape.vocabulary_size,
        weights=PRECISION_NAMES[files.dtype],
        kernels=kernels.name,
        fingerprint=files.fingerprint,
    )
    return LoadedModel(Decoder(shape, weights, kernels), tokenizer, info, shape.kv_spec(files.dtype))


def keep_weights(config: EngineConfig, *, on_progress: Callable[[str], None] | None = None) -> None:
    """Do now what the first start would do: convert the weights and keep them. Raises ModelError."""
    report = on_progress or (lambda _words: None)
    with _open_folder(config) as files:
        kept = _kept_weights(config, files, choose_kernels())
        if kept is not None:
            with kept.opened() as opened:
                mapped = kept.checked(opened)
            if mapped is None:
                _converted(files, kept, report)


@dataclass(frozen=True, slots=True)
class _Files:
    """What the two kinds of folders have in common, opened."""

    shape: ModelShape
    dtype: torch.dtype
    source: TensorSource
    end_token_ids: frozenset[int]
    fingerprint: str


def _converted(files: _Files, kept: KeptWeights | None, report: Callable[[str], None]) -> tuple[DecoderWeights, int]:
    """The weights from the model's own files, and how many numbers they are; kept for the next start where that is possible."""
    report("converting the weights")
    plan = WeightPlan(files.source, files.shape, files.dtype)
    weights = plan.build()
    if kept is not None:
        report("keeping the weights for the next start")
        mapped = kept.keep(weights, plan.parameters)
        if mapped is not None:
            return weights_of(mapped.tensors(), files.shape), plan.parameters
    return weights, plan.parameters


def _kept_weights(config: EngineConfig, files: _Files, kernels: KernelChoice) -> KeptWeights | None:
    if config.kept_weights_folder is None:
        return None
    return KeptWeights(config.kept_weights_folder, config.model_path, files.fingerprint, kernels.name)


def _require_fit(folder: Path, tokenizer: ChatTokenizer, shape: ModelShape) -> None:
    """Raises ModelError for a tokenizer with ids that the embeddings do not have."""
    if max(tokenizer.end_token_ids, default=0) >= shape.vocabulary_size:
        raise ModelError(
            f"{folder} has end tokens beyond its {shape.vocabulary_size} embeddings: its tokenizer is another's"
        )
    if tokenizer.vocabulary_size > shape.vocabulary_size:
        raise ModelError(
            f"{folder} has a tokenizer with {tokenizer.vocabulary_size} ids and only {shape.vocabulary_size} "
            "embeddings: it is another model's"
        )


@contextmanager
def _open_folder(config: EngineConfig) -> Iterator[_Files]:
    folder = config.model_path
    dtype = PRECISIONS.get(config.weights)
    if dtype is None:
        raise ModelError(f"weights can be {', '.join(PRECISIONS)}, and not {config.weights!r}")
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder" if folder.exists() else f"{folder} does not exist")
    if (folder / "config.json").exists():
        with _open_safetensors(folder, dtype) as files:
            yield files
    else:
        yield _open_gguf(folder, dtype)


@contextmanager
def _open_safetensors(folder: Path, dtype: torch.dtype) -> Iterator[_Files]:
    config_path = folder / "config.json"
    config = read_json_object(config_path)
    shape = shape_of_config(config, str(config_path))
    generation = read_json_object_if_there(folder / "generation_config.json")
    ends = frozenset((*_ids(config.get("eos_token_id")), *_ids(generation.get("eos_token_id"))))
    with SafetensorsSource(folder) as source:
        fingerprint = fingerprint_of(folder, (config_path, *source.paths), PRECISION_NAMES[dtype])
        yield _Files(shape, dtype, source, ends, fingerprint)


def _open_gguf(folder: Path, dtype: torch.dtype) -> _Files:
    path = gguf_of_folder(folder)
    file = GgufFile(path)
    shape = shape_of_gguf(file.metadata, frozenset(file.tensors), str(path))
    names = ("eos_token_id", "eot_token_id", "eom_token_id")
    ends = frozenset(found for name in names for found in _ids(file.metadata.get(f"tokenizer.ggml.{name}")))
    fingerprint = fingerprint_of(folder, (path,), PRECISION_NAMES[dtype])
    return _Files(shape, dtype, GgufSource(file, shape), ends, fingerprint)


def _ids(value: object) -> Iterable[int]:
    """One id or a list of them, as configurations write it."""
    values = value if isinstance(value, list) else [value]
    return [entry for entry in values if isinstance(entry, int)]
