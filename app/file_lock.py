"""A lock between processes, held by an open file; the operating system lets go of it when the process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class FileLocked(Exception):
    """Another process has the lock; `holder` is its process id, as far as it is known."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path} is locked by process {holder or 'unknown'}")
        self.path = path
        self.holder = holder


@contextmanager
def file_lock(path: Path, *, wait: bool) -> Iterator[None]:
    """Hold the lock for the length of the block. The file stays; only who has it open and locked counts.

    Raises FileLocked at once where `wait` is false and another process, or another block of this one, has it.
    """
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            file.seek(0)
            raise FileLocked(path, file.read().strip()) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
