"""What every benchmark command does with its results: the tables on standard output, the file, the plots.

Used by `bench`. It computes nothing; `engine.bench` has done that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from app.cli.startup import Refused

WIDTH: Final = 200
"""Of tables that go into a file or a pipe: no line of one is broken."""


def show(*tables: Table) -> None:
    """Tables for people, on standard output."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    for table in tables:
        console.print(table)


def make_room(path: Path | None, folder: Path | None) -> None:
    """Make the folders of what will be written, before anything is measured for minutes. Raises Refused."""
    for wanted in (path.parent if path is not None else None, folder):
        try:
            if wanted is not None:
                wanted.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise Refused(f"{wanted} cannot be made: {problem.strerror or problem}") from None
    if path is not None and path.is_dir():
        raise Refused(f"{path} is a folder, and the results are one file")


def write_json(path: Path | None, results: Mapping[str, Any]) -> None:
    """The whole of it for programs. Raises Refused."""
    if path is not None:
        _write(path, json.dumps(results, indent=1) + "\n")


def write_plots(folder: Path | None, plots: Mapping[str, str]) -> None:
    """One SVG file for each plot, by its name. Raises Refused."""
    if folder is None:
        return
    for name, svg in plots.items():
        _write(folder / f"{name}.svg", svg)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise Refused(f"{path} cannot be written: {problem.strerror or problem}") from None
