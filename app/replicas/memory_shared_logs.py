"""Shared logs within one process. They hold the very bytes that the server's own logs hold, so alone they cost a list."""

from __future__ import annotations

from collections.abc import Sequence

from app.replicas.shared_logs import Done, Reader


class LogShelf:
    """Owns the logs of running answers and who reads them."""

    def __init__(self) -> None:
        self.logs: dict[str, list[bytes]] = {}
        self.readers: dict[str, list[Reader]] = {}

    def add(self, response_id: str, frames: Sequence[bytes]) -> None:
        """Behind those that are there."""
        log = self.logs.setdefault(response_id, [])
        numbered = list(enumerate(frames, len(log) + 1))
        log += frames
        if numbered:
            for reader in list(self.readers.get(response_id, ())):
                reader(numbered)


class MemorySharedLogs:
    """One server's end of a shelf."""

    def __init__(self, shelf: LogShelf) -> None:
        self._shelf = shelf
        self._own: set[str] = set()
        self._following: dict[str, Reader] = {}

    async def open(self) -> None:
        """See `SharedLogs`."""

    def append(self, response_id: str, first_seq: int, frames: Sequence[bytes], done: Done) -> None:
        """See `SharedLogs`."""
        self._own.add(response_id)
        there = self._shelf.logs.get(response_id, [])
        is_mine = len(there) == first_seq - 1 or not frames
        if is_mine:
            self._shelf.add(response_id, frames)
        done(is_mine)

    def end(self, response_id: str, terminal: bytes | None) -> None:
        """See `SharedLogs`. Nobody comes later: who asks then reads SQL."""
        if response_id not in self._own:
            return
        self._own.discard(response_id)
        if terminal is not None:
            self._shelf.add(response_id, [terminal])
            self._shelf.logs.pop(response_id, None)

    async def complete(self, response_id: str, frames: Sequence[bytes]) -> None:
        """See `SharedLogs`."""
        self._shelf.add(response_id, frames[len(self._shelf.logs.get(response_id, ())) :])

    async def read(self, response_id: str) -> list[bytes]:
        """See `SharedLogs`."""
        return list(self._shelf.logs.get(response_id, ()))

    def follow(self, response_id: str, after: int, reader: Reader) -> None:
        """See `SharedLogs`."""
        self.leave(response_id)
        self._following[response_id] = reader
        self._shelf.readers.setdefault(response_id, []).append(reader)
        if frames := self._shelf.logs.get(response_id, [])[after:]:
            reader(list(enumerate(frames, after + 1)))

    def leave(self, response_id: str) -> None:
        """See `SharedLogs`."""
        if (reader := self._following.pop(response_id, None)) is not None:
            readers = self._shelf.readers[response_id]
            readers.remove(reader)
            if not readers:
                del self._shelf.readers[response_id]

    def sizes(self) -> dict[str, int]:
        """See `SharedLogs`."""
        return {"shared_logs": len(self._own), "followed_logs": len(self._following)}

    async def close(self) -> None:
        """See `SharedLogs`."""
        for response_id in list(self._following):
            self.leave(response_id)
        for response_id in self._own:
            self._shelf.logs.pop(response_id, None)
        self._own.clear()
