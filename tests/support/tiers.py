"""A small engine's tiers: a cache of random pages, a host, a disk, and a clock that a test moves."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import torch

from engine.cached_page import CachedPage
from engine.config import PAGE_TOKENS
from engine.kv_cache import KVCache, KVSpec
from engine.packed_tokens import pack_tokens
from engine.page_keys import PageKeys
from engine.pages import PageId
from engine.tiers.disk_content import PageContent, WantedPage
from engine.tiers.disk_store import DiskStore
from engine.tiers.host_memory import HostMemory
from engine.tiers.record_format import RecordFormat
from engine.tiers.restores import Restore, RestoreItem
from engine.tiers.tiers import Tiers
from engine.tiers.transfers import Transfers
from engine.types import Namespace, SessionKey
from tests.support.clock import SteppedClock

SPEC = KVSpec(layers=3, kv_heads=2, head_size=4, dtype=torch.float32)
FORMAT = RecordFormat.of(SPEC)
KEYS = PageKeys(b"s" * 32, "fingerprint")
ANNA = SessionKey(Namespace.user("anna"), "first")
BERT = SessionKey(Namespace.user("bert"), "first")
TIMEOUT_S = 10.0
PATIENCE_S = 30.0
"""How long a test waits for a thread before it fails; it never does when all is well."""

_next_token = count(1)


def chain(
    num_pages: int, session: SessionKey = ANNA, *, tail_tokens: int = PAGE_TOKENS, after: CachedPage | None = None
) -> list[CachedPage]:
    """Pages of one path with tokens that occur nowhere else; the last has `tail_tokens` of them."""
    pages: list[CachedPage] = []
    parent = after.key if after else KEYS.root
    start = after.index + 1 if after else 0
    for index in range(start, start + num_pages):
        length = tail_tokens if index == start + num_pages - 1 else PAGE_TOKENS
        tokens = pack_tokens([next(_next_token) for _ in range(length)])
        key = KEYS.following(parent, session.namespace, tokens)
        pages.append(CachedPage(key, parent, session.namespace, index, tokens))
        parent = key
    return pages


def content(page: CachedPage) -> PageContent:
    return PageContent(page.key, page.parent, page.index, page.packed)


def wanted(pages: Sequence[CachedPage]) -> list[WantedPage]:
    return [WantedPage(place, page.key, page.packed) for place, page in enumerate(pages)]


def disk_store(
    folder: Path,
    clock: SteppedClock,
    *,
    kind: type[DiskStore] = DiskStore,
    limit_bytes: int = 1 << 20,
    ttl_s: float = 1000.0,
    fingerprint: str = "fingerprint",
    keys: PageKeys = KEYS,
    format: RecordFormat = FORMAT,
) -> DiskStore:
    return kind(
        folder,
        fingerprint=fingerprint,
        root=keys.root,
        format=format,
        limit_bytes=limit_bytes,
        ttl_s=ttl_s,
        wall_clock=clock.now,
    )


class HangingDisk(DiskStore):
    """Reads and writes wait for `release` where they are told to. `has_entered` is set when one has come."""

    hangs_at: frozenset[str] = frozenset()

    def __init__(self, *arguments: object, **settings: object) -> None:
        super().__init__(*arguments, **settings)  # type: ignore[arg-type]
        self.release = threading.Event()
        self.has_entered = threading.Event()

    @classmethod
    def over(cls, folder: Path, clock: SteppedClock) -> HangingDisk:
        store = disk_store(folder, clock, kind=cls)
        assert isinstance(store, HangingDisk)
        return store

    def _hang(self, where: str) -> None:
        if where in self.hangs_at:
            self.has_entered.set()
            assert self.release.wait(PATIENCE_S)

    def read(self, name: str, wanted: Sequence[WantedPage], out: memoryview) -> int:
        self._hang("before reading")
        good = super().read(name, wanted, out)
        self._hang("after reading")
        return good

    def write(
        self,
        session: SessionKey,
        pages: Sequence[PageContent],
        records: Sequence[memoryview],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> str | None:
        self._hang("before writing")
        name = super().write(session, pages, records, is_wanted)
        self._hang("after writing")
        return name

    def delete_session(self, session: SessionKey) -> None:
        self._hang("before deleting")
        super().delete_session(session)


@dataclass
class TinyTiers:
    """What the engine thread has, without an engine. `prune` and `host_victims` stand in for the index."""

    folder: Path
    clock: SteppedClock = field(default_factory=SteppedClock)
    device_pages: int = 64
    host_slots: int = 16
    disk: DiskStore | None = None
    spec: KVSpec = SPEC
    victims: list[CachedPage] = field(default_factory=list)
    pruned: list[CachedPage] = field(default_factory=list)
    behind: list[tuple[SessionKey, Sequence[CachedPage]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cache = KVCache.for_spec(self.spec, self.device_pages)
        generator = torch.Generator().manual_seed(7)
        self.cache.storage.copy_(torch.randn(self.cache.storage.shape, generator=generator))
        self.woken = threading.Event()
        self.transfers = Transfers(TIMEOUT_S, self.clock.monotonic, self.woken.set)
        self.host = HostMemory(self.spec, self.host_slots)
        self.tiers = Tiers(
            self.cache,
            self.host,
            self.disk,
            self.transfers,
            clock=self.clock.monotonic,
            host_victims=lambda number: self.victims[:number],
            prune=lambda pages: self.pruned.extend(pages),
            write_behind=lambda number: self.behind,
        )

    def put_on_device(self, pages: Iterable[CachedPage], first: int = 0) -> None:
        for number, page in enumerate(pages, first):
            page.device = PageId(number)

    def leave_device(self, pages: Iterable[CachedPage]) -> None:
        """The device pages are somebody else's now."""
        for page in pages:
            if page.device is not None:
                self.cache.storage[:, page.device] = 777.0
                page.device = None

    def bytes_of(self, pages: Iterable[CachedPage | PageId]) -> list[bytes]:
        """What the device holds of each, as far as its tokens reach."""
        found = []
        for page in pages:
            number, length = (page.device, len(page.tokens)) if isinstance(page, CachedPage) else (page, PAGE_TOKENS)
            found.append(self.cache.storage[:, number, :length].contiguous().view(torch.uint8).numpy().tobytes())
        return found

    def settle(self) -> list[Restore]:
        """Poll and work until nothing is on its way; the restores that have ended."""
        ended = []
        while self.tiers.has_transfers:
            self.woken.clear()
            self.tiers.poll()
            ended += self.tiers.work()
            if self.tiers.has_transfers:
                assert self.woken.wait(PATIENCE_S), "nothing came back from the threads"
        return ended

    def store(self, session: SessionKey, pages: Sequence[CachedPage]) -> None:
        self.tiers.store(session, pages)
        self.settle()

    def store_only(self, session: SessionKey, pages: Sequence[CachedPage]) -> None:
        """The same, where something else is on its way for longer."""
        self.tiers.store(session, pages)
        while any(page.disk is None for page in pages):
            self.woken.clear()
            self.tiers.poll()
            assert all(page.disk for page in pages) or self.woken.wait(PATIENCE_S)

    def restore(self, pages: Sequence[CachedPage], first: int) -> Restore:
        restore = self.tiers.begin_restore([RestoreItem(page, PageId(first + i)) for i, page in enumerate(pages)])
        assert self.settle() == [restore]
        return restore


def contains_anywhere(folder: Path, content: bytes) -> bool:
    """Whether any file below the folder holds these bytes."""
    return any(content in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def files(folder: Path) -> list[Path]:
    """Every file below the folder, also while a thread removes some."""
    return sorted(Path(path, name) for path, _, names in os.walk(folder) for name in names)


def token_bytes(page: CachedPage) -> bytes:
    """A page's tokens as a file has them."""
    return page.packed


def hanging_disk(tiny: TinyTiers) -> HangingDisk:
    assert isinstance(tiny.disk, HangingDisk)
    return tiny.disk


def stored_only(
    tiny: TinyTiers, session: SessionKey = ANNA, num_pages: int = 4
) -> tuple[list[CachedPage], list[bytes]]:
    """Pages that are on the disk and nowhere else, and what they held."""
    pages = chain(num_pages, session)
    tiny.put_on_device(pages)
    held = tiny.bytes_of(pages)
    tiny.store(session, pages)
    assert all(page.disk for page in pages)
    tiny.leave_device(pages)
    return pages, held
