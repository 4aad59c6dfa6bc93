"""What goes into the disk's tier, what is asked of it, and what a restart finds there: plain values.

Made and read by `engine.tiers.disk_store` and those who call it. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from engine.cached_page import StoredPage
from engine.packed_tokens import PackedTokens
from engine.page_keys import PageKey
from engine.types import SessionKey


@dataclass(frozen=True, slots=True)
class PageContent:
    """What a page is. Its record, the bytes of keys and values, is given beside it."""

    key: PageKey
    parent: PageKey
    index: int
    packed: PackedTokens


class WantedPage(NamedTuple):
    """A page to be read: its place in the file, and what must be found there."""

    place: int
    key: PageKey
    packed: PackedTokens


class FoundPage(NamedTuple):
    """A page that a restart finds again."""

    content: PageContent
    stored: StoredPage


@dataclass(slots=True)
class FoundSession:
    """What a restart finds of one session, and how long ago any of it was used."""

    key: SessionKey
    idle_s: float
    pages: list[FoundPage] = field(default_factory=list)


@dataclass(slots=True)
class DiskCounters:
    """What happened since the start, in pages or files.

    `foreign` files are of another model, secret or version; `unfinished` are those a crash left half-written. `too_large` are
    those that had no room even if everything evictable went.
    """

    written_pages: int = 0
    read_pages: int = 0
    damaged: int = 0
    foreign: int = 0
    unfinished: int = 0
    expired: int = 0
    evicted: int = 0
    too_large: int = 0
    write_failures: int = 0
    read_failures: int = 0
