"""Memory of the KV cache that is there before a step comes to it.

Used by `engine.kv_cache`. The system hands memory out when it is touched first, and clears it, in huge pages 2 MiB at once. Each
layer has its keys and its values apart, so the step that came to the next huge page of all of them had 120 MiB cleared with the
bundled model, for 30 to 70 ms. A thread asks for what comes next, one huge page at a time.

Its priority is the usual one: the system locks what the process has mapped while it clears. Beside two busy programs whoever
wanted memory waited up to 13 ms for that; where the thread stood behind (nice 10) 50 ms, and where it computed on idle cores
only 1.5 s, and a server that was to end 15 s.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

import torch

from kernels.system_memory import touch

AHEAD_BYTES: Final = 96 << 20
"""Half of that is 4,000 tokens of the bundled model: a second of prompts, in which the thread gets to it."""

HUGE_PAGE_BYTES: Final = 2 << 20

PAUSE_S: Final = 0.008
"""Between one huge page and the next, so that no step of an answer meets two of them: a core is away for most of a millisecond
while one is cleared, and whoever was to compute there may wait for a timer's tick. 60 of them take half a second so."""


class FirstTouch:
    """Knows up to which page `storage`, [regions, pages, ...], was asked for. Pages are used from the lowest number on."""

    def __init__(
        self,
        storage: torch.Tensor,
        ahead_bytes: int = AHEAD_BYTES,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._storage = storage  # held, while a thread is at its memory
        # Plain numbers are what that thread may compute with (`kernels.system_memory.touch`).
        self._address = storage.data_ptr()
        self._regions, self._pages = storage.shape[:2]
        self._region_bytes, self._page_bytes = (stride * storage.itemsize for stride in storage.stride()[:2])
        self._ahead_pages = ahead_bytes // max(1, self._regions * self._page_bytes)
        self._sleep = sleep
        self._asked_pages = 0
        self._thread: threading.Thread | None = None

    def reach(self, pages: int) -> None:
        """Have memory for `pages` pages and some more; it comes later. Costs nothing while there is enough."""
        wanted = min(pages + self._ahead_pages, self._pages)
        if self._asked_pages >= min(pages + self._ahead_pages // 2 + 1, wanted) or self.is_busy:
            return
        begin, self._asked_pages = self._asked_pages, wanted
        # A daemon: nobody waits for it at the end.
        self._thread = threading.Thread(
            target=self._touch, args=(begin, wanted), name="kvasir-first-touch", daemon=True
        )
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def join(self) -> None:
        """Wait until what was asked for is there."""
        if self._thread is not None:
            self._thread.join()

    def _touch(self, begin: int, end: int) -> None:
        for region in range(self._regions):
            address = self._address + region * self._region_bytes
            for piece, size_bytes in _huge_pages(address + begin * self._page_bytes, address + end * self._page_bytes):
                if not touch(piece, size_bytes):
                    return
                if begin > 0:  # before the first page is used nobody streams
                    self._sleep(PAUSE_S)


def _huge_pages(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of the addresses from `begin` to `end` that lie in one huge page each: where they begin, and their bytes."""
    while begin < end:
        next_page = min(end, (begin // HUGE_PAGE_BYTES + 1) * HUGE_PAGE_BYTES)
        yield begin, next_page - begin
        begin = next_page
