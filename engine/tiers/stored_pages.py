"""Which pages of the index are in which file: what a file's disappearance means for them, and when a file is of no use.

Used by `engine.tiers.tiers` and its parts, in the engine thread. It opens nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from engine.cached_page import CachedPage, StoredPage
from engine.errors import EngineError


class StoredPages:
    """Owns `page.disk` of every page: nobody else sets it."""

    def __init__(self) -> None:
        self._segments: dict[str, set[CachedPage]] = {}
        self.num_pages = 0

    def add(self, page: CachedPage, stored: StoredPage) -> None:
        """The page is in this file; in which other one it was before does not matter any more."""
        self.discard(page)
        page.disk = stored
        self._segments.setdefault(stored.segment, set()).add(page)
        self.num_pages += 1

    def discard(self, page: CachedPage) -> str | None:
        """The page is not looked for in its file any more. The file's name, if no other page is either."""
        stored, page.disk = page.disk, None
        if stored is None or page not in (pages := self._segments.get(stored.segment, set())):
            return None
        pages.remove(page)
        self.num_pages -= 1
        if pages:
            return None
        del self._segments[stored.segment]
        return stored.segment

    def lose(self, segment: str) -> list[CachedPage]:
        """A file is gone: the pages that were in it."""
        pages = self._segments.pop(segment, set())
        self.num_pages -= len(pages)
        for page in pages:
            page.disk = None
        return list(pages)

    def lose_folder(self, folder: Path) -> list[CachedPage]:
        """Everything in a folder is gone: the pages that were there."""
        gone = [segment for segment in self._segments if segment.startswith(f"{folder}/")]
        return [page for segment in gone for page in self.lose(segment)]

    def check_integrity(self, pages: Iterable[CachedPage]) -> None:
        """Raise EngineError unless `pages` are exactly those that are in some file."""
        held = {page for pages_of_one in self._segments.values() for page in pages_of_one}
        given = set(pages)
        if held != given or len(held) != self.num_pages:
            raise EngineError(
                f"{len(given)} pages are on disk, {len(held)} are in the books of the files and {self.num_pages} are counted"
            )
