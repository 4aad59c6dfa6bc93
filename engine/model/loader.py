"""Loads a model folder into a decoder and a tokenizer, or says in one sentence why it cannot be served.

Called once by the engine's thread. Nothing is downloaded here: `registry` has made the folder ready. The weights are converted
once and mapped from then on, see `kept_weights`, but for those of 4 and 8 bits: packing these takes less than half a second, and
mapped memory has no huge pages. Two kinds of folders are known:

    safetensors    config.json, model.safetensors (or shards and their index), tokenizer.json, tokenizer_config.json
    GGUF           a .gguf file, or source.json that names one elsewhere, and its converted tokenizer.json, …
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

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
from engine.model.precision import BITS, FLOAT_TYPES, KV_TYPES, Precision, choose_precision
from engine.model.quantised_decoder import QuantisedDecoder
from engine.model.quantised_weights import PackedMatrices
from engine.model.safetensors_source import SafetensorsSource
from engine.model.weights import FloatMatrices, TensorSource, WeightPlan
from engine.tokenizer import ChatTokenizer
from engine.types import ModelInfo
from kernels.cpu.build import BuildFailed, build, build_in_background
from kernels.cpu.library import CpuKernels
from kernels.dispatch import KERNEL_NAMES, KernelChoice, choose_kernels

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
    report = on_progress or (lambda _words: None)
    report("reading the model's files")
    with _open_folder(config, _kernels_of(config, report, can_wait=False)) as files:
        shape = files.shape
        kept = _kept_weights(config, files)
        with kept.opened() if kept is not None else nullcontext() as opened:
            report("reading the tokenizer")
            tokenizer = ChatTokenizer.from_folder(
                config.model_path, files.end_token_ids, system_prompt=config.system_prompt
            )
            _require_fit(config.model_path, tokenizer, shape)
            if opened is not None:
                report("mapping the weights")
            mapped = kept.checked(opened) if kept is not None else None
        decoder: DecoderLike
        if files.precision.kernels.cpu is not None:
            report("packing the weights")
            decoder, parameters, weights_name = _packed_decoder(files, files.precision.kernels.cpu)
        else:
            if mapped is not None:
                weights, parameters = weights_of(mapped.tensors(), shape), int(mapped.table.notes[PARAMETERS])
            else:
                weights, parameters = _converted(files, kept, report)
            decoder, weights_name = Decoder(shape, weights, files.precision.kernels), files.precision.content_name
    info = ModelInfo(
        name=config.model_name,
        architecture=shape.architecture,
        parameters=parameters,
        context_tokens=shape.context_tokens,
        vocabulary_size=shape.vocabulary_size,
        weights=weights_name,
        kernels=files.precision.kernels.name,
        fingerprint=files.fingerprint,
        has_tools=tokenizer.tool_dialect is not None,
    )
    spec = replace(shape.kv_spec(files.precision.kv_dtype), layout=files.precision.page_layout)
    kept_in, reason = str(spec.dtype).removeprefix("torch."), files.precision.kernels.reason
    logger.info("weights in %s, keys and values in %s, %s kernels: %s", info.weights, kept_in, info.kernels, reason)
    return LoadedModel(decoder, tokenizer, info, spec)


def keep_weights(config: EngineConfig, *, on_progress: Callable[[str], None] | None = None) -> None:
    """Do now what would hold up the first start: build the kernels, or convert the weights and keep them where there are none.
    Raises ModelError."""
    report = on_progress or (lambda _words: None)
    with _open_folder(config, _kernels_of(config, report, can_wait=True)) as files:
        kept = _kept_weights(config, files)
        if kept is not None:
            with kept.opened() as opened:
                mapped = kept.checked(opened)
            if mapped is None:
                _converted(files, kept, report)


@dataclass(frozen=True, slots=True)
class _Files:
    """What the two kinds of folders have in common, opened."""

    shape: ModelShape
    precision: Precision
    source: TensorSource
    end_token_ids: frozenset[int]
    fingerprint: str


def _kernels_of(config: EngineConfig, report: Callable[[str], None], *, can_wait: bool) -> KernelChoice:
    """The kernels to use. Those that are still to be built are waited for where the settings leave nothing else or the caller
    `can_wait`; otherwise they are built in the background, for the next start."""
    if config.kernels not in KERNEL_NAMES:
        raise ModelError(f"kernels can be {', '.join(KERNEL_NAMES)}, and not {config.kernels!r}")
    kernels = choose_kernels(config.kernels, config.kernels_folder)
    if kernels.buildable is None or config.kernels_folder is None:
        return kernels
    if config.weights in FLOAT_TYPES:
        return dataclasses.replace(kernels, buildable=None)
    must_wait = config.kernels == "cpu" or config.weights in BITS or config.kv_dtype in KV_TYPES
    if not (can_wait or must_wait):
        build_in_background(config.kernels_folder, kernels.buildable)
        return kernels
    try:
        build(config.kernels_folder, kernels.buildable, on_progress=report)
    except (BuildFailed, OSError) as problem:
        logger.warning("the CPU kernels could not be built: %s", problem)
        return kernels
    return choose_kernels(config.kernels, config.kernels_folder)


def _packed_decoder(files: _Files, kernels: CpuKernels) -> tuple[QuantisedDecoder, int, str]:
    """The decoder, how many numbers its weights are, and what they are called."""
    matrices = PackedMatrices(files.source, files.precision.bits)
    plan = WeightPlan(files.source, files.shape, torch.float32, matrices)
    decoder = QuantisedDecoder(files.shape, plan.build(), kernels)
    return decoder, plan.parameters, f"int{matrices.least_bits}"


def _converted(
    files: _Files, kept: KeptWeights | None, report: Callable[[str], None]
) -> tuple[DecoderWeights[torch.Tensor], int]:
    """The weights from the model's own files, and how many numbers they are; kept for the next start where that is possible."""
    report("converting the weights")
    dtype = files.precision.dtype
    plan = WeightPlan(files.source, files.shape, dtype, FloatMatrices(files.source, dtype))
    weights = plan.build()
    if kept is not None:
        report("keeping the weights for the next start")
        mapped = kept.keep(weights, plan.parameters)
        if mapped is not None:
            return weights_of(mapped.tensors(), files.shape), plan.parameters
    return weights, plan.parameters


