"""The order in which pages leave the device when others need the place.

Used by `engine.prefix_cache`. First what matters least to its owners, then what was used longest ago, then, of pages that were
used together, the last: what is left of a chain is then a beginning, and a beginning can be used. Pure.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator

from engine.cached_page import CachedPage
from engine.errors import EngineError
from engine.pages import PagePool
from engine.session import Retention

Entry = tuple[int, int, int, int, CachedPage]
"""Retention, time of use, minus the index in the chain, a number that is never the same, and the page."""


class EvictionOrder:
    """A heap. An entry whose page was used since is passed over when it comes to the top; the later use has its own."""

    def __init__(self, pool: PagePool) -> None:
        self._pool = pool
        self._entries: list[Entry] = []
        self._numbers = 0

    def add(self, page: CachedPage, on_device: Collection[CachedPage]) -> None:
        """The page was used, came to the device or has another owner now. To be called again when a sequence lets go of it."""
        if page.device is None:
            return
        heapq.heappush(self._entries, self._entry(page))
        if len(self._entries) > 64 + 4 * self._pool.num_pages:
            self._entries = [self._entry(other) for other in on_device]
            heapq.heapify(self._entries)

    def take(self, on_device: Collection[CachedPage]) -> Iterator[CachedPage]:
        """Evictable pages, the first to leave first, each once. Those that are taken are not in the order any more."""
        # A page that was used once and has lost an owner since has two entries, and both are right.
        taken = set[CachedPage]()
        while self._entries:
            retention, last_used, _, _, page = heapq.heappop(self._entries)
            if page.device is None or page.last_used != last_used or not self._pool.is_evictable(page.device):
                continue
            if page in taken:
                continue
            if retention != page_retention(page):
                self.add(page, on_device)
                continue
            taken.add(page)
            yield page

    def check_integrity(self, on_device: Collection[CachedPage]) -> None:
        """Raise where a page could be evicted and would never be found."""
        known = {(page.key, last_used) for _, last_used, _, _, page in self._entries}
        for page in on_device:
            assert page.device is not None
            if self._pool.is_evictable(page.device) and (page.key, page.last_used) not in known:
                raise EngineError(f"device page {page.device} is evictable, and nobody would ever evict it")

    def _entry(self, page: CachedPage) -> Entry:
        self._numbers += 1
        return page_retention(page), page.last_used, -page.index, self._numbers, page


def page_retention(page: CachedPage) -> Retention:
    """How late a page leaves: as its most important owner wants it."""
    return max((owner.retention for owner in page.owners), default=Retention.NOBODY)
