"""Compiles the C++ kernels, once for each CPU, torch and version of the sources.

Called when a model is fetched, and by a start that finds none, in the background. The compiler is called directly: torch's own
way of building extensions needs two more packages, and waits for ever where an earlier build was killed. Two builds at once do
not disturb each other: each works in a folder of its own, and the finished library is renamed into place.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from kernels.cpu.variant import Variant, cpu_flags

logger = logging.getLogger(__name__)

SOURCES_FOLDER: Final = Path(__file__).parent
COMPILERS: Final = ("c++", "g++", "clang++")
OPTIONS: Final = (
    *("-std=c++17", "-O3", "-fPIC", "-fopenmp", "-fvisibility=hidden"),
    # What is fused into one rounding must not differ between two places that compute the same.
    "-ffp-contract=off",
    # GCC's pass against what is computed twice takes sums out of registers and stores them each time round a loop.
    "-fno-tree-pre",
    "-w",
)
BINDING: Final = "library.cpp"
"""The only source that includes torch, which needs no speed of its own."""
COMPILE_TIMEOUT_S: Final = 600
"""One file takes two to ten seconds alone; a machine that takes this long swaps."""
IN_BACKGROUND: Final = ("nice", "-n", "19")

Progress = Callable[[str], None]


class BuildFailed(Exception):
    """The kernels cannot be built here; the text is one sentence for people."""


def library_path(folder: Path, variant: Variant) -> Path:
    """Where the library of the sources as they are now is or will be. The name changes with everything that it depends on, and
    without its ending it is that under which torch knows the operations."""
    digest = hashlib.sha256()
    for part in (
        importlib.metadata.version("torch"),
        sys.platform,
        " ".join(sorted(cpu_flags())),
        " ".join((*OPTIONS, *variant.options)),
    ):
        digest.update(part.encode() + b"\0")
    for path in sorted((*SOURCES_FOLDER.glob("*.cpp"), *SOURCES_FOLDER.glob("*.h"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return folder / f"kvasir_{variant.name}_{digest.hexdigest()[:16]}.so"


def compiler(environment: Mapping[str, str] = os.environ) -> str | None:
    """The C++ compiler to use: the one `CXX` names, or the first that is there."""
    named = environment.get("CXX")
    for name in (named,) if named else COMPILERS:
        if found := shutil.which(name, path=environment.get("PATH")):
            return found
    return None


def build(
    folder: Path,
    variant: Variant,
    *,
    on_progress: Progress | None = None,
    environment: Mapping[str, str] = os.environ,
    prefix: tuple[str, ...] = (),
) -> Path:
    """The library of this variant, built where it is not there yet. Raises BuildFailed.

    `on_progress` gets a few words after each file; `prefix` goes before each command.
    """
    path = library_path(folder, variant)
    if path.is_file():
        return path
    cxx = compiler(environment)
    if cxx is None:
        raise BuildFailed(f"there is no C++ compiler ({environment.get('CXX') or ', '.join(COMPILERS)})")
    report = on_progress or (lambda _words: None)
    folder.mkdir(parents=True, exist_ok=True)
    sources = sorted(SOURCES_FOLDER.glob("*.cpp"))
    with TemporaryDirectory(prefix="building-", dir=folder) as name:
        here = Path(name)
        options = [*OPTIONS, *variant.options, f"-DKVASIR_NAMESPACE={path.stem}"]
        commands = []
        for source in sources:
            own = [*options, *_torch_includes(), "-O1"] if source.name == BINDING else options
            commands.append([*prefix, cxx, *own, "-c", str(source), "-o", str(here / f"{source.stem}.o")])
        # In the background one after the other, so that most of the machine is left to the answers.
        with ThreadPoolExecutor(1 if prefix else min(len(commands), len(os.sched_getaffinity(0)))) as compilers:
            for number, _ in enumerate(compilers.map(_run, commands), 1):
                report(f"compiling the CPU kernels, {number} of {len(sources)} done")
        objects = [str(here / f"{source.stem}.o") for source in sources]
        torch_libraries = [f"-L{_torch_folder() / 'lib'}", "-ltorch", "-ltorch_cpu", "-lc10"]
        # OpenMP is torch's own, which is loaded already: a second one would have threads of its own.
        _run([*prefix, cxx, "-shared", *objects, "-o", str(here / path.name), *torch_libraries])
        (here / path.name).replace(path)
    return path


def build_in_background(folder: Path, variant: Variant) -> threading.Thread:
    """Start a build that gives way to everything else on the machine; its outcome is logged, and the next start uses it."""

    def work() -> None:
        try:
            path = build(folder, variant, prefix=IN_BACKGROUND if shutil.which(IN_BACKGROUND[0]) else ())
        except (BuildFailed, OSError) as problem:
            logger.warning("the CPU kernels could not be built: %s", problem)
        else:
            logger.info("the CPU kernels are built and will be used from the next start on (%s)", path)

    thread = threading.Thread(target=work, name="kvasir-kernel-build", daemon=True)
    thread.start()
    return thread


def _torch_folder() -> Path:
    # Without importing it, which takes seconds.
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise BuildFailed("torch is not installed")
    return Path(spec.origin).parent


def _torch_includes() -> list[str]:
    include = _torch_folder() / "include"
    return ["-isystem", str(include), "-isystem", str(include / "torch" / "csrc" / "api" / "include")]


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise BuildFailed(f"{command[0]} took more than {COMPILE_TIMEOUT_S} s") from None
    except OSError as problem:
        raise BuildFailed(f"{command[0]} cannot be run: {problem}") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines() or ["?"]
        raise BuildFailed(f"the compiler failed: {lines[0]}")
