"""Writes: pages on their way to the disk, in the background, a file's worth at a time.

Used by `engine.tiers.tiers` in the engine thread. Pages that wait hold nothing: whoever needs their slot or device page takes
it, and then they are not written. When their turn comes those on the device are copied at once, and those in a slot by the
lane, which keeps the slot pinned only for that: the disk itself is never given memory that is used for anything else.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import torch

from engine.cached_page import CachedPage, SlotId, StoredPage
from engine.kv_cache import KVCache, clear_after
from engine.pages import PageId
from engine.tiers.disk_content import PageContent
from engine.tiers.disk_store import DiskStore
from engine.tiers.host_memory import HostMemory, HostPin
from engine.tiers.stored_pages import StoredPages
from engine.tiers.transfers import Job, Transfers
from engine.types import SessionKey

SEGMENT_BYTES: Final = 8 << 20
"""Bytes of a file: large enough for the disk's full speed, small enough that a lost one is no great loss."""

MAX_IN_FLIGHT: Final = 2
"""Files being written, so that the lane has the next one when it ends one. Each costs a buffer."""

WAIT_S: Final = 0.05
"""How long `finish` waits before it looks at the clock again."""


Buffer = np.ndarray[tuple[int, int], np.dtype[np.uint8]]


@dataclass(slots=True, eq=False)
class _Write:
    """`is_copied`: the lane has its own copy of what was pinned. `is_over`: the result has been dealt with, or came too late."""

    session: SessionKey
    pages: list[CachedPage]
    pins: list[HostPin]
    buffer: Buffer
    is_copied: threading.Event = field(default_factory=threading.Event)
    is_over: bool = False
    job: Job[str | None] | None = None

    @property
    def is_wanted(self) -> bool:
        return self.job is not None and self.job.is_wanted

    @property
    def reads_slots(self) -> bool:
        """Whether the lane may still look at the pinned slots. One that was over before it began never will."""
        has_begun = self.job is not None and self.job.started_at is not None
        return not self.is_copied.is_set() and (has_begun or not self.is_over)


