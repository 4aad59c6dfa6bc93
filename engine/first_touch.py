"""Memory of the KV cache that is there before a step comes to it.

Used by `engine.kv_cache`. The system hands memory out when it is touched first, and clears it, in huge pages 2 MiB at once. Each
layer has its keys and its values apart, so the step that came to the next huge page of all of them had 120 MiB cleared with the
bundled model, for 30 to 70 ms. A thread asks for what comes next, on cores that nobody else wants: between steps there is one.
"""

from __future__ import annotations

import threading
from typing import Final

import torch

from engine.thread_priority import wait_for_idle_cores
from kernels.system_memory import touch

AHEAD_BYTES: Final = 96 << 20
"""Half of that is 4,000 tokens of the bundled model: a second of prompts, in which the thread gets to it."""


class FirstTouch:
    """Knows up to which page `storage`, [regions, pages, ...], was asked for. Pages are used from the lowest number on."""

    def __init__(self, storage: torch.Tensor, ahead_bytes: int = AHEAD_BYTES) -> None:
        self._storage = storage
        self._ahead_pages = ahead_bytes // max(1, storage[:, :1].nbytes)
        self._asked_pages = 0
        self._thread: threading.Thread | None = None

    def reach(self, pages: int) -> None:
        """Have memory for `pages` pages and some more; it comes later. Costs nothing while there is enough."""
        wanted = min(pages + self._ahead_pages, self._storage.shape[1])
        if self._asked_pages >= min(pages + self._ahead_pages // 2 + 1, wanted) or self.is_busy:
            return
        begin, self._asked_pages = self._asked_pages, wanted
        # A daemon: nobody waits for it at the end. It holds the memory itself.
        self._thread = threading.Thread(
            target=_touch, args=(self._storage, begin, wanted), name="kvasir-first-touch", daemon=True
        )
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def join(self) -> None:
        """Wait until what was asked for is there."""
        if self._thread is not None:
            self._thread.join()


def _touch(storage: torch.Tensor, begin: int, end: int) -> None:
    wait_for_idle_cores()
    for region in storage:
        if not touch(region[begin:end]):
            return
