"""Restores: the bytes of pages on their way back to the device, a bounded part of them in each step of the engine.

Used by `engine.tiers.tiers` in the engine thread. Only this thread writes to the device: the disk is read into a
buffer that belongs to the job, so what comes late can never touch a page that is somebody else's by then
(ggml-org/llama.cpp#27148).

    items     [ device | host host host | disk disk disk disk | disk ]      filled from the left, copied in order
    reads                               [     one job         ] [ .. ]      at most MAX_READS at a time, over all restores
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import torch

from engine.cached_page import CachedPage
from engine.kv_cache import KVCache
from engine.pages import PageId
from engine.tiers.disk_content import WantedPage
from engine.tiers.disk_store import DiskStore
from engine.tiers.host_memory import HostMemory, HostPin
from engine.tiers.rate import Rate
from engine.tiers.transfers import Job, Transfers

READ_BYTES: Final = 4 << 20
"""A read of the disk: large enough that its fixed cost is small, small enough that the first pages come soon."""

MAX_READS: Final = 4
"""Reads that are asked for, or read and not yet copied: what restores from disk cost in memory, whatever their number. Each has
a buffer, and a read that was too late leaves its own behind."""


Buffer = np.ndarray[tuple[int], np.dtype[np.uint8]]


@dataclass(frozen=True, slots=True)
class RestoreItem:
    """Fill the device page `target`, which the caller holds, with what `source` holds. If that is on the device, the caller
    holds it there too until the restore has ended."""

    source: CachedPage
    target: PageId


@dataclass(frozen=True, slots=True)
class _Fetched:
    buffer: Buffer
    num_pages: int
    seconds: float


@dataclass(slots=True, eq=False)
class _Read:
    """The items `first` to `end` of a restore, from one file. `fetched` and not `is_over`: its bytes wait to be copied."""

    segment: str
    first: int
    wanted: list[WantedPage] = field(default_factory=list)
    job: Job[_Fetched] | None = None
    fetched: _Fetched | None = None
    is_over: bool = False

    @property
    def end(self) -> int:
        return self.first + len(self.wanted)


_Source = PageId | HostPin | _Read | None
"""Where an item's bytes are: a device page, a pinned slot, a read of the disk, or nowhere any more."""


class Restore:
    """One request's pages. `done_pages` are how many of them, from the first on, are filled; once it `has_ended` no more come."""

    def __init__(self, items: Sequence[RestoreItem], deadline: float) -> None:
        self.items = tuple(items)
        self.deadline = deadline
        self.done_pages = 0
        self.has_ended = False
        self.sources: list[_Source] = []

    @property
    def is_complete(self) -> bool:
        return self.done_pages == len(self.items)


