"""How a sequence leaves the queue: which of its pages have to be brought, and where all that it need not compute came from.

Made by `engine.scheduler`, carried out by `engine.memory`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.cached_page import CachedPage
from engine.pages import PageId
from engine.sequence import Sequence
from engine.types import CachedFrom, NamespaceKind


@dataclass(frozen=True, slots=True)
class Missing:
    """A page of a sequence whose bytes have to be brought: `tokens` of `source` go to `target`, the `index`-th of its pages."""

    source: CachedPage
    target: PageId
    index: int
    tokens: int
    held: PageId | None
    """The device page that is copied; held so that nobody evicts it meanwhile."""


@dataclass(frozen=True, slots=True)
class Admission:
    """A sequence that has left the queue, and the pages it waits for; with none it runs in the next plan."""

    sequence: Sequence
    missing: tuple[Missing, ...]


@dataclass(frozen=True, slots=True)
class Restoring:
    """What a sequence waits for. `origins`: for each of its pages that are not computed, where it came from and its tokens."""

    missing: tuple[Missing, ...]
    origins: list[tuple[str, int]]


def origin(page: CachedPage) -> str:
    """The field of `CachedFrom` that counts a page."""
    if page.namespace.kind is NamespaceKind.PUBLIC:
        return "prefix"
    if page.device is not None:
        return "device"
    return "disk" if page.host is None else "host"


def counted(origins: Iterable[tuple[str, int]], num_tokens: int) -> CachedFrom:
    """How many of the first `num_tokens` tokens came from where."""
    counts: dict[str, int] = {}
    for origin, tokens in origins:
        taken = min(tokens, num_tokens)
        counts[origin] = counts.get(origin, 0) + taken
        num_tokens -= taken
    return CachedFrom(**counts)
