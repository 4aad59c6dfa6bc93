"""A page of KV that may be used again: which tokens it holds, who owns it, and in which tiers its bytes are.

One object for all tiers, so that a copy in one can never hide a longer one in another (ggml-org/llama.cpp#28276). Made and
indexed by `engine.prefix_cache`; `engine.tiers` moves its bytes. Lives in the engine thread. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NewType

from engine.page_keys import PageKey
from engine.pages import PageId
from engine.types import Namespace

if TYPE_CHECKING:
    from engine.sessions import Session

SlotId = NewType("SlotId", int)
"""A place for one page in the host's memory."""


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A place on disk: the `index`-th page of a segment file."""

    segment: str
    index: int


@dataclass(slots=True, eq=False)
class CachedPage:
    """`tokens` are 1 to PAGE_TOKENS, the `index`-th page of their chain; fewer only at the end of a session.

    `device`, `host` and `disk` are the places of its bytes; with none of them it is not indexed any more. `owners` are the
    sessions whose path it is on; with none it is kept only as long as nobody needs the place. `host_pins` counts transfers
    that read or write its host slot: while there is one the slot stays.
    """

    key: PageKey
    parent: PageKey
    namespace: Namespace
    index: int
    tokens: tuple[int, ...]
    owners: set[Session] = field(default_factory=set)
    last_used: int = 0
    """A count of uses and no time: larger is later."""
    device: PageId | None = None
    host: SlotId | None = None
    disk: StoredPage | None = None
    host_pins: int = 0

    def holds(self, namespace: Namespace, index: int, tokens: tuple[int, ...]) -> bool:
        """Whether it is what its key was looked up for: a key alone is not believed."""
        return self.tokens == tokens and self.index == index and self.namespace == namespace
