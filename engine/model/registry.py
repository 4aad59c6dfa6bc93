"""Finds the model a person named, and fetches it when it is not here yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

PullProgress = Callable[[str, int, int | None], None]
"""Called with what is being done, the bytes done, and the bytes in all where they are known."""


def resolve_model(name: str, models_folder: Path) -> Path:
    """The folder for `EngineConfig.model_path`, from what is on this machine. Raises ModelError."""
    raise NotImplementedError


def pull_model(name: str, models_folder: Path, *, on_progress: PullProgress | None = None) -> Path:
    """Fetch and prepare the model where that is still to be done, and return the folder `resolve_model` would."""
    raise NotImplementedError
