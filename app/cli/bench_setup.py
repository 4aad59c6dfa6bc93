"""What a benchmark needs before it can begin: the model and the compiled kernels of the data folder, and the engine's settings.

Used by `bench`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from app.cli.pull_progress import PullProgress
from app.cli.serve import engine_config, kernels_folder, models_folder
from app.cli.startup import Refused, make_data_folder, read_settings
from app.settings import Settings
from engine.config import EngineConfig
from engine.errors import ModelError
from engine.model.registry import build_kernels, pull_model


def bench_settings(data: Path | None, model: str | None, threads: int | None) -> Settings:
    """The server's settings, with these options. Only what is wrong is logged: more would tear the progress bar."""
    settings = read_settings(data=data, model=model, log_level="warning")
    return settings if threads is None else msgspec.structs.replace(settings, threads=threads)


def bench_config(settings: Settings) -> EngineConfig:
    """The engine as a server with these settings has it, but for the disk, which is the server's own.

    Fetches the model and builds the kernels where they are not there, so that nothing of that is measured. Raises Refused.
    """
    make_data_folder(settings.data)
    with PullProgress() as progress:
        try:
            path = pull_model(settings.model, models_folder(settings), on_progress=progress)
            build_kernels(settings.kernels, settings.weights, kernels_folder(settings), on_progress=progress)
        except ModelError as error:
            raise Refused(str(error)) from None
    return replace(engine_config(settings, path), disk_folder=None)
