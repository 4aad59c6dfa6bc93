"""Kvasir beside other engines, as Markdown for a README: all rates, and the targets. Used by `bench`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from app.cli.startup import Refused
from engine.bench.targets import Cell, Engine, engines_of, outcomes


def read_results(files: Sequence[Path]) -> list[Engine]:
    """The engines of all these files. Raises Refused."""
    wholes = []
    for path in files:
        try:
            whole = json.loads(path.read_text(encoding="utf-8"))
            engines_of([whole])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
            raise Refused(
                f"{path} is no file of `kvasir bench engine` or of the peers' harness: {type(problem).__name__}: {problem}"
            ) from None
        wholes.append(whole)
    return engines_of(wholes)


def comparison_markdown(engines: Sequence[Engine]) -> str:
    """Three tables: the rates, the targets, the versions."""
    cells = list(dict.fromkeys(cell for engine in engines for cell in engine.rates))
    lines = _table(
        ["tokens/s, median (spread)", *(cell.title for cell in cells)], [_row(one, cells) for one in engines]
    )
    lines += [""]
    rows = [
        [
            found.target.work,
            f"{found.target.ratio:g} x {found.than}",
            f"{found.ours:.0f}",
            f"{found.theirs:.0f}",
            f"{found.ratio:.2f}",
            "yes" if found.holds else "**no**",
        ]
        for found in outcomes(engines)
    ]
    lines += _table(["work", "at least", "Kvasir", "peer", "ratio", "holds"], rows)
    lines += [""]
    versions = [
        [engine.name, ", ".join(f"{name} {version}" for name, version in engine.versions.items())] for engine in engines
    ]
    return "\n".join([*lines, *_table(["engine", "versions"], versions)])


def _row(engine: Engine, cells: Sequence[Cell]) -> list[str]:
    numbers = []
    for cell in cells:
        rate = engine.rate(cell)
        numbers.append("" if rate is None else f"{rate:.0f} ({engine.spread(cell):.0%})")
    return [engine.name, *numbers]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    rule = "| --- |" + " --: |" * (len(head) - 1)
    return [f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)]
