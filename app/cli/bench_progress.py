"""Shows how far a measurement is, on standard error: a bar on a terminal, a plain line for each step elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


class BenchProgress:
    """Call it with the name of what has been measured; `total` is how often that will be."""

    def __init__(self, title: str, total: int, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._title, self._total, self._done = title, total, 0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._bar.start()
        self._task = self._bar.add_task(f"{self._title}: starting", total=self._total)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, what: str) -> None:
        self._done += 1
        if self._task is not None and self._console.is_terminal:
            self._bar.update(self._task, completed=self._done, description=f"{self._title}: {what}")
        else:
            line = f"{self._title} {self._done}/{self._total}: {what}"
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)
