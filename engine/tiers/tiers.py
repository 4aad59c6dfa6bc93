"""The memory below the device: where pages go when they leave it, and how they come back.

Used by the engine thread (`engine.core`, and `engine.prefix_cache` through callbacks); of this folder it talks to no other class.
It moves bytes and says what has become of them; what is kept, and for whom, the index of pages decides. Nothing here waits
for the disk, and nothing that fails is an error: a page that cannot be kept or brought back is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from engine.cached_page import CachedPage
from engine.kv_cache import KVCache
from engine.snapshot import TierStatus
from engine.tiers.disk_content import DiskCounters
from engine.tiers.disk_store import DiskStore
from engine.tiers.host_memory import HostMemory
from engine.tiers.restores import Restore, RestoreItem, Restores
from engine.tiers.segment_file import namespace_folder, session_folder
from engine.tiers.stored_pages import StoredPages
from engine.tiers.transfers import Job, Transfers
from engine.tiers.writes import Writes
from engine.types import Namespace, SessionKey

HOST_PRESSURE: Final = 0.75
"""The share of the host's slots from which on pages are written to disk ahead, so that giving them up later loses nothing."""

EXPIRY_S: Final = 3600.0
"""How often files that nobody has used are looked for; each also counts as used while its session's are."""

Done = Callable[[bool], None]
"""Called in the engine thread when a deletion is over; False where it failed or its disk hangs."""


@dataclass(frozen=True, slots=True)
class TierCounters:
    """What happened since the start; pages unless they say otherwise.

    `lost_from_host` pages left the host and were nowhere else. `timed_out` counts transfers and restores that were given up,
    `failed_restores` those that ended early because bytes were gone or wrong.
    """

    parked: int = 0
    lost_from_host: int = 0
    restored_from_host: int = 0
    restored_from_disk: int = 0
    failed_restores: int = 0
    timed_out: int = 0
    failed_transfers: int = 0
    disk: DiskCounters = field(default_factory=DiskCounters)


