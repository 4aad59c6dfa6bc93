"""What converted weights are called, and what a file of them says of itself.

Used by `kept_weights`, which makes and maps them, and by `registry`, which lists them and has them read ahead without importing
torch.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Final

from engine.model.tensor_file import TensorFileDamaged, read_table

SUFFIX: Final = ".weights"
PARTIAL_FILE: Final = ".partial.weights"
"""Being written. Whatever has this name belongs to nobody any more, once its writer is gone."""

LOCK_FILE: Final = ".weights.lock"

READ_AHEAD_BYTES: Final = 1 << 20
"""The system reads no more than some such piece ahead when it is asked once, however much is asked for."""

PARAMETERS: Final = "parameters"
MODEL: Final = "model"
"""The notes in a file: how many numbers of the model's own it holds, and the folder they came from."""


def kept_files(folder: Path) -> list[Path]:
    """Those of one model's folder: usually one, and what a process that was killed has left."""
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if path.is_file())


def kept_for(path: Path) -> Path | None:
    """The folder of the model whose weights these are; None where the file does not say."""
    try:
        return Path(read_table(path).notes[MODEL])
    except (TensorFileDamaged, OSError):
        return None


def begin_reading(folder: Path) -> threading.Thread:
    """Have the system read the files of one model's folder into memory, while the process is still busy with other things.

    It costs next to nothing where they are in memory already, and a second of a start where they are not, after a reboot.
    """
    thread = threading.Thread(target=_read_ahead, args=(folder,), name="kvasir-read-ahead", daemon=True)
    thread.start()
    return thread


def _read_ahead(folder: Path) -> None:
    # Whatever is wrong with a file is found out, and said, by who maps it.
    with contextlib.suppress(OSError):
        for path in kept_files(folder):
            with path.open("rb") as file:
                for start in range(0, os.fstat(file.fileno()).st_size, READ_AHEAD_BYTES):
                    os.posix_fadvise(file.fileno(), start, READ_AHEAD_BYTES, os.POSIX_FADV_WILLNEED)
