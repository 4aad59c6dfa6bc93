"""Every page of the device in a short text, for a picture of them: `1200f3r2L` is 1,200 free ones, three that run, two leased.

One letter per run of equal pages, in their order, and the length of the run in front of it where it is more than one. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from engine.snapshot import PageState, PageStatus
from engine.types import NamespaceKind

LETTERS: dict[PageState, str] = {
    PageState.FREE: "f",
    PageState.RUNNING: "r",
    PageState.LEASED: "l",
    PageState.PREFIX: "p",
    PageState.CACHED: "c",
}
"""Small letters for pages of people, capitals for those of the public namespace."""


def page_map(pages: Iterable[PageStatus]) -> str:
    """At most as many letters as there are pages, and mostly far fewer."""
    runs = ((letter, sum(1 for _ in run)) for letter, run in groupby(map(_letter, pages)))
    return "".join(letter if length == 1 else f"{length}{letter}" for letter, length in runs)


def _letter(page: PageStatus) -> str:
    letter = LETTERS[page.state]
    return letter.upper() if page.namespace is NamespaceKind.PUBLIC else letter
