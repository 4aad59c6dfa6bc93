"""Finds the model a person named, and fetches and prepares it when it is not here yet.

Called by `kvasir serve`, `kvasir model` and `kvasir doctor`, never by the engine: what these functions return is a folder that
the loader reads without any further work. In the models folder:

    smollm2-135m-instruct/     the bundled model (`auto`)
    gguf-0123456789abcdef/     the converted tokenizer of a GGUF file that lies elsewhere
    folder-0123456789abcdef/   the converted weights of a folder that lies elsewhere
    hub--ORG--NAME/            from Hugging Face; modelscope--ORG--NAME/ from ModelScope
    .partial-…/                being made; becomes one of the above by renaming, so those are always whole

In each of them the converted weights may lie too, see `kept_weights`.

One process at a time fetches; others wait for it and find the result.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.errors import ModelError, ModelNotFetched
from engine.model import bundled
from engine.model.config_shape import shape_of_config
from engine.model.gguf_folder import SOURCE_FILE, convert_tokenizer, gguf_of_folder, name_source
from engine.model.gguf_shape import shape_of_gguf
from engine.model.json_file import read_json_object
from engine.model.kept_files import begin_reading, kept_files, kept_for
from engine.model.pull_progress import PullProgress, folder_bytes
from engine.tokenizer import TOKENIZER_FILE
from kernels.cpu.build import BuildFailed, build, compiler
from kernels.cpu.variant import cpu_flags, variant_for

logger = logging.getLogger(__name__)

AUTO: Final = "auto"
BUNDLED_FOLDER: Final = "smollm2-135m-instruct"
ELSEWHERE_PREFIX: Final = "folder-"
PARTIAL_PREFIX: Final = ".partial-"
LOCK_FILE: Final = ".lock"
FLOAT_NAMES: Final = frozenset(("fp32", "bf16"))
"""Settings of the weights with which plain torch computes, whatever kernels there are."""
MODELSCOPE_PREFIX: Final = "modelscope:"
_HUB_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """A model in the models folder. `kept_bytes` are those of its converted weights, which `size_bytes` leaves out."""

    name: str
    path: Path
    size_bytes: int
    kept_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a name stands for: its folder, whether that folder is whole, and how to fill an empty one."""

    title: str
    folder: Path
    is_whole: Callable[[], bool]
    fill: Callable[[Path, PullProgress], None] | None


def resolve_model(name: str, models_folder: Path) -> Path:
    """The folder for `EngineConfig.model_path`, from what is on this machine.

    Raises ModelNotFetched when `pull_model` has something to do, and ModelError when it could not help.
    """
    wanted = _wanted(name, models_folder)
    if not wanted.is_whole():
        raise ModelNotFetched(f"{wanted.title} has not been fetched yet, or is damaged; `kvasir model pull` fetches it")
    return wanted.folder


def pull_model(name: str, models_folder: Path, *, on_progress: PullProgress | None = None) -> Path:
    """Fetch and prepare the model where that is still to be done, and return its folder. Raises ModelError."""
    report = on_progress or (lambda _what, _done, _total: None)
    wanted = _wanted(name, models_folder)
    if wanted.is_whole():
        return wanted.folder
    assert wanted.fill is not None, "a local folder is always whole"
    try:
        with _alone_in(models_folder, report):
            if not wanted.is_whole():
                _make(wanted, wanted.fill, report)
    except OSError as problem:
        full = "its disk is full" if problem.errno == errno.ENOSPC else problem.strerror
        raise ModelError(f"{models_folder} cannot take {wanted.title}: {full}") from None
    return wanted.folder


def kept_weights_folder(model_folder: Path, models_folder: Path) -> Path:
    """Where the converted weights of a model are kept: in its folder, or, where that is a person's own, in one of ours."""
    if model_folder.resolve().parent == models_folder.resolve():
        return model_folder
    key = hashlib.sha256(str(model_folder.resolve()).encode()).hexdigest()[:16]
    return models_folder / f"{ELSEWHERE_PREFIX}{key}"


