"""The event logs of running answers where every server can read them, as a contract: frames by response id, numbered by `seq`.

Twins: `memory_shared_logs` and `redis_shared_logs`. One server writes a log, the one that makes the answer; a frame is in its own
journal before it comes here. While Redis is away that journal alone keeps frames, and they are put in here when it is back;
others read them then, or at the end of the answer, when SQL has the whole log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

Done = Callable[[bool], None]
"""Called on the event loop, in the order of appends. False: another server has ended this answer; nothing more may be shown."""

NumberedFrame = tuple[int, bytes]
Reader = Callable[[Sequence[NumberedFrame]], None]
"""Called on the event loop with frames in order, none twice. It must not block and must not raise."""


class SharedLogsAway(Exception):
    """Nobody can say now what is in them."""


class SharedLogs(Protocol):
    """One server's end of them."""

    async def open(self) -> None:
        """Begin. Does not wait for a Redis that is away."""

    def append(self, response_id: str, first_seq: int, frames: Sequence[bytes], done: Done) -> None:
        """Add frames of an answer of this server: `first_seq` is the number of the first, behind the last one appended.
        `done` is told when the others can read them, or when that has to wait."""

    def end(self, response_id: str, terminal: bytes | None) -> None:
        """The answer is stored in SQL, and this is its last frame; None when another server has ended it. Idempotent."""

    async def complete(self, response_id: str, frames: Sequence[bytes]) -> None:
        """Write the whole log of an answer that a server which has died left unfinished; what is there already stays."""

    async def read(self, response_id: str) -> list[bytes]:
        """All frames there are, from the first on. Raises SharedLogsAway."""

    def follow(self, response_id: str, after: int, reader: Reader) -> None:
        """Give `reader` every frame behind `after`, those that are there and those that come, until `leave`."""

    def leave(self, response_id: str) -> None:
        """Read no more of it. Idempotent."""

    def sizes(self) -> dict[str, int]:
        """How many entries each registry has; all zero when nothing runs and nobody reads."""

    async def close(self) -> None:
        """End everything. Idempotent."""
