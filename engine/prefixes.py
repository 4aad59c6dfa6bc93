"""What conversations of a persona begin with: ids whose KV is computed ahead, kept within a budget, and shared by everybody.

Used by `engine.core` in the engine thread: it builds what `next_to_build` says, as a request of the public namespace, and lets
go of the pages of every owner it is handed. Ids come from the server's own template, never from a user. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from engine.common_length import common_length
from engine.pages import PagesCorrupt, pages_for
from engine.session import Session
from engine.snapshot import PrefixState, PrefixStatus
from engine.types import NamespaceKind

MAX_VAIN_BUILDS: Final = 3
"""A step that failed by accident is no reason to give up, and a pool that is too small is noticed soon."""

DEFAULT_OPENING: Final = ""
"""The prefix that belongs to no persona: what the model's template says before the first word of a user. It is used for requests
that name none."""


@dataclass(slots=True, eq=False)
class Prefix:
    """One persona's prefix. `owner` has its pages, in the public namespace; a COLD one has none.

    `source` says where the KV came from, `computed` or `disk`, None before it was ready.
    """

    name: str
    ids: tuple[int, ...]
    owner: Session
    state: PrefixState = PrefixState.COLD
    source: str | None = None
    last_used: int = 0
    """A count of uses and no time: larger is later."""
    num_vain_builds: int = 0
    """Builds since its last use that failed or whose pages have vanished."""

    is_hopeless: bool = False
    """It does not fit into the model's context, or into memory, whatever happens."""

    @property
    def is_given_up(self) -> bool:
        """Whether it is left alone until somebody uses it: building it again and again would hold up whoever waits."""
        return self.is_hopeless or self.num_vain_builds > MAX_VAIN_BUILDS

    @property
    def num_pages(self) -> int:
        """Pages it holds when it is whole, the one that is not full included."""
        return pages_for(len(self.ids))