def begin_reading_weights(model_folder: Path, models_folder: Path) -> None:
    """Have the converted weights read from the disk while torch is still imported. Returns at once."""
    begin_reading(kept_weights_folder(model_folder, models_folder))


def build_kernels(kernels: str, weights: str, folder: Path, *, on_progress: PullProgress) -> None:
    """Compile the kernels for this machine where it can use them and they are not there yet. Imports no torch.

    A build that fails is logged: the model is served by plain torch then, as the loader says.
    """
    variant = variant_for(cpu_flags())
    if kernels == "reference" or weights in FLOAT_NAMES or variant is None or compiler() is None:
        return
    try:
        build(folder, variant, on_progress=lambda words: on_progress(words, 0, None))
    except (BuildFailed, OSError) as problem:
        logger.warning("the CPU kernels could not be built: %s", problem)


def convert_weights(
    model_folder: Path,
    models_folder: Path,
    weights: str,
    *,
    kernels_folder: Path | None = None,
    on_progress: PullProgress,
) -> None:
    """Build the kernels, or convert the weights and keep them, where that is still to be done. Raises ModelError."""
    # It needs torch, which nothing else here does.
    from engine.config import EngineConfig
    from engine.model.loader import keep_weights

    kept = kept_weights_folder(model_folder, models_folder)
    config = EngineConfig(
        model_folder, model_folder.name, weights=weights, kernels_folder=kernels_folder, kept_weights_folder=kept
    )
    keep_weights(config, on_progress=lambda words: on_progress(words, 0, None))


def model_title(name: str) -> str:
    """The name clients see of the model that a person named."""
    if name == AUTO:
        return bundled.TITLE
    if _is_hub_id(name):
        return name.removeprefix(MODELSCOPE_PREFIX)
    path = Path(name).resolve()
    return path.stem if path.suffix == ".gguf" else path.name


def installed_models(models_folder: Path) -> list[InstalledModel]:
    """What has been fetched or prepared, by name. A file or folder elsewhere counts with its own path and size, or, where it is
    gone, with what is here of it."""
    return [_installed(folder) for folder in sorted(path for path in models_folder.glob("[!.]*") if path.is_dir())]


def _installed(folder: Path) -> InstalledModel:
    kept = kept_files(folder)
    kept_bytes = sum(path.stat().st_size for path in kept)
    own_bytes = folder_bytes(folder) - kept_bytes
    if folder.name == BUNDLED_FOLDER:
        return InstalledModel(AUTO, folder, own_bytes, kept_bytes)
    if folder.name.startswith(ELSEWHERE_PREFIX):
        source = next(filter(None, map(kept_for, kept)), None)
        if source is None or not source.is_dir():
            return InstalledModel(folder.name, folder, own_bytes, kept_bytes)
        return InstalledModel(str(source), folder, folder_bytes(source), kept_bytes)
    if (folder / SOURCE_FILE).is_file():
        try:
            path = gguf_of_folder(folder)
            return InstalledModel(str(path), folder, path.stat().st_size, kept_bytes)
        except (ModelError, OSError):
            return InstalledModel(folder.name, folder, own_bytes, kept_bytes)
    hub, _, rest = folder.name.partition("--")
    prefix = MODELSCOPE_PREFIX if hub == "modelscope" else ""
    return InstalledModel(prefix + rest.replace("--", "/", 1), folder, own_bytes, kept_bytes)


def _wanted(name: str, models_folder: Path) -> _Wanted:
    if name == AUTO:
        folder = models_folder / BUNDLED_FOLDER
        return _Wanted(bundled.TITLE, folder, lambda: _bundled_is_whole(folder), _fill_bundled)
    path = Path(name)
    try:
        if path.is_dir():
            return _wanted_folder(path, models_folder)
        if path.is_file():
            return _wanted_gguf(path, models_folder)
    except OSError as problem:
        raise ModelError(f"{name} cannot be read: {problem.strerror}") from None
    if _is_hub_id(name):
        return _wanted_from_hub(name, models_folder)
    raise ModelError(
        f"{name} is no model: no folder, no GGUF file, and no hub id like ORG/NAME or {MODELSCOPE_PREFIX}ORG/NAME"
    )


