"""What an engine's memory may grow to beside its model: the pages it was given, and what the books about them take.

Used by `engine.assembly`, which tells it at the start, and by the benchmark that holds the process to it. Every page that is
indexed is in some tier, so the tiers' sizes bound the index as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine import encoded_chats
from engine.config import EngineConfig
from engine.tiers import restores, writes

BOOKS_BYTES_PER_PAGE: Final = 1024
"""For each page that is in any tier, beside its bytes: its entry in the index and in the files' books, its places in the orders
of leaving, and its tokens in its session. Tested (tests/engine/test_memory_budget.py), as is the next."""

BOOKS_BYTES_PER_SESSION: Final = 2048

TRANSFER_BYTES: Final = writes.MAX_IN_FLIGHT * writes.SEGMENT_BYTES + restores.MAX_READS * restores.READ_BYTES
"""Buffers on the way to and from the disk; more only where a single page is larger than one of them."""

CHATS_BYTES: Final = encoded_chats.MAX_BYTES
"""What prompts were encoded to."""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Bytes, all of them upper bounds. `pages` are those of device and host, whose memory is taken as it is first used."""

    pages: int
    books: int
    transfers: int
    chats: int

    @classmethod
    def of(cls, config: EngineConfig, page_bytes: int, sessions: int = 0) -> MemoryBudget:
        """What these settings promise, with so many sessions."""
        in_memory = config.kv_memory_bytes // page_bytes + config.host_memory_bytes // page_bytes
        on_disk = config.disk_bytes // page_bytes if config.disk_folder is not None else 0
        return cls(
            pages=in_memory * page_bytes,
            books=(in_memory + on_disk) * BOOKS_BYTES_PER_PAGE + sessions * BOOKS_BYTES_PER_SESSION,
            transfers=TRANSFER_BYTES if on_disk else 0,
            chats=CHATS_BYTES,
        )

    @property
    def total(self) -> int:
        return self.pages + self.books + self.transfers + self.chats
