"""Leases within one process: who is open is alive."""

from __future__ import annotations

from collections.abc import Collection


class LeaseBoard:
    """Owns the names of the living."""

    def __init__(self) -> None:
        self.names: set[str] = set()


class MemoryLeases:
    """One server's lease."""

    def __init__(self, board: LeaseBoard, owner: str) -> None:
        self._board = board
        self._owner = owner

    async def open(self) -> None:
        """See `Leases`."""
        self._board.names.add(self._owner)

    async def alive(self, owners: Collection[str]) -> set[str] | None:
        """See `Leases`."""
        return self._board.names & set(owners)

    async def close(self) -> None:
        """See `Leases`."""
        self._board.names.discard(self._owner)
