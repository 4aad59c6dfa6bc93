"""A page of KV that may be used again: which tokens it holds, who owns it, and in which tiers its bytes are.

One object for all tiers, so that a copy in one can never hide a longer one in another (ggml-org/llama.cpp#28276). Made and
indexed by `engine.prefix_cache`; `engine.tiers` moves its bytes. Lives in the engine thread. Pure.

There is one for every page in any tier, so it is small: `engine.memory_budget` says how much it and the books about it may take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NewType

from engine.packed_tokens import PackedTokens, count_tokens, unpack_tokens
from engine.page_keys import PageKey
from engine.pages import PageId
from engine.types import Namespace

if TYPE_CHECKING:
    from engine.sessions import Session

SlotId = NewType("SlotId", int)
"""A place for one page in the host's memory."""

NOBODY: Final[frozenset[Session]] = frozenset()


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A place on disk: the `index`-th page of a segment file."""

    segment: str
    index: int


@dataclass(slots=True, eq=False)
class CachedPage:
    """`packed` are its tokens, 1 to PAGE_TOKENS, the `index`-th page of their chain; fewer only at the end of a session.

    `device`, `host` and `disk` are the places of its bytes; with none of them it is not indexed any more. `owners` are the
    sessions whose path it is on; with none it is kept only as long as nobody needs the place. Pages of one owner have the
    same set, his `alone`. `host_pins` counts transfers that read or write its host slot: while there is one the slot stays.
    """

    key: PageKey
    parent: PageKey
    namespace: Namespace
    index: int
    packed: PackedTokens
    owners: frozenset[Session] = NOBODY
    last_used: int = 0
    """A count of uses and no time: larger is later."""
    device: PageId | None = None
    host: SlotId | None = None
    disk: StoredPage | None = None
    host_pins: int = 0
    sibling: CachedPage | None = None
    """The next one of its family: for `engine.page_families` alone."""

    @property
    def tokens(self) -> tuple[int, ...]:
        return unpack_tokens(self.packed)

    @property
    def num_tokens(self) -> int:
        return count_tokens(self.packed)

    def holds(self, namespace: Namespace, index: int, packed: PackedTokens) -> bool:
        """Whether it is what its key was looked up for: a key alone is not believed."""
        # Mostly the namespace is the same object, and comparing two takes longer than all the rest.
        is_theirs = self.namespace is namespace or self.namespace == namespace
        return self.packed == packed and self.index == index and is_theirs
