"""The order in which pages leave a tier when others need the place.

Used by `engine.prefix_cache`, one for the device and one for the host. First what matters least, then what was used longest ago,
then, of pages that were used together, the last: what is left of a chain is then a beginning, and a beginning can be used. Pure.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator

from engine.cached_page import CachedPage
from engine.errors import EngineError
from engine.session import Retention

Entry = tuple[int, int, int, int, CachedPage]
"""How much it matters, time of use, minus the index in the chain, a number that is never the same, and the page."""


class EvictionOrder:
    """A heap. An entry whose page was used since is passed over when it comes to the top; the later use has its own."""

    def __init__(self, may_leave: Callable[[CachedPage], bool], importance: Callable[[CachedPage], int]) -> None:
        self._may_leave = may_leave
        self._importance = importance
        self._entries: list[Entry] = []
        self._numbers = 0
        self._limit = 0

    def add(self, page: CachedPage) -> None:
        """The page was used, may leave now, or matters less than before."""
        if not self._may_leave(page):
            return
        heapq.heappush(self._entries, self._entry(page))
        if len(self._entries) > self._limit:
            current = {entry[-1] for entry in self._entries if self._is_current(entry)}
            self._entries = [self._entry(other) for other in current]
            heapq.heapify(self._entries)
            self._limit = 64 + 2 * len(self._entries)

    def take(self) -> Iterator[CachedPage]:
        """Pages that may leave, the first to leave first, each once. Those that are taken are not in the order any more."""
        # A page that was used once and has lost an owner since has two entries, and both are right.
        taken = set[CachedPage]()
        while self._entries:
            entry = heapq.heappop(self._entries)
            page = entry[-1]
            if page in taken or not self._is_current(entry):
                continue
            if entry[0] != self._importance(page):
                self.add(page)
                continue
            taken.add(page)
            yield page

    def check_integrity(self, pages: Iterable[CachedPage]) -> None:
        """Raise where one of these may leave and would never be found."""
        known = {(page.key, last_used) for _, last_used, _, _, page in self._entries}
        for page in pages:
            if self._may_leave(page) and (page.key, page.last_used) not in known:
                raise EngineError(f"page {page.index} of a chain may leave its tier, and would never be asked to")

    def _is_current(self, entry: Entry) -> bool:
        return entry[1] == entry[-1].last_used and self._may_leave(entry[-1])

    def _entry(self, page: CachedPage) -> Entry:
        self._numbers += 1
        return self._importance(page), page.last_used, -page.index, self._numbers, page


def page_retention(page: CachedPage) -> Retention:
    """How late a page leaves: as its most important owner wants it."""
    return max((owner.retention for owner in page.owners), default=Retention.NOBODY)
