"""`kvasir doctor --startup`: where the time of a start goes, measured on a start of its own.

The start happens in a fresh process (`app.cli.startup_probe`), which does what `kvasir serve` does, without a port and with an
empty database in a temporary folder: a running server keeps its own. Only the models and the compiled kernels are those of the
data folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from app.cli.database import upgrade_database
from app.cli.startup import Refused, make_data_folder
from app.settings import Settings

TIMEOUT_S: Final = 900
"""Converting the weights of the largest models takes minutes; whatever takes longer hangs."""

KEPT_FOLDERS: Final = ("models", "kernels")
"""Of the data folder: what a start finds there is what it does not have to make."""

TORCH_STAGE: Final = "importing torch"
CONVERTING_STAGE: Final = "converting the weights"

_PROBE: Final = """
import time
began = time.monotonic()
from app.cli.garbage import begin_start
begin_start()
from app.cli.startup_probe import main
main(began)
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of a start."""

    name: str
    seconds: float
    share: float


@dataclass(frozen=True, slots=True)
class StartupReport:
    """A start, from the moment its process was asked for. The seconds of `stages` add up to `ready_s`.

    `measured_s` is how long the process lived, by the clock of who started it.
    """

    stages: list[Stage]
    answers_s: float
    ready_s: float
    ready_without_torch_s: float
    first_words_s: float
    measured_s: float


@dataclass(frozen=True, slots=True)
class Moments:
    """What the probe writes, all on the system's monotonic clock: when each stage began, and when what was reached."""

    stages: list[tuple[str, float]]
    answers: float
    ready: float
    first_words: float


def measure_startup(settings: Settings, environment: Mapping[str, str] | None = None) -> StartupReport:
    """Start as a server does, and tell what took how long. Raises Refused where a server could not start.

    `environment` has settings that this start has and the calling process has not.
    """
    make_data_folder(settings.data)
    (settings.data / "models").mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="kvasir-startup-") as name:
        folder = Path(name)
        for kept in KEPT_FOLDERS:
            if (settings.data / kept).is_dir():
                (folder / kept).symlink_to((settings.data / kept).resolve())
        upgrade_database(Settings(data=folder))
        began = time.monotonic()
        moments = _run_probe(folder, environment or {})
        return report_of(moments, began, time.monotonic())


def report_of(moments: Moments, began: float, ended: float) -> StartupReport:
    """The report of a process that was asked for at `began` and had ended at `ended`."""
    total = moments.ready - began
    # The first stage is Python's own, and begins before anything of ours can tell.
    times = [began, *(at for _, at in moments.stages[1:]), moments.ready]
    stages = [
        Stage(name, end - begin, (end - begin) / total)
        for (name, _), begin, end in zip(moments.stages, times[:-1], times[1:], strict=True)
    ]
    torch_s = sum(stage.seconds for stage in stages if stage.name == TORCH_STAGE)
    return StartupReport(
        stages,
        answers_s=moments.answers - began,
        ready_s=total,
        ready_without_torch_s=total - torch_s,
        first_words_s=moments.first_words - began,
        measured_s=ended - began,
    )


def show_report(report: StartupReport, *, as_json: bool) -> None:
    """The table and what it adds up to, or the same as one JSON object."""
    if as_json:
        click.echo(json.dumps(asdict(report), indent=2))
        return
    click.echo(f"{'stage':40} seconds  share")
    for stage in report.stages:
        click.echo(f"{stage.name:40} {stage.seconds:7.2f} {stage.share:6.0%}")
    click.echo(
        f"\nThe port answers after {report.answers_s:.2f} s. The model is ready after {report.ready_s:.2f} s, of which "
        f"{report.ready_without_torch_s:.2f} s are not the import of torch.\n"
        f"The first words of an answer come after {report.first_words_s:.2f} s."
    )
    if any(stage.name == CONVERTING_STAGE for stage in report.stages):
        click.echo("This start converted the weights; where it could keep them, the next one only maps them.")


def _run_probe(folder: Path, environment: Mapping[str, str]) -> Moments:
    command = [sys.executable, "-c", _PROBE, str(folder)]
    variables = {**os.environ, **environment}
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False, env=variables)
    except subprocess.TimeoutExpired:
        raise Refused(f"the start was not ready after {TIMEOUT_S} s") from None
    if done.returncode:
        # It has said why on our standard error.
        raise click.exceptions.Exit(done.returncode)
    written = json.loads(done.stdout.splitlines()[-1])
    stages = [(str(name), float(at)) for name, at in written.pop("stages")]
    return Moments(stages, **written)
