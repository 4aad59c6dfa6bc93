"""Tells how far the fetching of a model is, by looking at how much of it lies on the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PullProgress = Callable[[str, int, int | None], None]
"""Called with what is being done, the bytes done, and the bytes in all where they are known; by one thread at a time, which
may be another one than the caller's."""

WATCH_INTERVAL_S: Final = 0.2


@contextmanager
def watched(folder: Path, what: str, total: int | None, report: PullProgress) -> Iterator[None]:
    """While the body fills `folder`, report its size. What downloads does not have to know of it."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(WATCH_INTERVAL_S):
            done = folder_bytes(folder)
            report(what, done if total is None else min(done, total), total)

    report(what, 0, total)
    thread = threading.Thread(target=watch, name="kvasir-pull-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    report(what, folder_bytes(folder) if total is None else total, total)


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below it; one that vanishes meanwhile counts nothing."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total