def _wanted_folder(path: Path, models_folder: Path) -> _Wanted:
    if not any(path.iterdir()):
        raise ModelError(f"{path} is empty, and a model folder has at least config.json, weights and a tokenizer")
    if not (path / "config.json").exists() and not (path / TOKENIZER_FILE).exists():
        return _wanted_gguf(gguf_of_folder(path), models_folder)
    config = path / "config.json"
    shape_of_config(read_json_object(config), str(config))
    return _Wanted(path.name, path, lambda: True, None)


def _wanted_gguf(path: Path, models_folder: Path) -> _Wanted:
    # Here and below, because a start with the bundled model needs neither of the two.
    from engine.model.gguf_file import GgufFile

    file = GgufFile(path)
    shape_of_gguf(file.metadata, frozenset(file.tensors), str(path))
    key = hashlib.sha256(f"{file.header_sha256} {path.resolve()}".encode()).hexdigest()[:16]
    folder = models_folder / f"gguf-{key}"

    def fill(partial: Path, report: PullProgress) -> None:
        report("converting the tokenizer", 0, None)
        convert_tokenizer(path, partial)
        name_source(partial, path)

    return _Wanted(path.name, folder, lambda: (folder / TOKENIZER_FILE).is_file(), fill)


def _wanted_from_hub(name: str, models_folder: Path) -> _Wanted:
    from engine.model.hub import Hub, HuggingFace, ModelScope, fetch_from_hub

    model_id = name.removeprefix(MODELSCOPE_PREFIX)
    hub: Hub = ModelScope() if name.startswith(MODELSCOPE_PREFIX) else HuggingFace()
    kind = "modelscope" if name.startswith(MODELSCOPE_PREFIX) else "hub"
    folder = models_folder / f"{kind}--{model_id.replace('/', '--')}"

    def fill(partial: Path, report: PullProgress) -> None:
        fetch_from_hub(hub, model_id, partial, report)

    return _Wanted(model_id, folder, folder.is_dir, fill)


def _is_hub_id(name: str) -> bool:
    return _HUB_ID.fullmatch(name.removeprefix(MODELSCOPE_PREFIX)) is not None and not Path(name).exists()


def _bundled_is_whole(folder: Path) -> bool:
    return (folder / TOKENIZER_FILE).is_file() and bundled.is_bundled_file(folder / bundled.GGUF_NAME)


def _fill_bundled(partial: Path, report: PullProgress) -> None:
    path = bundled.fetch_bundled(partial, report)
    report("converting the tokenizer", 0, None)
    convert_tokenizer(path, partial)


def _make(wanted: _Wanted, fill: Callable[[Path, PullProgress], None], report: PullProgress) -> None:
    """Fill a folder beside the wanted one, and rename it when it is complete."""
    partial = wanted.folder.with_name(PARTIAL_PREFIX + wanted.folder.name)
    # Hubs go on where they stopped. The others begin anew, and what they leave would only help to fill the disk.
    goes_on = wanted.folder.name.startswith(("hub--", "modelscope--"))
    if not goes_on:
        shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(exist_ok=True)
    try:
        fill(partial, report)
    except BaseException:
        if not goes_on:
            shutil.rmtree(partial, ignore_errors=True)
        raise
    if wanted.folder.exists():
        shutil.rmtree(wanted.folder)
    partial.rename(wanted.folder)


@contextmanager
def _alone_in(models_folder: Path, report: PullProgress) -> Iterator[None]:
    """Hold the models folder's lock. The system frees it when the process ends, however it ends."""
    models_folder.mkdir(parents=True, exist_ok=True)
    with (models_folder / LOCK_FILE).open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another process that fetches a model", 0, None)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