class Writes:
    """Owns what is to be written and what is being written. A page is in at most one of them."""

    def __init__(
        self,
        cache: KVCache,
        host: HostMemory | None,
        disk: DiskStore,
        stored: StoredPages,
        transfers: Transfers,
    ) -> None:
        self._cache = cache
        self._host = host
        self._disk = disk
        self._stored = stored
        self._transfers = transfers
        self._record_bytes = KVCache.bytes_per_page(cache.spec)
        self._segment_pages = max(1, SEGMENT_BYTES // self._record_bytes)
        self._waiting: deque[tuple[SessionKey, deque[CachedPage]]] = deque()
        self._wanted: set[CachedPage] = set()
        self._held: list[Callable[[SessionKey], bool]] = []
        self._in_flight: list[_Write] = []
        self._buffers: list[Buffer] = []
        self._open: Counter[SessionKey] = Counter()
        self._ended: list[SessionKey] = []

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting or self._in_flight)

    def add(self, session: SessionKey, pages: Iterable[CachedPage]) -> None:
        """Have those of these pages written that belong to the session's namespace and are not on disk yet.

        A page of another namespace, a persona's, is stored by its own session.
        """
        own = [page for page in pages if page.namespace == session.namespace]
        if used := {page.disk.segment for page in own if page.disk is not None}:
            self._transfers.writes.submit(Job(partial(self._disk.use, tuple(used)), lambda result: None))
        new = deque(page for page in own if page.disk is None and page not in self._wanted)
        self._wanted.update(new)
        self._open[session] += 1
        self._waiting.append((session, new))
        self.begin()

    def begin(self) -> None:
        """Hand the next files to the lane, if it has room for them."""
        while len(self._in_flight) < MAX_IN_FLIGHT:
            entry = next((entry for entry in self._waiting if not self._is_held(entry[0])), None)
            if entry is None:
                return
            session, pages = entry
            chosen: list[CachedPage] = []
            while pages and len(chosen) < self._segment_pages:
                page = pages.popleft()
                if page not in self._wanted:
                    continue
                if page.host is not None or page.device is not None:
                    chosen.append(page)
                else:
                    self._wanted.discard(page)
            if not pages:
                self._waiting.remove(entry)
            if chosen:
                self._open[session] += 1
                self._in_flight.append(self._write(session, chosen))
            if not pages:
                self._close(session)

    def release_copied(self) -> None:
        """Unpin the slots of which the lane has made its copy."""
        for write in self._in_flight:
            if not write.reads_slots:
                for pin in write.pins:
                    pin.release()
        self._in_flight = [write for write in self._in_flight if write.reads_slots or not write.is_over]

    def take_ended(self) -> list[SessionKey]:
        """Sessions of which nothing waits or is being written any more, whatever became of it."""
        ended, self._ended = self._ended, []
        return ended

    def forget(self, page: CachedPage) -> None:
        """Nobody will look for this page on the disk."""
        self._wanted.discard(page)

    def cancel(self, is_gone: Callable[[SessionKey], bool]) -> None:
        """Write nothing more of these sessions; what is being written will not become a file."""
        for session, pages in self._waiting:
            if is_gone(session):
                self._wanted.difference_update(pages)
        for write in self._in_flight:
            if is_gone(write.session):
                self._wanted.difference_update(write.pages)
                if write.job is not None:
                    self._transfers.writes.cancel(write.job)

    def hold(self, is_held: Callable[[SessionKey], bool]) -> None:
        """Begin no file of these sessions until `release`: their folders are being deleted, and a deletion that is slow to
        begin would take it too."""
        self._held.append(is_held)

    def release(self, is_held: Callable[[SessionKey], bool]) -> None:
        """The deletion is over, or was given up."""
        self._held.remove(is_held)

    def _is_held(self, session: SessionKey) -> bool:
        return any(is_held(session) for is_held in self._held)

    def wait(self) -> None:
        """Return when a file has ended, or after a moment."""
        self._transfers.writes.wait(WAIT_S)

    # --- parts -------------------------------------------------------------------------------------------------------

    def _write(self, session: SessionKey, pages: list[CachedPage]) -> _Write:
        # Used buffers are used again: the first touch of fresh memory costs more than copying into it.
        whole = self._buffers.pop() if self._buffers else np.empty((self._segment_pages, self._record_bytes), np.uint8)
        buffer = whole[: len(pages)]
        pins: dict[int, HostPin] = {}
        on_device: dict[int, PageId] = {}
        for place, page in enumerate(pages):
            if page.host is not None and self._host is not None:
                pins[place] = HostPin(self._host, page, page.host)
            elif page.device is not None:
                on_device[place] = page.device
        if on_device:
            records = torch.from_numpy(buffer).view(self._cache.spec.dtype)
            records = records.view(-1, *self._cache.storage[:, 0].shape)
            self._cache.copy_out(list(on_device.values()), records, list(on_device))
            num_tokens = [pages[place].num_tokens for place in on_device]
            clear_after(records, list(on_device), num_tokens, self._cache.spec)
        write = _Write(session, pages, list(pins.values()), whole)
        contents = [PageContent(page.key, page.parent, page.index, page.packed) for page in pages]
        slots = {place: pin.slot for place, pin in pins.items()}
        write.job = Job(partial(self._run, write, contents, buffer, slots), partial(self._written, write))
        self._transfers.writes.submit(write.job)
        return write

    def _run(
        self, write: _Write, contents: Sequence[PageContent], buffer: Buffer, slots: dict[int, SlotId]
    ) -> str | None:
        """Runs in the lane's thread, on a buffer that is its own."""
        try:
            if self._host is not None:
                for place, slot in slots.items():
                    buffer[place] = np.frombuffer(self._host.record(slot), dtype=np.uint8)
        finally:
            write.is_copied.set()
        name = self._disk.write(write.session, contents, [record.data for record in buffer], lambda: write.is_wanted)
        if name is not None and not write.is_wanted:
            self._disk.delete_segments([name])
            return None
        return name

    def _written(self, write: _Write, name: str | None) -> None:
        write.is_over = True
        kept = [page for page in write.pages if page in self._wanted]
        self._wanted.difference_update(kept)
        if name is not None:
            # Without a name the call may still be at work, and the buffer is left to it.
            self._buffers.append(write.buffer)
            for place, page in enumerate(write.pages):
                if page in kept:
                    self._stored.add(page, StoredPage(name, place))
            if not kept:
                self.discard([name])
        self.release_copied()
        self._close(write.session)

    def discard(self, segments: Sequence[str]) -> None:
        """Remove files of which nobody needs a page any more."""
        if segments:
            call = partial(self._disk.delete_segments, tuple(segments))
            self._transfers.deletions.submit(Job(call, lambda result: None))

    def _close(self, session: SessionKey) -> None:
        self._open[session] -= 1
        if not self._open[session]:
            del self._open[session]
            self._ended.append(session)
