"""The first start against every later one, each in a process of its own: for `kvasir bench ideas`.

The first start has the model's own files and nothing else, so it compiles the kernels, or converts the weights. What it makes is
there for the later ones, in a data folder that is gone afterwards.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from app.cli.serve import kernels_folder, models_folder
from app.cli.startup_report import measure_startup
from app.settings import Settings
from engine.bench.comparison import Claim, Comparison

UNDER_S: Final = 2.0
"""What was claimed of a restart."""


def compare_starts(
    settings: Settings, model_folder: Path, kernels: str, repeats: int, report: Callable[[str], None]
) -> Comparison:
    """Seconds from the command to the first words of an answer. `kernels` are those the model is served with. Raises Refused."""
    environment = {"KVASIR_MODEL": settings.model, "KVASIR_THREADS": str(settings.threads)}
    if kernels.startswith("cpu"):
        # Left to itself a start that finds none answers with plain torch and compiles beside it.
        environment["KVASIR_KERNELS"] = "cpu"
    with TemporaryDirectory(prefix="kvasir-bench-") as name:
        fresh = msgspec.structs.replace(settings, data=Path(name))
        models_folder(fresh).mkdir()
        kernels_folder(fresh).mkdir()
        if model_folder.parent.resolve() == models_folder(settings).resolve():
            unconverted = shutil.ignore_patterns("*.weights", ".*")
            shutil.copytree(model_folder, models_folder(fresh) / model_folder.name, ignore=unconverted)
        first = measure_startup(fresh, environment).first_words_s
        report("first start")
        later = []
        for _ in range(repeats):
            later.append(measure_startup(fresh, environment).first_words_s)
            report("restart")
    return Comparison(
        "warm start",
        f"from the command to the first words of an answer, {kernels} kernels",
        "s",
        "first start",
        [first],
        "restart",
        later,
        more_is_better=False,
        claim=Claim(
            f"restart to first answer in under {UNDER_S:g} s, from over 10 s",
            f"{median(later):.2f} s, from {first:.1f} s",
            median(later) < UNDER_S,
        ),
    )
