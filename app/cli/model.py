"""`kvasir model pull|list`: the models in the data folder."""

from __future__ import annotations

from pathlib import Path

import click

from app.cli.pull_progress import PullProgress
from app.cli.startup import Refused, data_option, make_data_folder, read_settings
from engine.errors import ModelError
from engine.model.registry import convert_weights, installed_models, pull_model


@click.group()
def model() -> None:
    """Fetch and list models."""


@model.command()
@click.argument("name", required=False)
@data_option
def pull(name: str | None, data: Path | None) -> None:
    """Fetch and prepare the model NAME, so that a start has nothing left to do.

    NAME is what `kvasir serve --model` takes: auto (the bundled model), a folder with safetensors, a GGUF file, or a hub id
    ORG/NAME or modelscope:ORG/NAME. Without NAME it is the one of the settings.
    """
    settings = read_settings(data=data)
    make_data_folder(settings.data)
    models = settings.data / "models"
    with PullProgress() as progress:
        try:
            folder = pull_model(name or settings.model, models, on_progress=progress)
            kernels = None if settings.kernels == "reference" else settings.data / "kernels"
            convert_weights(folder, models, settings.weights, kernels_folder=kernels, on_progress=progress)
        except ModelError as error:
            raise Refused(str(error)) from None
    click.echo(f"{name or settings.model} is ready in {folder}")


@model.command("list")
@data_option
def list_(data: Path | None) -> None:
    """List the models that are in the data folder: name, size, and what their converted weights take besides.

    Converted weights are kept so that a start has only to map them; who removes them makes the next start convert again.
    """
    settings = read_settings(data=data)
    try:
        found = installed_models(settings.data / "models")
    except OSError as error:
        raise Refused(f"{error.filename} cannot be read: {error.strerror}") from None
    for installed in found:
        kept = f"{installed.kept_bytes / 1e6:7.0f} MB converted" if installed.kept_bytes else " " * 20
        click.echo(f"{installed.name:40} {installed.size_bytes / 1e6:7.0f} MB {kept}  {installed.path}")
    if not found:
        click.echo("There are no models yet; `kvasir model pull` fetches the bundled one.", err=True)
