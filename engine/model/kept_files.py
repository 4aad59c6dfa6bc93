"""What converted weights are called, and what a file of them says of itself.

Used by `kept_weights`, which makes and maps them, and by `registry`, which lists them without importing torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from engine.model.tensor_file import TensorFileDamaged, read_table

SUFFIX: Final = ".weights"
PARTIAL_FILE: Final = ".partial.weights"
"""Being written. Whatever has this name belongs to nobody any more, once its writer is gone."""

LOCK_FILE: Final = ".weights.lock"

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
