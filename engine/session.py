"""One session: a lease on the pages of one conversation, or the owner of a persona's prefix.

Made by `engine.sessions` and `engine.prefixes`, put into `CachedPage.owners` by `engine.prefix_cache`. Lives in the engine
thread. Pure.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from engine.cached_page import CachedPage
from engine.common_length import common_length
from engine.config import PAGE_TOKENS
from engine.page_keys import PageKey
from engine.snapshot import SessionState
from engine.types import Namespace, NamespaceKind, Priority, SessionKey

TIERS: Final = (SessionState.DEVICE, SessionState.HOST, SessionState.DISK)


class Retention(IntEnum):
    """Which pages leave first when room is needed: the smaller. A page counts as the best of its owners."""

    NOBODY = 0
    BACKGROUND = 1
    BOT = 2
    INTERACTIVE = 3
    PREFIX = 4


_RETENTION: Final = {
    Priority.BACKGROUND: Retention.BACKGROUND,
    Priority.BOT: Retention.BOT,
    Priority.INTERACTIVE: Retention.INTERACTIVE,
}


@dataclass(slots=True, eq=False)
class Session:
    """One lease: what was committed, and the pages on its path. `engine.sessions.Sessions` alone changes state and times.

    `tokens` are those whose KV was computed when a turn ended; after a restart only their number is known until the next
    turn. `state` None means gone. In the public namespace it is the owner of a persona's prefix, and no timer runs.
    Invariant: a page is in `pages` exactly when this session is among its `owners`.
    """

    key: SessionKey
    priority: Priority = Priority.INTERACTIVE
    state: SessionState | None = None
    tokens: array[int] = field(default_factory=lambda: array("I"))
    num_tokens: int = 0
    page_keys: list[PageKey] = field(default_factory=list)
    """Keys of the whole pages of `tokens`, so that the next turn does not make them anew."""
    public_tokens: int = 0
    """How many of `tokens` are a persona's in these keys."""
    pages: set[CachedPage] = field(default_factory=set)
    alone: frozenset[Session] = field(init=False)
    """What the owners of a page are that nobody else owns: one set for all of them."""
    running: int = 0
    """Turns being answered or waiting; ACTIVE is exactly when there are any."""
    turns: int = 0
    last_turn_at: float = 0.0
    idle_since: float = 0.0
    """What timers count from: the last turn, later by the time the session was held."""
    held_at: float | None = None
    cached_tokens: int = 0
    ttft_ms: float | None = None
    leaving_to: SessionState | None = None
    is_leaving: bool = False
    """A demotion to `leaving_to` was handed out and has not been reported done."""

    def __post_init__(self) -> None:
        self.alone = frozenset((self,))

    @classmethod
    def of_prefix(cls, name: str) -> Session:
        """The owner of a persona's prefix, which no timer moves."""
        return cls(SessionKey(Namespace.public(), name), state=SessionState.DEVICE)

    def known_keys(self, tokens: Sequence[int], public_tokens: int) -> list[PageKey]:
        """Keys of the first whole pages of a prompt, as far as it begins like what was committed."""
        if public_tokens != self.public_tokens or not self.page_keys:
            return []
        common = common_length(self.tokens, array("I", tokens))
        return self.page_keys[: common // PAGE_TOKENS]

    @property
    def retention(self) -> Retention:
        if self.key.namespace.kind is NamespaceKind.PUBLIC:
            return Retention.PREFIX
        return _RETENTION[self.priority]

    @property
    def is_held(self) -> bool:
        return self.held_at is not None

    def pages_leaving(self, to: SessionState | None) -> list[CachedPage]:
        """Its pages that no other owner wants in a better tier than `to`, from the beginning on: without one those behind it
        are of no use."""
        leaving = [
            page
            for page in self.pages
            if all(
                owner is self or (owner.retention is not Retention.PREFIX and rank(owner.state) >= rank(to))
                for owner in page.owners
            )
        ]
        return sorted(leaving, key=_by_index)


def rank(state: SessionState | None) -> int:
    """How far down a state is; ACTIVE counts as on the device, None as below everything."""
    if state is None:
        return len(TIERS)
    return 0 if state is SessionState.ACTIVE else TIERS.index(state)


def _by_index(page: CachedPage) -> int:
    return page.index
