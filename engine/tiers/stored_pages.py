"""Which pages of the index are in which file: what a file's disappearance means for them, and when a file is of no use.

Used by `engine.tiers.tiers` and its parts, in the engine thread. It opens nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from engine.cached_page import CachedPage, StoredPage
from engine.errors import EngineError


@dataclass(slots=True)
class _Segment:
    """The pages of a file by their places in it, and how many there are; None stands for one that nobody looks for."""

    pages: list[CachedPage | None] = field(default_factory=list)
    num_pages: int = 0


class StoredPages:
    """Owns `page.disk` of every page: nobody else sets it. `stored` is told of each page that gets a place."""

    def __init__(self, stored: Callable[[CachedPage], None] = lambda page: None) -> None:
        self._stored = stored
        self._segments: dict[str, _Segment] = {}
        self.num_pages = 0

    def add(self, page: CachedPage, stored: StoredPage) -> None:
        """The page is in this file; in which other one it was before does not matter any more."""
        self.discard(page)
        page.disk = stored
        segment = self._segments.setdefault(stored.segment, _Segment())
        segment.pages.extend([None] * (stored.index + 1 - len(segment.pages)))
        segment.pages[stored.index] = page
        segment.num_pages += 1
        self.num_pages += 1
        self._stored(page)

    def discard(self, page: CachedPage) -> str | None:
        """The page is not looked for in its file any more. The file's name, if no other page is either."""
        stored, page.disk = page.disk, None
        segment = self._segments.get(stored.segment) if stored is not None else None
        if stored is None or segment is None or page not in segment.pages[stored.index : stored.index + 1]:
            return None
        segment.pages[stored.index] = None
        segment.num_pages -= 1
        self.num_pages -= 1
        if segment.num_pages:
            return None
        del self._segments[stored.segment]
        return stored.segment

    def lose(self, segment: str) -> list[CachedPage]:
        """A file is gone: the pages that were in it."""
        pages = [page for page in self._segments.pop(segment, _Segment()).pages if page is not None]
        self.num_pages -= len(pages)
        for page in pages:
            page.disk = None
        return pages

    def lose_folder(self, folder: Path) -> list[CachedPage]:
        """Everything in a folder is gone: the pages that were there."""
        gone = [segment for segment in self._segments if segment.startswith(f"{folder}/")]
        return [page for segment in gone for page in self.lose(segment)]

    def check_integrity(self, pages: Iterable[CachedPage]) -> None:
        """Raise EngineError unless `pages` are exactly those that are in some file."""
        held = {page for segment in self._segments.values() for page in segment.pages if page is not None}
        given = set(pages)
        if held != given or len(held) != self.num_pages:
            raise EngineError(
                f"{len(given)} pages are on disk, {len(held)} are in the books of the files and {self.num_pages} are counted"
            )
