"""The journal's files of this server process: where appended frames go, and when their space is given back.

    journal/<instance>/lock            held (flock) while the process lives, so nobody takes its answers for abandoned ones
    journal/<instance>/000001.journal  sealed: deleted when every answer with frames in it has ended
    journal/<instance>/000002.journal  the one that is written; emptied whenever no answer needs it

Used by the journal's thread only. It must never leave a half-written record in front of another one.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.realtime.journal_format import HEADER, encoded_records

LOCK_NAME = "lock"
SUFFIX = ".journal"


@dataclass
class _Segment:
    path: Path
    descriptor: int | None
    size: int
    needed_by: set[str] = field(default_factory=set)


class JournalSegments:
    """Owns the folder of one instance. `segment_bytes` bounds what one long answer can keep from being deleted."""

    def __init__(self, folder: Path, instance_id: str, segment_bytes: int) -> None:
        self._root = folder
        self._folder = folder / instance_id
        self._segment_bytes = segment_bytes
        self._lock: int | None = None
        self._count = 0
        self._sealed: list[_Segment] = []
        self._current: _Segment | None = None

    @property
    def disk_bytes(self) -> int:
        """What all files of this instance hold."""
        return sum(segment.size for segment in (*self._sealed, *([self._current] if self._current else [])))

    def open(self) -> None:
        """Make the folder, already locked when others can first see it."""
        self._root.mkdir(parents=True, exist_ok=True)
        unborn = self._root / f".{self._folder.name}"
        unborn.mkdir()
        self._lock = os.open(unborn / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unborn.rename(self._folder)

    def append(self, groups: Sequence[tuple[str, Sequence[bytes]]]) -> None:
        """Add the payloads of several responses in one write. Raises OSError, and then none of them is in the journal."""
        segment = self._current = self._current or self._new_segment()
        assert segment.descriptor is not None
        data = encoded_records([payload for _, payloads in groups for payload in payloads])
        try:
            _write_all(segment.descriptor, data)
        except OSError:
            self._undo_partial_write(segment)
            raise
        segment.size += len(data)
        segment.needed_by.update(response_id for response_id, _ in groups)
        if segment.size >= self._segment_bytes:
            self._seal(segment)

    def forget(self, response_id: str) -> None:
        """This response is stored elsewhere now."""
        for segment in self._sealed:
            segment.needed_by.discard(response_id)
        for segment in [segment for segment in self._sealed if not segment.needed_by]:
            self._sealed.remove(segment)
            segment.path.unlink(missing_ok=True)
        current = self._current
        if current is not None and response_id in current.needed_by:
            current.needed_by.discard(response_id)
            if not current.needed_by and current.descriptor is not None:
                os.ftruncate(current.descriptor, len(HEADER))
                current.size = len(HEADER)

    def close(self) -> None:
        """Give the lock back. Files that are still needed stay, for the next start to recover."""
        needed = [segment for segment in (*self._sealed, self._current) if segment is not None and segment.needed_by]
        if self._current is not None:
            if self._current.descriptor is not None:
                os.close(self._current.descriptor)
            if self._current not in needed:
                self._current.path.unlink(missing_ok=True)
            self._current = None
        if self._lock is not None:
            if not needed:
                (self._folder / LOCK_NAME).unlink(missing_ok=True)
                self._folder.rmdir()
            os.close(self._lock)
            self._lock = None

    def _new_segment(self) -> _Segment:
        path = self._folder / f"{self._count + 1:06d}{SUFFIX}"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            _write_all(descriptor, HEADER)
        except OSError:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise
        self._count += 1
        return _Segment(path, descriptor, len(HEADER))

    def _undo_partial_write(self, segment: _Segment) -> None:
        """Cut off what a failed write left. A file that cannot even be cut is not written to again."""
        assert segment.descriptor is not None
        try:
            os.ftruncate(segment.descriptor, segment.size)
        except OSError:
            self._seal(segment)

    def _seal(self, segment: _Segment) -> None:
        if segment.descriptor is not None:
            os.close(segment.descriptor)
            segment.descriptor = None
        self._sealed.append(segment)
        self._current = None


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
