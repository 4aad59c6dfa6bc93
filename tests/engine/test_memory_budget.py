"""What the engine takes beside the pages themselves is stated, and holds."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from engine.cached_page import SlotId, StoredPage
from engine.config import PAGE_TOKENS, EngineConfig
from engine.memory_budget import BOOKS_BYTES_PER_PAGE, BOOKS_BYTES_PER_SESSION, MemoryBudget
from engine.page_keys import PageKeys
from engine.pages import PagePool
from engine.prefix_cache import PrefixCache
from engine.session import TIERS
from engine.sessions import Sessions
from engine.tiers.stored_pages import StoredPages
from engine.types import Namespace, Priority, SessionKey
from tests.support.clock import SteppedClock


@pytest.mark.parametrize("tier", ["device", "host", "disk"])
@pytest.mark.parametrize(("num_sessions", "num_pages"), [(30, 63), (300, 1)])
def test_the_books_take_no_more_than_is_stated(tier: str, num_sessions: int, num_pages: int) -> None:
    """ggml-org/llama.cpp#22629: side data was not counted."""
    clock = SteppedClock()
    pool = PagePool(num_sessions * num_pages)
    cache = PrefixCache(pool, PageKeys(b"secret", "model"))
    sessions = Sessions(clock.monotonic, 300, 1800, 86400, TIERS)
    stored = StoredPages(cache.stored)
    tracemalloc.start()
    try:
        for number in range(num_sessions):
            tokens = [1000 + number * 5000 + token for token in range(num_pages * PAGE_TOKENS)]
            owner = sessions.begin(SessionKey(Namespace.user(f"user {number}"), "talk"), Priority.INTERACTIVE)
            keys = cache.page_keys(tokens, owner.key.namespace, 0, [])
            device = pool.allocate(num_pages)
            cache.publish(tokens, keys, device, owner.key.namespace, 0, owner, range(num_pages))
            sessions.commit(owner, tokens, 0, 1.0)
            sessions.end(owner)
            file = f"{number:064} in a folder of such a name"
            for page in sorted(owner.pages, key=lambda page: page.index):
                if tier == "host":
                    page.host = SlotId(page.index)
                elif tier == "disk":
                    stored.add(page, StoredPage(file, page.index))
            cache.release(device)
            for _ in range(3):
                cache.use(owner.pages)
            if tier != "device":
                cache.leave_device(list(owner.pages))
            del tokens, keys, device, owner, page, file
        used_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(cache) == num_sessions * num_pages
    assert used_bytes <= len(cache) * BOOKS_BYTES_PER_PAGE + num_sessions * BOOKS_BYTES_PER_SESSION


def test_what_is_stated_follows_from_the_settings() -> None:
    config = EngineConfig(
        Path("model"), "model", kv_memory_bytes=10_000, host_memory_bytes=20_000, disk_bytes=1_000_000
    )
    without = MemoryBudget.of(config, page_bytes=1000)
    assert (without.pages, without.books, without.transfers) == (30_000, 30 * BOOKS_BYTES_PER_PAGE, 0)
    with_disk = MemoryBudget.of(
        EngineConfig(
            Path("model"),
            "model",
            kv_memory_bytes=10_000,
            host_memory_bytes=20_000,
            disk_folder=Path("kv"),
            disk_bytes=1_000_000,
        ),
        page_bytes=1000,
        sessions=5,
    )
    assert with_disk.books == 1030 * BOOKS_BYTES_PER_PAGE + 5 * BOOKS_BYTES_PER_SESSION
    assert with_disk.total == with_disk.pages + with_disk.books + with_disk.transfers + with_disk.chats
