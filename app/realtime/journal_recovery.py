"""Finds the journals of server processes that have died, and reads their frames back.

Called once at start, before requests are served. A journal is taken only when its lock is free, and the lock is kept until
its answers are stored again, so two starting servers cannot both do it. Blocking: run it in a thread.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import structlog

from app.realtime.journal_format import ForeignJournal, read_records
from app.realtime.journal_segments import LOCK_NAME, SUFFIX

logger = structlog.stdlib.get_logger(__name__)


class _Named(msgspec.Struct):
    response_id: str


_name_decoder = msgspec.json.Decoder(_Named)


class AbandonedJournal:
    """The journal of a dead process, locked by us."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: list[Path] = []
        self.instance_id = folder.name

    def frames(self) -> dict[str, list[bytes]]:
        """The frames of each response in the order they were written. Files that cannot be read are reported and left."""
        found: dict[str, list[bytes]] = {}
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            try:
                payloads, torn_bytes = read_records(path.read_bytes())
                names = [_name_decoder.decode(payload).response_id for payload in payloads]
            except (OSError, ForeignJournal, msgspec.DecodeError) as problem:
                logger.warning("journal_unreadable", file=str(path), problem=str(problem))
                continue
            if torn_bytes:
                logger.info("journal_torn_tail", file=str(path), bytes=torn_bytes)
            for name, payload in zip(names, payloads, strict=True):
                found.setdefault(name, []).append(payload)
            self._read.append(path)
        return found

    def remove(self) -> None:
        """Everything that was read is stored in SQL now."""
        for path in self._read:
            path.unlink(missing_ok=True)
        if all(path.name == LOCK_NAME for path in self._folder.iterdir()):
            (self._folder / LOCK_NAME).unlink(missing_ok=True)
            self._folder.rmdir()


@contextmanager
def abandoned_journal(folder: Path) -> Iterator[AbandonedJournal | None]:
    """The journal in this folder, locked for the block; None when its process lives or somebody else has taken it."""
    try:
        lock = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        logger.warning("journal_unreadable", file=str(folder), problem=str(problem))
        yield None
        return
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield AbandonedJournal(folder)
    finally:
        os.close(lock)


def journal_folders(root: Path) -> list[Path]:
    """The folders of all instances, dead or alive. Names that begin with a dot are journals being made."""
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
