"""Shows how far the fetching of a model is: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

LINE_EVERY = 0.25
"""Share of the whole between two plain lines."""


class PullProgress:
    """Call it with what is being done, the bytes done, and the bytes in all; from one thread at a time."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._bar: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._printed: dict[str, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __call__(self, what: str, done: int, total: int | None) -> None:
        if self._console.is_terminal:
            self._draw(what, done, total)
        else:
            self._print(what, done, total)

    def _draw(self, what: str, done: int, total: int | None) -> None:
        if self._bar is None:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
                console=self._console,
            )
            self._bar.start()
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, total=total)
        self._bar.update(self._tasks[what], completed=done, total=total)

    def _print(self, what: str, done: int, total: int | None) -> None:
        share = done / total if total else 0.0
        if what in self._printed and share < self._printed[what] + LINE_EVERY and share < 1:
            return
        if self._printed.get(what) == 1.0:
            return
        self._printed[what] = share
        amount = f" {done / 1e6:.0f} of {total / 1e6:.0f} MB" if total else ""
        self._console.print(f"{what}{amount}", highlight=False, markup=False, soft_wrap=True)
