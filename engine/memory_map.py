"""What is where in memory at this moment: for the dashboard's page map and sessions, and for the counts in `/metrics`.

Used by `engine.core`, in the engine thread. It reads the books and changes nothing.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TypeVar

from engine.cached_page import CachedPage
from engine.eviction_order import page_retention
from engine.memory import Memory
from engine.scheduler import Scheduler
from engine.session import Retention, Session
from engine.snapshot import EngineSnapshot, PageState, PageStatus, TierStatus
from engine.types import Counts, EngineState, EngineStats, NamespaceKind

COUNT_EVERY_S = 1.0

_STATUSES = {(state, kind): PageStatus(state, kind) for state in PageState for kind in (None, *NamespaceKind)}

Name = TypeVar("Name", bound=StrEnum)


def snapshot(scheduler: Scheduler, memory: Memory) -> EngineSnapshot:
    """Everything there is to see."""
    pool, page_bytes = scheduler.pool, memory.tiers.record_bytes
    used = pool.num_pages - pool.num_free
    return EngineSnapshot(
        sessions=tuple(memory.sessions.status(session) for session in memory.sessions),
        prefixes=(*memory.prefixes.statuses(), *memory.unclaimed_prefixes()),
        pages=page_map(scheduler),
        device=TierStatus(used, used * page_bytes, pool.num_pages * page_bytes),
        host=memory.tiers.host,
        disk=memory.tiers.disk,
    )


class MemoryStats:
    """The part of the statistics that is about memory. While there is work it is counted now and then only."""

    def __init__(self, scheduler: Scheduler, memory: Memory) -> None:
        self._scheduler = scheduler
        self._memory = memory
        self._counted_at = float("-inf")
        self._counted = EngineStats(EngineState.LOADING)

    def at(self, now: float) -> EngineStats:
        """As of now, or of a second ago at most."""
        if now >= self._counted_at + COUNT_EVERY_S or not self._scheduler.has_work:
            self._counted_at, self._counted = now, memory_stats(self._scheduler, self._memory)
        return self._counted


def memory_stats(scheduler: Scheduler, memory: Memory) -> EngineStats:
    """The part of the statistics that is about memory, counted now."""
    tiers, counters = memory.tiers, memory.tiers.counters
    pool, page_bytes = scheduler.pool, tiers.record_bytes
    used_bytes = (pool.num_pages - pool.num_free) * page_bytes
    return EngineStats(
        EngineState.READY,
        reuse=memory.reuse,
        pages=count_pages(scheduler, memory),
        tier_bytes=(
            ("device", used_bytes, pool.num_pages * page_bytes),
            ("host", tiers.host.used_bytes, tiers.host.limit_bytes),
            ("disk", tiers.disk.used_bytes, tiers.disk.limit_bytes),
        ),
        prefix_tokens_queried_total=memory.queried_tokens,
        prefix_tokens_hit=memory.hit_tokens,
        reprefill_tokens_total=_counts(memory.sessions.misses.reprefilled_tokens),
        sessions=_counts(memory.sessions.count_by_state()),
        sessions_expired_total=memory.num_expired,
        prefixes=_counts(Counter(prefix.state for prefix in memory.prefixes)),
        restore_verify_failures_total=counters.failed_restores,
        transfers_timed_out_total=counters.timed_out,
    )


def _counts(counter: Counter[Name]) -> Counts:
    return tuple((key.value, count) for key, count in sorted(counter.items()))


def page_map(scheduler: Scheduler) -> tuple[PageStatus, ...]:
    """One entry for each page, in the order of their numbers.

    There may be a hundred thousand, and answers wait meanwhile: equal entries are one object, and free pages cost nothing.
    """
    pool, cache = scheduler.pool, scheduler.cache
    statuses = [_STATUSES[PageState.FREE, None]] * pool.num_pages
    states: dict[frozenset[Session], PageState] = {}
    for page in cache.device_pages():
        cached = cache.on_device(page)
        assert cached is not None, "it is listed by the same books"
        if (state := states.get(cached.owners)) is None:
            state = states[cached.owners] = state_of(cached)
        statuses[page] = _STATUSES[state, cached.namespace.kind]
    holders = {
        page: sequence.namespace.kind if sequence.namespace is not None else None
        for sequence in (*scheduler.running, *scheduler.restoring)
        for page in sequence.pages
    }
    for page in pool.held_pages():
        known = statuses[page].namespace
        statuses[page] = _STATUSES[PageState.RUNNING, holders.get(page) if known is None else known]
    return tuple(statuses)


def count_pages(scheduler: Scheduler, memory: Memory) -> tuple[tuple[str, str, int], ...]:
    """(tier, state, pages); a page in two tiers counts in both. It looks at no more pages than running answers and personas have:
    there may be a hundred thousand others.

    A page without an owner is on the device only: what loses its last owner leaves the index, and only what has one is parked.
    """
    pool, cache, tiers = scheduler.pool, scheduler.cache, memory.tiers
    of_prefixes = {page for prefix in memory.prefixes for page in prefix.owner.pages}
    held = {page for sequence in (*scheduler.running, *scheduler.restoring) for page in sequence.pages}
    unowned_held = sum(page is not None and not page.owners for page in map(cache.on_device, held))
    of_prefixes_in = {
        "device": sum(page.device is not None and pool.is_evictable(page.device) for page in of_prefixes),
        "host": sum(page.host is not None for page in of_prefixes),
        "disk": sum(page.disk is not None for page in of_prefixes),
    }
    cached = cache.num_unowned - unowned_held
    pages_in = {"device": pool.num_evictable - cached, "host": tiers.host.pages, "disk": tiers.disk.pages}
    counts = {("device", PageState.FREE): pool.num_free, ("device", PageState.CACHED): cached}
    counts["device", PageState.RUNNING] = pool.num_pages - pool.num_free - pool.num_evictable
    for tier, count in pages_in.items():
        counts[tier, PageState.PREFIX] = of_prefixes_in[tier]
        counts[tier, PageState.LEASED] = count - of_prefixes_in[tier]
    return tuple((tier, state.value, count) for (tier, state), count in sorted(counts.items()) if count)


def state_of(page: CachedPage) -> PageState:
    """What a page is that no answer holds now."""
    retention = page_retention(page)
    if retention is Retention.PREFIX:
        return PageState.PREFIX
    return PageState.CACHED if retention is Retention.NOBODY else PageState.LEASED
