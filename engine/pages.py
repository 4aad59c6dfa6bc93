"""Who uses which page of the KV cache: a pool of numbered pages with reference counts.

    free        in nobody's hands
    used        held by one or more sequences
    kept        held by the prefix cache: evictable while no sequence holds it too

Used by `engine.scheduler` and `engine.prefix_cache`, in the engine thread. It deals in numbers and never touches the memory
itself (`engine.kv_cache` does). Pure: no torch, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NewType

from engine.config import PAGE_TOKENS
from engine.errors import EngineError

PageId = NewType("PageId", int)


class PagesExhausted(EngineError):
    """More pages were asked for than are free. The scheduler plans so that this never happens."""

    def __init__(self, wanted: int, free: int) -> None:
        super().__init__(f"{wanted} pages were asked for and {free} are free")


class PagesCorrupt(EngineError):
    """The books of the pool contradict themselves: a bug, never a matter of load."""


def pages_for(num_tokens: int) -> int:
    """Pages that hold this many tokens."""
    return -(-num_tokens // PAGE_TOKENS)


class PagePool:
    """Owns the reference count of every page. A page is free exactly when its count is 0; the cache holds one reference of
    those it keeps."""

    def __init__(self, num_pages: int) -> None:
        if num_pages < 1:
            raise ValueError(f"a pool needs at least one page, got {num_pages}")
        self.num_pages = num_pages
        self._references = [0] * num_pages
        self._kept = [False] * num_pages
        self.num_evictable = 0
        """Pages that nobody but the prefix cache holds."""
        self.num_touched = 0
        """Pages below this number have been used, those from it on never."""
        # The last freed page is the next to be used: its memory is most likely still in the processor's cache. Of those that
        # were never used the lowest is.
        self._free = [PageId(page) for page in reversed(range(num_pages))]

    @property
    def num_free(self) -> int:
        return len(self._free)

    def allocate(self, count: int) -> list[PageId]:
        """Take `count` pages, each with one reference, or none at all. Raises PagesExhausted."""
        if count > len(self._free):
            raise PagesExhausted(count, len(self._free))
        taken = [self._free.pop() for _ in range(count)]
        for page in taken:
            self._references[page] = 1
            self.num_touched = max(self.num_touched, page + 1)
        return taken

    def retain(self, pages: Iterable[PageId]) -> None:
        """Add a reference to pages that are in use."""
        for page in pages:
            if self._references[page] < 1:
                raise PagesCorrupt(f"page {page} is free and was retained")
            self.num_evictable -= self.is_evictable(page)
            self._references[page] += 1

    def free(self, pages: Iterable[PageId]) -> None:
        """Drop one reference of each; a page without any is free."""
        for page in pages:
            if self._references[page] < 1:
                raise PagesCorrupt(f"page {page} is free and was freed again")
            self._references[page] -= 1
            if not self._references[page]:
                self._free.append(page)
            self.num_evictable += self.is_evictable(page)

    def keep(self, page: PageId) -> None:
        """The prefix cache takes a reference to a page that a sequence holds."""
        if self._kept[page]:
            raise PagesCorrupt(f"page {page} is kept already")
        self.retain([page])
        self._kept[page] = True

    def give_up(self, page: PageId) -> None:
        """The prefix cache drops its reference."""
        if not self._kept[page]:
            raise PagesCorrupt(f"page {page} is not kept and was given up")
        self.num_evictable -= self.is_evictable(page)
        self._kept[page] = False
        self.free([page])

    def is_evictable(self, page: PageId) -> bool:
        """Whether the prefix cache is the only one who holds it."""
        return self._kept[page] and self._references[page] == 1

    def num_sequences(self, page: PageId) -> int:
        """How many hold it beside the prefix cache."""
        return self._references[page] - self._kept[page]

    def held_pages(self) -> list[PageId]:
        """Those that others hold beside the prefix cache."""
        references = enumerate(zip(self._references, self._kept, strict=True))
        return [PageId(page) for page, (count, kept) in references if count > kept]

    def check_integrity(self, references: Iterable[PageId] = ()) -> None:
        """Raise PagesCorrupt unless `references`, all that anybody holds, is exactly what the pool counts."""
        held = [0] * self.num_pages
        for page in references:
            held[page] += 1
        wrong = [page for page in range(self.num_pages) if held[page] != self._references[page]]
        if wrong:
            first = wrong[0]
            raise PagesCorrupt(
                f"{len(wrong)} pages are counted wrongly; page {first} has {held[first]} references "
                f"and the pool counts {self._references[first]}"
            )
        evictable = sum(self.is_evictable(PageId(page)) for page in range(self.num_pages))
        if evictable != self.num_evictable:
            raise PagesCorrupt(f"{evictable} pages are evictable and {self.num_evictable} are counted")
        unused = {page for page in range(self.num_pages) if not held[page]}
        if len(self._free) != len(unused) or set(self._free) != unused:
            raise PagesCorrupt(f"{len(unused)} pages are unused and {len(self._free)} are listed as free")