class Restores:
    """Owns every restore between `begin` and its end."""

    def __init__(
        self,
        cache: KVCache,
        host: HostMemory | None,
        disk: DiskStore | None,
        transfers: Transfers,
        clock: Callable[[], float],
    ) -> None:
        self._cache = cache
        self._host = host
        self._disk = disk
        self._transfers = transfers
        self._clock = clock
        self._record_bytes = KVCache.bytes_per_page(cache.spec)
        self._pages_a_read = max(1, READ_BYTES // self._record_bytes)
        self._buffers: list[Buffer] = []
        self._active: list[Restore] = []
        self._num_reads = 0
        self.host_rate = Rate()
        self.disk_rate = Rate()
        self.num_host_pages = 0
        self.num_disk_pages = 0
        self.num_failed = 0
        self.num_timed_out = 0

    def __len__(self) -> int:
        return len(self._active)

    def begin(self, items: Sequence[RestoreItem]) -> Restore:
        """Start to fill these pages; `work` goes on with it. What has to be read is asked for now."""
        restore = Restore(items, self._clock() + self._transfers.timeout_s)
        for index, item in enumerate(items):
            restore.sources.append(self._source_of(item.source, index, restore.sources[-1] if index else None))
        self._active.append(restore)
        self._ask()
        return restore

    def work(self, budget_bytes: int | None) -> list[Restore]:
        """Copy what is there, up to about `budget_bytes` and at least one page; the restores that have ended by it."""
        budget_pages = len_all(self._active) if budget_bytes is None else max(1, budget_bytes // self._record_bytes)
        ended = []
        for restore in list(self._active):
            budget_pages -= self._advance(restore, budget_pages)
            if restore.has_ended:
                self._release(restore)
                ended.append(restore)
        self._ask()
        return ended

    def abandon(self, restore: Restore) -> None:
        """Its request is gone: nothing is written to its pages from now on. Nothing happens where it has ended."""
        if not restore.has_ended:
            restore.has_ended = True
            self._release(restore)
            self._ask()

    def next_deadline(self) -> float | None:
        """When `work` has something to do even if nothing arrives: now, unless all that is left waits for the disk."""
        return min((restore.deadline if _waits(restore) else self._clock() for restore in self._active), default=None)

    # --- parts -------------------------------------------------------------------------------------------------------

    def _source_of(self, page: CachedPage, index: int, before: _Source) -> _Source:
        if page.device is not None:
            return page.device
        if page.host is not None and self._host is not None:
            return HostPin(self._host, page, page.host)
        if page.disk is None or self._disk is None:
            return None
        read = before
        is_full = isinstance(read, _Read) and len(read.wanted) == self._pages_a_read
        if not isinstance(read, _Read) or read.segment != page.disk.segment or is_full:
            read = _Read(page.disk.segment, index)
        read.wanted.append(WantedPage(page.disk.index, page.key, page.packed))
        return read

    def _advance(self, restore: Restore, budget_pages: int) -> int:
        """Copy up to so many pages of one restore; how many it were."""
        start = restore.done_pages
        while budget_pages > 0 and not restore.is_complete and not restore.has_ended:
            source = restore.sources[restore.done_pages]
            if source is None:
                self.num_failed += 1
                restore.has_ended = True
                break
            if isinstance(source, HostPin):
                copied = self._copy_from_host(restore, budget_pages)
            elif isinstance(source, _Read):
                copied = self._copy_from_disk(restore, source, budget_pages)
                if not copied:
                    break
            else:
                self._cache.copy_page(source, restore.items[restore.done_pages].target)
                copied = 1
            restore.done_pages += copied
            budget_pages -= copied
        restore.has_ended = restore.has_ended or restore.is_complete
        if not restore.has_ended and _waits(restore) and self._clock() >= restore.deadline:
            self.num_timed_out += 1
            restore.has_ended = True
        return restore.done_pages - start

    def _copy_from_host(self, restore: Restore, budget_pages: int) -> int:
        pins: list[HostPin] = []
        for source in restore.sources[restore.done_pages : restore.done_pages + budget_pages]:
            if not isinstance(source, HostPin):
                break
            pins.append(source)
        targets = [item.target for item in restore.items[restore.done_pages : restore.done_pages + len(pins)]]
        started_at = self._clock()
        pins[0].host.load([pin.slot for pin in pins], self._cache, targets)
        self.host_rate.measure(len(pins) * self._record_bytes, self._clock() - started_at)
        for pin in pins:
            pin.release()
        self.num_host_pages += len(pins)
        return len(pins)

    def _copy_from_disk(self, restore: Restore, read: _Read, budget_pages: int) -> int:
        if read.fetched is None:
            if read.is_over:
                self.num_failed += 1
                restore.has_ended = True
            return 0
        offset = restore.done_pages - read.first
        count = min(budget_pages, read.fetched.num_pages - offset)
        if count:
            records = torch.from_numpy(read.fetched.buffer).view(self._cache.spec.dtype)
            records = records.view(-1, *self._cache.storage[:, 0].shape)
            targets = [item.target for item in restore.items[restore.done_pages : restore.done_pages + count]]
            self._cache.copy_in(records, range(offset, offset + count), targets)
            self.num_disk_pages += count
        if offset + count == read.fetched.num_pages:
            if read.fetched.num_pages < len(read.wanted):
                self.num_failed += 1
                restore.has_ended = True
            self._let_go(read)
        return count

    def _ask(self) -> None:
        """Ask for the next reads, oldest restore first, as far as the window reaches."""
        if self._disk is None:
            return
        for restore in self._active:
            for read in _reads(restore):
                if read.job is not None or read.is_over:
                    continue
                if self._num_reads == MAX_READS:
                    return
                self._num_reads += 1
                call = partial(self._read, self._disk, read.segment, tuple(read.wanted), self._new_buffer())
                read.job = Job(call, partial(self._arrived, read))
                self._transfers.reads.submit(read.job)

    def _new_buffer(self) -> Buffer:
        """Room for one read. Used ones are used again: the first touch of fresh memory costs more than reading into it."""
        return (
            self._buffers.pop() if self._buffers else np.empty(self._pages_a_read * self._record_bytes, dtype=np.uint8)
        )

    def _read(self, disk: DiskStore, segment: str, wanted: Sequence[WantedPage], buffer: Buffer) -> _Fetched:
        """Runs in the lane's thread. The buffer is its own until it is handed over, and is never used again if that is late."""
        started_at = self._clock()
        num_pages = disk.read(segment, wanted, buffer[: len(wanted) * self._record_bytes].data)
        return _Fetched(buffer, num_pages, self._clock() - started_at)

    def _arrived(self, read: _Read, fetched: _Fetched | None) -> None:
        if read.is_over:
            return
        read.fetched = fetched
        if fetched is None or not fetched.num_pages:
            self._let_go(read)
            return
        self.disk_rate.measure(fetched.num_pages * self._record_bytes, fetched.seconds)

    def _let_go(self, read: _Read) -> None:
        """Its bytes are copied, or will never come."""
        if not read.is_over:
            read.is_over = True
            if read.fetched is not None:
                self._buffers.append(read.fetched.buffer)
                read.fetched = None
            if read.job is not None:
                self._num_reads -= 1

    def _release(self, restore: Restore) -> None:
        self._active.remove(restore)
        for source in restore.sources:
            if isinstance(source, HostPin):
                source.release()
        for read in _reads(restore):
            if read.job is not None and read.fetched is None and not read.is_over:
                self._transfers.reads.cancel(read.job)
            self._let_go(read)


def len_all(restores: Sequence[Restore]) -> int:
    """Pages that these still have to fill."""
    return sum(len(restore.items) - restore.done_pages for restore in restores)


def _reads(restore: Restore) -> list[_Read]:
    reads: list[_Read] = []
    for source in restore.sources:
        if isinstance(source, _Read) and (not reads or reads[-1] is not source):
            reads.append(source)
    return reads


def _waits(restore: Restore) -> bool:
    """Whether the next item's bytes are not there yet, and may still come."""
    if restore.is_complete:
        return False
    source = restore.sources[restore.done_pages]
    return isinstance(source, _Read) and source.fetched is None and not source.is_over
