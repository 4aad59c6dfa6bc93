"""Makes frames durable before anybody sees them: one thread, one grouped append for all that has come since the last one.

The recorder appends; what waits when the thread gets to it goes into one write, and one call on the event loop tells all
about it. Durable means: it survives the death of the process (kill -9). A write is not synced to the platter for every
step; after a power cut the last moments of an unfinished answer may be missing, and clients are told to fetch it anew.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from app.realtime.journal_segments import JournalSegments

logger = structlog.stdlib.get_logger(__name__)

SEGMENT_BYTES = 16 << 20
"""Disk that one never-ending answer can hold, beside the segment being written."""

Done = Callable[[OSError | None], None]
"""Called on the event loop when an append has reached the file, or could not."""


@dataclass(frozen=True, slots=True)
class _Append:
    response_id: str
    payloads: Sequence[bytes]
    done: Done


@dataclass(frozen=True, slots=True)
class _Forget:
    response_id: str


class Journal:
    """Owns the journal's thread. `append` and `forget` are called on the event loop and never block it."""

    def __init__(self, folder: Path, instance_id: str, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._segments = JournalSegments(folder, instance_id, segment_bytes)
        self._commands: queue.SimpleQueue[_Append | _Forget | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self) -> None:
        """Make this instance's folder and begin. Raises OSError when the data folder cannot be written."""
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._segments.open)
        self._thread = threading.Thread(target=self._run, name="kvasir-journal", daemon=True)
        self._thread.start()

    def append(self, response_id: str, payloads: Sequence[bytes], done: Done) -> None:
        """Write these frames behind everything appended so far; `done` is told, in the same order."""
        self._commands.put(_Append(response_id, payloads, done))

    def forget(self, response_id: str) -> None:
        """The response has ended and is stored in SQL: its frames need no room here any more."""
        self._commands.put(_Forget(response_id))

    async def close(self) -> None:
        """Write what is waiting, then end the thread. Files of answers that have not ended stay."""
        if self._thread is not None:
            self._commands.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None

    def _run(self) -> None:
        open_for_more = True
        while open_for_more:
            appends: list[_Append] = []
            forgotten: list[_Forget] = []
            for command in self._waiting_commands():
                if isinstance(command, _Append):
                    appends.append(command)
                elif isinstance(command, _Forget):
                    forgotten.append(command)
                else:
                    open_for_more = False
            if appends:
                self._write(appends)
            for command in forgotten:
                self._forget(command.response_id)
        self._segments.close()

    def _waiting_commands(self) -> list[_Append | _Forget | None]:
        commands = [self._commands.get()]
        while True:
            try:
                commands.append(self._commands.get_nowait())
            except queue.Empty:
                return commands

    def _write(self, appends: Sequence[_Append]) -> None:
        failure: OSError | None = None
        try:
            self._segments.append([(append.response_id, append.payloads) for append in appends])
        except OSError as error:
            failure = error
            logger.error("journal_write_failed", error=str(error), frames=sum(len(each.payloads) for each in appends))
        assert self._loop is not None
        self._loop.call_soon_threadsafe(_tell, [append.done for append in appends], failure)

    def _forget(self, response_id: str) -> None:
        try:
            self._segments.forget(response_id)
        except OSError as error:
            # Only disk space is at stake: the answer is in SQL already.
            logger.warning("journal_not_freed", error=str(error))


def _tell(listeners: Sequence[Done], failure: OSError | None) -> None:
    for done in listeners:
        done(failure)
