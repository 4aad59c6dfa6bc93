"""Which pages leave the host first when others need the place, and whose are not on disk yet.

Used by `engine.prefix_cache`, which tells it of every change, and by `engine.memory`, which has pages written ahead. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.cached_page import CachedPage
from engine.errors import EngineError
from engine.eviction_order import EvictionOrder, page_retention
from engine.session import Retention, Session


class HostPages:
    """Owns the order. `unsaved` are owners of pages that came to the host, or lost their place on disk, and are only there, those
    it happened to longest ago first; of some of them that may be true no more."""

    def __init__(self) -> None:
        self._order = EvictionOrder(_is_in_host, _importance)
        self._named: list[CachedPage] = []
        self.unsaved: dict[Session, None] = {}

    def add(self, page: CachedPage) -> None:
        """The page was used, came to the host, or matters less than before. Nothing happens where it is not in the host."""
        self._order.add(page)

    def victims(self, count: int) -> list[CachedPage]:
        """Pages whose slots are needed least: first those that lose nothing by leaving, then as on the device. `take_named`
        has to follow."""
        victims: list[CachedPage] = []
        for page in self._order.take() if count > 0 else ():
            self._named.append(page)
            if not page.host_pins:
                victims.append(page)
                if len(victims) == count:
                    break
        return victims

    def take_named(self) -> list[CachedPage]:
        """The pages that were looked at as victims. Those that have stayed, because they are pinned or wanted, are in the order
        again."""
        named, self._named = self._named, []
        for page in named:
            self.add(page)
        return named

    def note_unsaved(self, pages: Iterable[CachedPage]) -> None:
        """Of these pages some may be in the host and not on disk."""
        only_here = (page for page in pages if page.host is not None and page.disk is None)
        for owner in dict.fromkeys(owner for page in only_here for owner in page.owners):
            self.unsaved.pop(owner, None)
            self.unsaved[owner] = None

    def check_integrity(self, pages: Iterable[CachedPage]) -> None:
        """Raise EngineError unless every page in the host can be found."""
        if self._named:
            raise EngineError(f"{len(self._named)} pages were named as victims and never taken back")
        self._order.check_integrity(page for page in pages if page.host is not None)


def _is_in_host(page: CachedPage) -> bool:
    return page.host is not None


def _importance(page: CachedPage) -> int:
    is_last = page.device is None and page.disk is None
    return is_last * len(Retention) + page_retention(page)
