"""The host's memory as a tier: one slab of numbered slots, each for the record of one page.

Used by `engine.tiers.tiers` and its parts in the engine thread; the write lane reads pinned slots. It never grows: the
system hands the slab out on first touch, so it takes at most its limit, and a page that finds no free slot is not taken
(ggml-org/llama.cpp#22629).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from engine.cached_page import CachedPage, SlotId
from engine.errors import EngineError
from engine.kv_cache import KVCache, KVSpec, clear_after, lazy_zeros
from engine.pages import PageId


class SlotsCorrupt(EngineError):
    """A slot was freed twice, or pinned while free: a bug, never a matter of load."""


class HostMemory:
    """Owns the slab and knows which slots are free. A slot that is freed while pinned becomes free with its last pin."""

    def __init__(self, spec: KVSpec, slots: int) -> None:
        self.num_slots = slots
        self.record_bytes = KVCache.bytes_per_page(spec)
        # In small pages: a huge one is cleared whole before the first record comes into it, while a restored turn waits.
        self._records = lazy_zeros((slots, 2 * spec.layers, *spec.page_shape), spec.dtype, in_huge_pages=False)
        # Low numbers first: neighbours are copied in one piece, and memory that was never used stays untouched.
        self._free = [SlotId(slot) for slot in reversed(range(slots))]
        self._taken = [False] * slots
        self._pins = [0] * slots

    @classmethod
    def within(cls, spec: KVSpec, limit_bytes: int) -> HostMemory | None:
        """As many slots as the limit holds; None where it holds not one."""
        slots = limit_bytes // KVCache.bytes_per_page(spec)
        return cls(spec, slots) if slots else None

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_used(self) -> int:
        return self.num_slots - len(self._free)

    @property
    def used_bytes(self) -> int:
        return self.num_used * self.record_bytes

    @property
    def limit_bytes(self) -> int:
        return self.num_slots * self.record_bytes

    def allocate(self, count: int) -> list[SlotId]:
        """Up to `count` slots, as many as are free."""
        taken = [self._free.pop() for _ in range(min(count, len(self._free)))]
        for slot in taken:
            self._taken[slot] = True
        return taken

    def free(self, slots: Iterable[SlotId]) -> None:
        """Give slots back. A pinned one is free when its last pin goes."""
        for slot in slots:
            if not self._taken[slot]:
                raise SlotsCorrupt(f"host slot {slot} is free and was freed again")
            self._taken[slot] = False
            if not self._pins[slot]:
                self._free.append(slot)

    def pin(self, slot: SlotId) -> None:
        """Somebody reads this slot: its bytes stay until `unpin`."""
        if not self._taken[slot]:
            raise SlotsCorrupt(f"host slot {slot} is free and was pinned")
        self._pins[slot] += 1

    def unpin(self, slot: SlotId) -> None:
        if not self._pins[slot]:
            raise SlotsCorrupt(f"host slot {slot} is not pinned and was unpinned")
        self._pins[slot] -= 1
        if not self._pins[slot] and not self._taken[slot]:
            self._free.append(slot)

    def save(self, cache: KVCache, pages: Sequence[PageId], slots: Sequence[SlotId], num_tokens: Sequence[int]) -> None:
        """Copy device pages into slots, of each the first `num_tokens` tokens.

        The rest of a page that is not full is cleared: there may be what somebody else said there before.
        """
        cache.copy_out(pages, self._records, slots)
        clear_after(self._records, slots, num_tokens, cache.spec)

    def load(self, slots: Sequence[SlotId], cache: KVCache, pages: Sequence[PageId]) -> None:
        """Copy slots into device pages."""
        cache.copy_in(self._records, slots, pages)

    def record(self, slot: SlotId) -> memoryview:
        """The bytes in a slot, no copy: to be read only while the slot is pinned or the caller is the engine thread."""
        return self._records[slot].view(-1).view(torch.uint8).numpy().data.toreadonly()

    def check_integrity(self, slots: Iterable[SlotId]) -> None:
        """Raise SlotsCorrupt unless `slots`, all that pages hold, is exactly what is taken, and nothing is pinned."""
        held = sorted(slots)
        taken = [slot for slot in range(self.num_slots) if self._taken[slot]]
        if held != taken or any(self._pins) or len(self._free) != self.num_slots - len(taken):
            raise SlotsCorrupt(
                f"pages hold {len(held)} host slots, {len(taken)} are taken, {len(self._free)} of {self.num_slots} "
                f"are free and {sum(self._pins)} are pinned"
            )


class HostPin:
    """A page's slot, held until `release` while a transfer reads it, also when the page itself is forgotten before."""

    def __init__(self, host: HostMemory, page: CachedPage, slot: SlotId) -> None:
        self.host = host
        self._page = page
        self.slot = slot
        self._is_held = True
        host.pin(slot)
        page.host_pins += 1

    def release(self) -> None:
        """Idempotent."""
        if self._is_held:
            self._is_held = False
            self._page.host_pins -= 1
            self.host.unpin(self.slot)
