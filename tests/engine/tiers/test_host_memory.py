"""The host's slots: never more than there are, and pinned ones stay."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from engine.cached_page import CachedPage, SlotId
from engine.kv_cache import KVCache, KVSpec
from engine.pages import PageId
from engine.tiers.host_memory import HostMemory, HostPin, SlotsCorrupt
from tests.support.tiers import SPEC, chain


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_page_comes_back_from_its_slot_byte_by_byte(dtype: torch.dtype) -> None:
    spec = KVSpec(layers=2, kv_heads=3, head_size=8, dtype=dtype)
    cache = KVCache.for_spec(spec, 8)
    # Any bits, not only those of ordinary numbers.
    cache.storage.view(torch.uint8).random_(0, 256)
    before = cache.storage.clone().view(torch.uint8)
    host = HostMemory(spec, 8)
    slots = host.allocate(8)
    random.Random(3).shuffle(slots)
    host.save(cache, [PageId(page) for page in range(8)], slots, [16] * 8)
    cache.storage.zero_()
    host.load(slots, cache, [PageId(page) for page in range(8)])
    assert torch.equal(cache.storage.view(torch.uint8), before)


def test_what_a_page_holds_beyond_its_tokens_is_not_kept() -> None:
    cache = KVCache.for_spec(SPEC, 1)
    cache.storage.fill_(5.0)
    host = HostMemory(SPEC, 1)
    host.save(cache, [PageId(0)], host.allocate(1), [3])
    host.load([SlotId(0)], cache, [PageId(0)])
    assert torch.equal(cache.storage[:, 0, :3], torch.full_like(cache.storage[:, 0, :3], 5.0))
    assert not cache.storage[:, 0, 3:].any()


def test_no_more_slots_are_given_than_the_limit_holds() -> None:
    page_bytes = KVCache.bytes_per_page(SPEC)
    host = HostMemory.within(SPEC, 3 * page_bytes + page_bytes - 1)
    assert host is not None
    assert len(host.allocate(2)) == 2
    assert len(host.allocate(5)) == 1
    assert host.allocate(1) == []
    assert (host.num_free, host.num_used, host.used_bytes, host.limit_bytes) == (0, 3, 3 * page_bytes, 3 * page_bytes)


def test_a_limit_below_one_page_has_no_slot() -> None:
    assert HostMemory.within(SPEC, 10) is None


def test_a_freed_slot_that_is_read_is_free_when_the_last_reader_is_done() -> None:
    host = HostMemory(SPEC, 1)
    page: CachedPage = chain(1)[0]
    [page.host] = host.allocate(1)
    first, second = HostPin(host, page, page.host), HostPin(host, page, page.host)
    assert page.host_pins == 2
    host.free([page.host])
    first.release()
    first.release()
    assert host.allocate(1) == []
    second.release()
    assert page.host_pins == 0
    assert host.allocate(1) == [page.host]


def test_a_slot_cannot_be_freed_or_pinned_while_it_is_free() -> None:
    host = HostMemory(SPEC, 2)
    [slot] = host.allocate(1)
    host.free([slot])
    with pytest.raises(SlotsCorrupt):
        host.free([slot])
    with pytest.raises(SlotsCorrupt):
        host.pin(slot)
    with pytest.raises(SlotsCorrupt):
        host.unpin(slot)


def test_the_books_are_checked_against_what_pages_hold() -> None:
    host = HostMemory(SPEC, 3)
    slots = host.allocate(2)
    host.check_integrity(slots)
    with pytest.raises(SlotsCorrupt, match="pages hold 1 host slots, 2 are taken"):
        host.check_integrity(slots[:1])
    host.pin(slots[0])
    with pytest.raises(SlotsCorrupt, match="1 are pinned"):
        host.check_integrity(slots)


def test_resident_memory_stays_within_the_limit_whatever_is_offered() -> None:
    """ggml-org/llama.cpp#22629: the size was checked after adding."""
    spec = KVSpec(layers=8, kv_heads=8, head_size=64, dtype=torch.float32)
    cache = KVCache.for_spec(spec, 16)
    cache.storage.fill_(1.0)
    limit = 48 << 20
    before = resident_bytes()
    host = HostMemory.within(spec, limit)
    assert host is not None
    assert resident_bytes() - before < limit // 10
    pages = [PageId(page) for page in range(16)]
    held: list[SlotId] = []
    for _ in range(16 * limit // (16 * host.record_bytes)):
        if host.num_free < len(pages):
            host.free(held[: len(pages)])
            del held[: len(pages)]
        slots = host.allocate(len(pages))
        host.save(cache, pages, slots, [16] * len(pages))
        held += slots
    assert resident_bytes() - before <= limit * 11 // 10


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