def _kept_weights(config: EngineConfig, files: _Files) -> KeptWeights | None:
    kernels = files.precision.kernels
    # Kernels that are being built are used from the next start on, and half a gigabyte would have been kept for nobody.
    if config.kept_weights_folder is None or kernels.cpu is not None or kernels.buildable is not None:
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
def _open_folder(config: EngineConfig, kernels: KernelChoice) -> Iterator[_Files]:
    folder = config.model_path
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder" if folder.exists() else f"{folder} does not exist")
    if (folder / "config.json").exists():
        with _open_safetensors(config, kernels) as files:
            yield files
    else:
        yield _open_gguf(config, kernels)


def _precision_of(config: EngineConfig, shape: ModelShape, kernels: KernelChoice) -> Precision:
    precision = choose_precision(config.weights, shape, kernels, kv_dtype=config.kv_dtype)
    if config.kernels == "cpu" and precision.kernels.cpu is None:
        raise ModelError(f"the CPU kernels cannot be used: {precision.kernels.reason}")
    return precision


@contextmanager
def _open_safetensors(config: EngineConfig, kernels: KernelChoice) -> Iterator[_Files]:
    folder = config.model_path
    config_path = folder / "config.json"
    settings = read_json_object(config_path)
    shape = shape_of_config(settings, str(config_path))
    precision = _precision_of(config, shape, kernels)
    generation = read_json_object_if_there(folder / "generation_config.json")
    ends = frozenset((*_ids(settings.get("eos_token_id")), *_ids(generation.get("eos_token_id"))))
    with SafetensorsSource(folder) as source:
        fingerprint = fingerprint_of(folder, (config_path, *source.paths), precision.content_name)
        yield _Files(shape, precision, source, ends, fingerprint)


def _open_gguf(config: EngineConfig, kernels: KernelChoice) -> _Files:
    folder = config.model_path
    path = gguf_of_folder(folder)
    file = GgufFile(path)
    shape = shape_of_gguf(file.metadata, frozenset(file.tensors), str(path))
    names = ("eos_token_id", "eot_token_id", "eom_token_id")
    ends = frozenset(found for name in names for found in _ids(file.metadata.get(f"tokenizer.ggml.{name}")))
    precision = _precision_of(config, shape, kernels)
    fingerprint = fingerprint_of(folder, (path,), precision.content_name)
    return _Files(shape, precision, GgufSource(file, shape), ends, fingerprint)


def _ids(value: object) -> Iterable[int]:
    """One id or a list of them, as configurations write it."""
    values = value if isinstance(value, list) else [value]
    return [entry for entry in values if isinstance(entry, int)]
