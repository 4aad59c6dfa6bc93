"""The fake engine with a crowd: as many live sessions as one likes, and memory that is in use, for whoever looks at them.

What the crowd has never changes by itself, except that its timers run and that evicting and dropping work.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engine.snapshot import (
    EngineSnapshot,
    PagesByTier,
    PageState,
    PageStatus,
    SessionState,
    SessionStatus,
    TierStatus,
)
from engine.types import CachedFrom, EngineStats, Namespace, NamespaceKind, Priority, SessionKey
from tests.support.fake_engine import FakeEngine

STATES = (SessionState.ACTIVE, SessionState.DEVICE, SessionState.DEVICE, SessionState.HOST, SessionState.DISK)
NEXT = {SessionState.DEVICE: SessionState.HOST, SessionState.HOST: SessionState.DISK}
PAGES = 3000
PAGE_BYTES = 368_640


class CrowdedEngine(FakeEngine):
    """`user_ids` are whose sessions they are, in turns."""

    def __init__(self, sessions: int, user_ids: Sequence[str], **given: Any) -> None:
        super().__init__(**given)
        self._began_s = time.monotonic()
        self._crowd = {status.key: status for status in (_session(number, user_ids) for number in range(sessions))}

    async def snapshot(self) -> EngineSnapshot:
        """See `EngineClient`."""
        alone = await super().snapshot()
        age_s = time.monotonic() - self._began_s
        crowd = tuple(
            replace(
                status,
                idle_s=status.idle_s + age_s,
                seconds_to_timeout=None
                if status.seconds_to_timeout is None
                else max(0.0, status.seconds_to_timeout - age_s),
            )
            for status in self._crowd.values()
        )
        return replace(
            alone,
            sessions=(*alone.sessions, *crowd),
            pages=_pages(len(self._crowd)),
            device=TierStatus(PAGES // 2, PAGES // 2 * PAGE_BYTES, PAGES * PAGE_BYTES),
        )

    async def evict_session(self, key: SessionKey) -> bool:
        """See `EngineClient`."""
        if (status := self._crowd.get(key)) is None:
            return await super().evict_session(key)
        if (tier := NEXT.get(status.state)) is None:
            return self._crowd.pop(key, None) is not None
        self._crowd[key] = replace(status, state=tier)
        return True

    async def drop_session(self, key: SessionKey) -> bool:
        """See `EngineClient`."""
        return self._crowd.pop(key, None) is not None or await super().drop_session(key)

    def stats(self) -> EngineStats:
        """See `EngineClient`."""
        stats = super().stats()
        queried = 10_000 + stats.prefilled_tokens_total + int(300 * (time.monotonic() - self._began_s))
        return replace(
            stats,
            prefix_tokens_queried_total=queried,
            prefix_tokens_hit=CachedFrom(queried // 2, queried // 10, queried // 20, queried // 8),
            pages=(("host", "leased", 700), ("disk", "leased", 1200), ("disk", "prefix", 24)),
            tier_bytes=(
                ("device", PAGES // 2 * PAGE_BYTES, PAGES * PAGE_BYTES),
                ("host", 700 * PAGE_BYTES, 1400 * PAGE_BYTES),
                ("disk", 1224 * PAGE_BYTES, 11_650 * PAGE_BYTES),
            ),
            sessions=tuple((state.value, len(self._crowd) // len(SessionState)) for state in SessionState),
            threads=2,
        )


def _session(number: int, user_ids: Sequence[str]) -> SessionStatus:
    state = STATES[number % len(STATES)]
    tokens = 90 + number * 37 % 3900
    pages = -(-tokens // 16)
    # End customers of API keys: sessions of conversations that do not exist would be forgotten at the start.
    part = f"customer-{number}"
    return SessionStatus(
        SessionKey(Namespace.user(user_ids[number % len(user_ids)], part), f"talk-{number}"),
        state,
        Priority.INTERACTIVE if number % 7 else Priority.BOT,
        1 + number % 12,
        tokens,
        PagesByTier(
            device=pages if state in (SessionState.ACTIVE, SessionState.DEVICE) else 0,
            host=pages if state is SessionState.HOST else 0,
            disk=pages if state is SessionState.DISK else 0,
        ),
        tokens * 9 // 10,
        8.0 + number * 13 % 240,
        0.0 if state is SessionState.ACTIVE else 1.0 + number * 7 % 280,
        None if state is SessionState.ACTIVE else 30.0 + number * 11 % 3000,
    )


def _pages(sessions: int) -> tuple[PageStatus, ...]:
    """A third free, the rest in pieces as sessions leave them behind."""
    pages = [PageStatus(PageState.PREFIX, NamespaceKind.PUBLIC)] * 40
    pages += [PageStatus(PageState.RUNNING, NamespaceKind.PUBLIC)] * 12
    kinds = (PageState.LEASED, PageState.RUNNING, PageState.LEASED, PageState.CACHED, PageState.LEASED, PageState.FREE)
    for number in range(sessions):
        kind = kinds[number % len(kinds)]
        namespace = None if kind is PageState.FREE else NamespaceKind.USER
        pages += [PageStatus(kind, namespace)] * (1 + number * 7 % 19)
    return (*pages, *[PageStatus(PageState.FREE, None)] * max(0, PAGES - len(pages)))[:PAGES]
