"""A model's weights as the kernels want them, kept on the disk: converted once, mapped by every start after that.

Used by the loader. There is one file per model, in the model's folder, and its key says what it was made of: the model's
fingerprint (with the precision), the kernels that read it, and the code that converts. A file with another key or with a wrong
checksum is made again and never served; where none can be made, the weights are served from memory and the log says why.

Any number of processes may start at once: one of them makes the file, the others do without it this time. Whoever has mapped
a file keeps it, also when it is replaced meanwhile.
"""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import hashlib
import logging
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final

import torch

from engine.model.architecture import ModelShape
from engine.model.decoder import DecoderWeights, LayerWeights
from engine.model.kept_files import LOCK_FILE, MODEL, PARAMETERS, PARTIAL_FILE, SUFFIX, kept_files
from engine.model.rotation import rotation_of
from engine.model.tensor_file import MappedTensors, TensorFileDamaged, write_tensors

logger = logging.getLogger(__name__)

FREE_BYTES_LEFT: Final = 256 << 20
"""What writing the file leaves free on the disk: the database and the journal need it more than a start needs half a second."""

MAX_CHECKING_THREADS: Final = 8
"""More would only wait for the same memory."""


class KeptWeights:
    """The file of one model in one precision. Called in the thread that loads."""

    def __init__(self, folder: Path, model: Path, fingerprint: str, kernels: str) -> None:
        self._folder = folder
        self._model = model
        self._key = hashlib.sha256(f"{fingerprint} {kernels} {_conversion()}".encode()).hexdigest()
        self._path = folder / f"{self._key[:16]}{SUFFIX}"

    @contextmanager
    def opened(self) -> Iterator[OpenWeights | None]:
        """The file, which other threads check meanwhile; None where there is none that could be served."""
        try:
            mapped = MappedTensors(self._path)
        except FileNotFoundError:
            yield None
            return
        except (TensorFileDamaged, OSError) as problem:
            self._tell_unserved(problem)
            yield None
            return
        with mapped:
            if mapped.table.key != self._key:
                self._tell_unserved("it was made of something else")
                yield None
                return
            # One core is left to the thread that meanwhile reads the tokenizer, which takes about as long.
            threads = min(max(1, len(os.sched_getaffinity(0)) - 1), MAX_CHECKING_THREADS)
            with ThreadPoolExecutor(threads, thread_name_prefix="kvasir-weights") as executor:
                checks = [executor.submit(mapped.check, share, threads) for share in range(threads)]
                yield OpenWeights(mapped, checks)

    def checked(self, opened: OpenWeights | None) -> MappedTensors | None:
        """Wait for the check: the file, or None where it is not what was written."""
        if opened is None:
            return None
        try:
            for check in opened.checks:
                check.result()
        except TensorFileDamaged as damage:
            self._tell_unserved(damage)
            return None
        logger.info("the weights are mapped from %s", self._path)
        return opened.mapped

    def keep(self, weights: DecoderWeights[torch.Tensor], parameters: int) -> MappedTensors | None:
        """Write the file and remove those it replaces; None, and a line in the log, where that is not possible."""
        tensors = tensors_of(weights)
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / LOCK_FILE).open("wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._write(tensors, {PARAMETERS: parameters, MODEL: str(self._model.resolve())}, size)
        except BlockingIOError:
            logger.info("another process keeps the weights in %s; this one has its own in memory", self._folder)
            return None
        except OSError as problem:
            why = problem.strerror or str(problem)
            logger.warning("the weights are not kept in %s, so every start converts them again: %s", self._folder, why)
            return None
        logger.info("the weights are kept in %s, %d MB", self._path, size // 10**6)
        with self.opened() as opened:
            return self.checked(opened)

    def _write(self, tensors: Mapping[str, torch.Tensor], notes: Mapping[str, int | str], size: int) -> None:
        partial = self._folder / PARTIAL_FILE
        # What a killed process left would count as used, and so would a file that is to be replaced anyway.
        for old in kept_files(self._folder):
            old.unlink()
        free = shutil.disk_usage(self._folder).free
        if free < size + FREE_BYTES_LEFT:
            needed = (size + FREE_BYTES_LEFT) // 10**6
            raise OSError(errno.ENOSPC, f"the disk has {free // 10**6} MB free, and {needed} are wanted")
        try:
            write_tensors(partial, self._key, notes, tensors)
            partial.rename(self._path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise

    def _tell_unserved(self, why: object) -> None:
        logger.warning("the kept weights %s are not served: %s; they are made again", self._path, why)


@dataclasses.dataclass(frozen=True, slots=True)
class OpenWeights:
    """A mapped file whose check is still going on."""

    mapped: MappedTensors
    checks: list[Future[None]]


def tensors_of(weights: DecoderWeights[torch.Tensor]) -> dict[str, torch.Tensor]:
    """All tensors by name; those that a tied model has twice come once."""
    tensors = {"embedding": weights.embedding, "final_norm": weights.final_norm}
    if weights.head is not weights.embedding:
        tensors["head"] = weights.head
    for index, layer in enumerate(weights.layers):
        for field in dataclasses.fields(layer):
            tensor = getattr(layer, field.name)
            if tensor is not None:
                tensors[f"layers.{index}.{field.name}"] = tensor
    for index, rotation in enumerate(weights.rotations):
        tensors[f"rotations.{index}"] = rotation.frequencies
    return tensors


def weights_of(tensors: Mapping[str, torch.Tensor], shape: ModelShape) -> DecoderWeights[torch.Tensor]:
    """The opposite of `tensors_of`, for the model of that shape."""
    names = [field.name for field in dataclasses.fields(LayerWeights)]
    rotations = [
        dataclasses.replace(rotation_of(kind.rope, shape.head_size), frequencies=tensors[f"rotations.{index}"])
        for index, kind in enumerate(shape.attention_kinds)
    ]
    layers: list[LayerWeights[torch.Tensor]] = [
        # A missing one is one that this architecture does not have.
        LayerWeights(**{name: tensors.get(f"layers.{index}.{name}") for name in names})  # type: ignore[arg-type]
        for index in range(shape.layers)
    ]
    embedding = tensors["embedding"]
    return DecoderWeights(embedding, layers, tensors["final_norm"], tensors.get("head", embedding), rotations)


def _conversion() -> str:
    """What decides how a model file becomes these tensors: our code, the packages that help, the byte order.

    A conversion with a fault in it gives text that looks right and is worse (ggml-org/llama.cpp#3364). When it is mended,
    nothing of the old one may be served, and nobody should have to remember that.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return f"{digest.hexdigest()} gguf {version('gguf')} torch {torch.__version__} {sys.byteorder}"