class Tiers:
    """Owns the host slots and disk places of all pages. Without a host or a disk, what would go there is lost.

    `host_victims(n)` chooses up to n pages whose slots may be taken, none of them pinned; it takes care itself of those that
    have no place then. `write_behind(n)` chooses about n pages in the host to be written ahead, by session. `prune` is told
    of pages that have lost their place on the disk, `stored` of each that has got one.
    """

    def __init__(
        self,
        cache: KVCache,
        host: HostMemory | None,
        disk: DiskStore | None,
        transfers: Transfers,
        *,
        clock: Callable[[], float],
        host_victims: Callable[[int], Sequence[CachedPage]],
        prune: Callable[[Sequence[CachedPage]], None],
        stored: Callable[[CachedPage], None] = lambda page: None,
        write_behind: Callable[[int], Iterable[tuple[SessionKey, Sequence[CachedPage]]]] = lambda count: (),
    ) -> None:
        self.record_bytes = KVCache.bytes_per_page(cache.spec)
        self._cache = cache
        self._host = host
        self._disk = disk
        self._transfers = transfers
        self._clock = clock
        self._host_victims = host_victims
        self._prune = prune
        self._write_behind = write_behind
        self._stored = StoredPages(stored)
        self._restores = Restores(cache, self._host, disk, transfers, clock)
        self._writes = Writes(cache, self._host, disk, self._stored, transfers) if disk is not None else None
        self._next_expiry = clock() + EXPIRY_S
        self._num_parked = 0
        self._num_lost_from_host = 0

    # --- down --------------------------------------------------------------------------------------------------------

    def adopt(self, page: CachedPage) -> None:
        """A page that a restart found on the disk has been indexed; `page.disk` says where it is."""
        if page.disk is not None:
            self._stored.add(page, page.disk)

    def park(self, pages: Sequence[CachedPage]) -> None:
        """Give those of these device pages a host slot that have none, the first ones first, as far as there is room."""
        if self._host is None:
            return
        leaving = [page for page in pages if page.device is not None and page.host is None]
        if (missing := len(leaving) - self._host.num_free) > 0:
            self._make_room(missing, frozenset(pages))
        slots = self._host.allocate(len(leaving))
        parked = leaving[: len(slots)]
        devices = [page.device for page in parked if page.device is not None]
        self._host.save(self._cache, devices, slots, [page.num_tokens for page in parked])
        for page, slot in zip(parked, slots, strict=True):
            page.host = slot
        self._num_parked += len(parked)
        self._relieve_host()

    def leave_host(self, pages: Iterable[CachedPage]) -> None:
        """Give up the host slots of these. What has no place then is the caller's to remove from the index."""
        for page in pages:
            if page.host is not None and self._host is not None:
                slot, page.host = page.host, None
                self._num_lost_from_host += page.device is None and page.disk is None
                self._host.free([slot])

    def store(self, owner: SessionKey, pages: Sequence[CachedPage]) -> None:
        """Write pages of the owner's namespace to disk in the background; `poll` says when the session's are through.

        Each page then has `disk`, unless it was forgotten, has lost its other places before its turn, or could not be
        written. Pages that are there already count as used.
        """
        if self._writes is not None:
            self._writes.add(owner, pages)

    # --- up ----------------------------------------------------------------------------------------------------------

    def begin_restore(self, items: Sequence[RestoreItem]) -> Restore:
        """Start to fill device pages. The caller holds the targets, and sources that are on the device, until it has ended."""
        return self._restores.begin(items)

    def work(self, budget_bytes: int | None = None) -> list[Restore]:
        """Once per step, after `poll`: copy what has come, about so many bytes; the restores that have ended by it.

        An ended restore has filled its first `done_pages` items; the rest is to be computed.
        """
        return self._restores.work(budget_bytes)

    def abandon(self, restore: Restore) -> None:
        """The request of a restore is gone; its targets are not written to from now on."""
        self._restores.abandon(restore)

    def worth_fetching(self, pages: Iterable[CachedPage], prefill_tokens_per_s: float | None) -> bool:
        """Whether bringing these back is quicker than computing them, by the rates measured so far."""
        if not prefill_tokens_per_s:
            return True
        from_host = from_disk = num_tokens = 0
        for page in pages:
            num_tokens += page.num_tokens
            from_host += page.device is None and page.host is not None
            from_disk += page.device is None and page.host is None and page.disk is not None
        seconds = self._restores.host_rate.seconds(from_host * self.record_bytes)
        seconds += self._restores.disk_rate.seconds(from_disk * self.record_bytes)
        return seconds < num_tokens / prefill_tokens_per_s

    # --- away --------------------------------------------------------------------------------------------------------

    def forget(self, pages: Iterable[CachedPage]) -> None:
        """These have left the index. A slot that is just being read is free when that ends; a file is removed when none of its
        pages is left."""
        unneeded = []
        for page in pages:
            if page.host is not None and self._host is not None:
                slot, page.host = page.host, None
                self._host.free([slot])
            if self._writes is not None:
                self._writes.forget(page)
            if (segment := self._stored.discard(page)) is not None:
                unneeded.append(segment)
        if self._writes is not None:
            self._writes.discard(unneeded)

    def delete_session(self, key: SessionKey, done: Done) -> None:
        """Remove every file of a session, of other models and half-written ones too; `done` follows, at once or in a `poll`.

        The index has given up its pages before; of those it still has some lose their place on the disk, and are pruned.
        """
        if self._disk is not None:
            call = partial(self._disk.delete_session, key)
            self._delete(lambda session: session == key, session_folder(key), call, done)
        else:
            done(True)

    def delete_namespace(self, namespace: Namespace, done: Done) -> None:
        """Remove every file of a user, in all parts of the namespace: like `delete_session`."""
        if self._disk is not None:
            whose = namespace_folder(namespace)
            call = partial(self._disk.delete_namespace, namespace)
            self._delete(lambda session: namespace_folder(session.namespace) == whose, whose, call, done)
        else:
            done(True)

    def _delete(
        self, is_gone: Callable[[SessionKey], bool], folder: Path, call: Callable[[], None], done: Done
    ) -> None:
        # First what is on its way: a write that the lane begins after the deletion must know that it is not wanted.
        if self._writes is not None:
            self._writes.cancel(is_gone)
            self._writes.hold(is_gone)

        def delete() -> bool:
            call()
            return True

        def deleted(result: bool | None) -> None:
            if self._writes is not None:
                self._writes.release(is_gone)
            done(bool(result))

        self._transfers.deletions.submit(Job(delete, deleted))
        self._prune(self._stored.lose_folder(folder))

    # --- every step --------------------------------------------------------------------------------------------------

    @property
    def has_transfers(self) -> bool:
        """Whether anything is on its way, so that `poll` and `work` will have something to do."""
        is_writing = self._writes is not None and self._writes.is_busy
        return is_writing or len(self._restores) > 0 or self._transfers.num_jobs > 0

    def poll(self) -> list[SessionKey]:
        """Take in what the threads have done; the sessions whose `store` is through, whatever became of it. Never waits."""
        self._transfers.poll()
        ended: list[SessionKey] = []
        if self._disk is not None:
            self._prune([page for name in self._disk.take_gone() for page in self._stored.lose(name)])
            if self._clock() >= self._next_expiry:
                self._next_expiry = self._clock() + EXPIRY_S
                self._transfers.deletions.submit(Job(self._disk.delete_expired, lambda result: None))
        if self._writes is not None:
            self._writes.release_copied()
            self._writes.begin()
            ended = self._writes.take_ended()
        return ended

    def next_deadline(self) -> float | None:
        """When `poll` and `work` should be called even if nothing wakes the engine thread: now, if there is something to copy."""
        deadlines = [self._transfers.next_deadline(), self._restores.next_deadline()]
        if self._disk is not None:
            deadlines.append(self._next_expiry)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def save(self, sessions: Iterable[tuple[SessionKey, Sequence[CachedPage]]], deadline: float) -> None:
        """At a stop: write these to disk in this order, and wait for that, until the deadline at most."""
        if self._writes is None:
            return
        for owner, pages in sessions:
            self._writes.add(owner, pages)
        while self._writes.is_busy and self._clock() < deadline:
            self._writes.wait()
            self.poll()
        self._writes.cancel(lambda session: True)
        self.poll()

    def close(self) -> None:
        """End the threads. Files that are half-written stay so, and are removed by the next start."""
        self._transfers.close()

    # --- numbers -----------------------------------------------------------------------------------------------------

    @property
    def host(self) -> TierStatus:
        if self._host is None:
            return TierStatus()
        return TierStatus(self._host.num_used, self._host.used_bytes, self._host.limit_bytes)

    @property
    def disk(self) -> TierStatus:
        """The pages that can be found again; the bytes are those of all files."""
        if self._disk is None:
            return TierStatus()
        return TierStatus(self._stored.num_pages, self._disk.used_bytes, self._disk.limit_bytes)

    @property
    def host_bytes_per_s(self) -> float | None:
        """How quick restores from the host are, None before the first."""
        return self._restores.host_rate.bytes_per_s

    @property
    def disk_bytes_per_s(self) -> float | None:
        """How quick reads of the disk are, checked and all; None before the first."""
        return self._restores.disk_rate.bytes_per_s

    @property
    def counters(self) -> TierCounters:
        return TierCounters(
            parked=self._num_parked,
            lost_from_host=self._num_lost_from_host,
            restored_from_host=self._restores.num_host_pages,
            restored_from_disk=self._restores.num_disk_pages,
            failed_restores=self._restores.num_failed,
            timed_out=self._restores.num_timed_out + self._transfers.num_timed_out,
            failed_transfers=self._transfers.num_failed,
            disk=self._disk.counters_now() if self._disk is not None else DiskCounters(),
        )

    def check_integrity(self, pages: Iterable[CachedPage]) -> None:
        """At idle: raise unless the slots and files in the books are exactly those of `pages`, all there are."""
        pages = list(pages)
        if self._host is not None:
            self._host.check_integrity(page.host for page in pages if page.host is not None)
        self._stored.check_integrity(page for page in pages if page.disk is not None)

    # --- parts -------------------------------------------------------------------------------------------------------

    def _make_room(self, count: int, staying: frozenset[CachedPage]) -> None:
        """Have the index give up so many slots; what is not on disk is lost by it."""
        self.leave_host(
            page
            for page in self._host_victims(count)
            if page.host is not None and not page.host_pins and page not in staying
        )

    def _relieve_host(self) -> None:
        if self._host is None or self._writes is None or self._writes.is_busy:
            return
        excess = self._host.num_used - int(self._host.num_slots * HOST_PRESSURE)
        if excess > 0:
            for owner, pages in self._write_behind(excess):
                self._writes.add(owner, pages)
