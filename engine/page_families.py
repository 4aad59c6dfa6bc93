"""Pages by what they follow and begin with: where the best partial match is looked for.

Used by `engine.prefix_cache` alone, in the engine thread. A family are pages with the same parent, namespace and first token.
Nearly all have one member, so members are linked to each other and no list is kept. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.cached_page import CachedPage
from engine.packed_tokens import PackedTokens, part_of
from engine.page_keys import PageKey
from engine.types import Namespace


class PageFamilies:
    """Owns `sibling` of every page in it. Two families may share an entry, so who looks for one passes over the other."""

    def __init__(self) -> None:
        self._first: dict[int, CachedPage] = {}

    def of(self, parent: PageKey, namespace: Namespace, packed: PackedTokens) -> Iterator[CachedPage]:
        """Those that follow `parent`, are of the namespace, and begin with the first of these tokens."""
        first = part_of(packed, 0, 1)
        page = self._first.get(_entry(parent, namespace, packed))
        while page is not None:
            # Whoever iterates may take this one out.
            following = page.sibling
            if page.parent == parent and page.namespace == namespace and page.packed.startswith(first):
                yield page
            page = following

    def of_page(self, page: CachedPage) -> Iterator[CachedPage]:
        """The family of a page, with itself if it is in it."""
        return self.of(page.parent, page.namespace, page.packed)

    def add(self, page: CachedPage) -> None:
        entry = _entry(page.parent, page.namespace, page.packed)
        page.sibling = self._first.get(entry)
        self._first[entry] = page

    def discard(self, page: CachedPage) -> None:
        """Nothing happens where it is not here."""
        entry = _entry(page.parent, page.namespace, page.packed)
        before, member = None, self._first.get(entry)
        while member is not None and member is not page:
            before, member = member, member.sibling
        if member is None:
            return
        following, page.sibling = page.sibling, None
        if before is not None:
            before.sibling = following
        elif following is not None:
            self._first[entry] = following
        else:
            del self._first[entry]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[CachedPage]:
        for first in self._first.values():
            page: CachedPage | None = first
            while page is not None:
                yield page
                page = page.sibling


def _entry(parent: PageKey, namespace: Namespace, packed: PackedTokens) -> int:
    return hash((parent, namespace.kind.value, namespace.name, namespace.part, part_of(packed, 0, 1)))