class Prefixes:
    """Owns every registered prefix and the budget: those BUILDING and READY together have at most `budget_pages`.

        register ─fits─→ BUILDING ─built→ READY ─lost→ BUILDING      a few times, then COLD until it is used
           └─does not──→ COLD ─room→ BUILDING       READY ─room for a new one→ COLD

    A new one makes room by sending READY ones away, the least recently used first, but only if that is enough. One in use is
    not preferred over one that is kept already: two that are used in turns and do not fit together would send each other away.
    """

    def __init__(self, budget_pages: int) -> None:
        self._budget_pages = budget_pages
        self._prefixes: dict[str, Prefix] = {}
        self._uses = 0

    def __iter__(self) -> Iterator[Prefix]:
        return iter(tuple(self._prefixes.values()))

    def __len__(self) -> int:
        return len(self._prefixes)

    def get(self, name: str) -> Prefix | None:
        return self._prefixes.get(name)

    @property
    def pages_promised(self) -> int:
        """Pages of the budget that are taken."""
        return sum(prefix.num_pages for prefix in self._prefixes.values() if prefix.state is not PrefixState.COLD)

    def register(self, name: str, ids: Sequence[int]) -> list[Session]:
        """Take a prefix, in place of the one with this name. Returns the owners that have to let go of their pages.

        The same ids again change nothing.
        """
        old = self._prefixes.get(name)
        if old is not None and old.ids == tuple(ids):
            return []
        releasing = [old.owner] if old is not None else []
        prefix = self._prefixes[name] = Prefix(name, tuple(ids), Session.of_prefix(name))
        self.use(name)
        releasing += self._make_room(prefix)
        self._fill_room()
        return releasing

    def drop(self, name: str) -> list[Session]:
        """Forget a prefix. Returns the owners that have to let go of their pages; an unknown name has none."""
        prefix = self._prefixes.pop(name, None)
        if prefix is None:
            return []
        self._fill_room()
        return [prefix.owner]

    def use(self, name: str) -> None:
        """A request names it. An unknown name is ignored."""
        prefix = self._prefixes.get(name)
        if prefix is not None:
            self._uses += 1
            prefix.last_used = self._uses
            prefix.num_vain_builds = 0
            self._fill_room()

    def next_to_build(self) -> Prefix | None:
        """The one that is waited for most: of those BUILDING the most recently used."""
        building = [prefix for prefix in self._prefixes.values() if prefix.state is PrefixState.BUILDING]
        return max(building, key=lambda prefix: prefix.last_used, default=None)

    def built(self, prefix: Prefix, source: str) -> bool:
        """Its pages are there. False where it was replaced, dropped or sent away meanwhile: its owner has to let go."""
        if self._prefixes.get(prefix.name) is not prefix or prefix.state is not PrefixState.BUILDING:
            return False
        prefix.state = PrefixState.READY
        prefix.source = source
        return True

    def failed(self, prefix: Prefix, *, is_hopeless: bool = False) -> list[Session]:
        """It could not be built, or never can. Returns the owners that have to let go of their pages."""
        prefix.is_hopeless = is_hopeless
        self._build_again(prefix)
        return [prefix.owner]

    def lost(self) -> list[Session]:
        """Look for those READY whose pages have vanished, some or all. Returns the owners that have to let go of the rest."""
        lost = [
            prefix
            for prefix in self._prefixes.values()
            if prefix.state is PrefixState.READY and len(prefix.owner.pages) < prefix.num_pages
        ]
        for prefix in lost:
            self._build_again(prefix)
        return [prefix.owner for prefix in lost if prefix.state is PrefixState.COLD]

    def public_tokens(self, name: str | None, prompt_ids: Sequence[int]) -> int:
        """How many tokens of this prompt are the named prefix's own; of no persona's, the default opening's.

        Only what is registered under that very name counts, so nobody finds out what another persona is told.
        """
        prefix = self._prefixes.get(DEFAULT_OPENING if name is None else name)
        if prefix is None:
            return 0
        return common_length(prefix.ids, tuple(prompt_ids[: len(prefix.ids)]))

    def is_public(self, ids: Sequence[int]) -> bool:
        """Whether some persona that is registered now begins with these."""
        return any(prefix.ids[: len(ids)] == tuple(ids) for prefix in self._prefixes.values())

    def statuses(self) -> tuple[PrefixStatus, ...]:
        return tuple(
            PrefixStatus(prefix.name, prefix.state, len(prefix.ids), len(prefix.owner.pages), prefix.source)
            for prefix in self._prefixes.values()
        )

    def check_integrity(self) -> None:
        """Raise PagesCorrupt unless the budget is kept and every page is its owner's and public."""
        if self.pages_promised > self._budget_pages:
            raise PagesCorrupt(f"prefixes have {self.pages_promised} pages and {self._budget_pages} are allowed")
        for prefix in self._prefixes.values():
            for page in prefix.owner.pages:
                if prefix.owner not in page.owners or page.namespace.kind is not NamespaceKind.PUBLIC:
                    raise PagesCorrupt("a prefix holds a page that does not know it, or that is not public")
            if prefix.state is PrefixState.COLD and prefix.owner.pages:
                raise PagesCorrupt(f"a cold prefix holds {len(prefix.owner.pages)} pages")

    def _build_again(self, prefix: Prefix) -> None:
        prefix.num_vain_builds += 1
        if prefix.is_given_up:
            prefix.state = PrefixState.COLD
            self._fill_room()
        elif prefix.state is not PrefixState.COLD:
            prefix.state = PrefixState.BUILDING

    def _make_room(self, wanted: Prefix) -> list[Session]:
        missing = self.pages_promised + wanted.num_pages - self._budget_pages
        ready = sorted(
            (prefix for prefix in self._prefixes.values() if prefix.state is PrefixState.READY),
            key=lambda prefix: prefix.last_used,
        )
        if not wanted.ids or missing > sum(prefix.num_pages for prefix in ready):
            return []
        releasing = []
        for prefix in ready:
            if missing <= 0:
                break
            missing -= prefix.num_pages
            prefix.state = PrefixState.COLD
            releasing.append(prefix.owner)
        wanted.state = PrefixState.BUILDING
        return releasing

    def _fill_room(self) -> None:
        """Room that was left goes to those COLD, the most recently used first."""
        cold = [
            prefix
            for prefix in self._prefixes.values()
            if prefix.state is PrefixState.COLD and prefix.ids and not prefix.is_given_up
        ]
        for prefix in sorted(cold, key=lambda prefix: -prefix.last_used):
            if self.pages_promised + prefix.num_pages <= self._budget_pages:
                prefix.state = PrefixState.BUILDING
