"""The memory that keeps keys and values, cut into pages of `PAGE_TOKENS` tokens.

Made once by the engine, written and read by the kernels through slots and block tables. It knows nothing of who uses which
page: that is the page pool's business. It is never cleared; what a page held before is masked, not erased.

    storage   [2 * layers, pages, PAGE_TOKENS, kv_heads, token_numbers]     the keys of all layers, then the values
    record    [2 * layers,        PAGE_TOKENS, kv_heads, token_numbers]     one page in all layers, in one piece: for a tier

A token has as many numbers in each head as the head has dimensions; in 8 bits it has a float32 scale too, in four bytes more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from engine.config import PAGE_TOKENS
from engine.first_touch import FirstTouch
from engine.pages import PageId
from kernels.system_memory import zeros_from_system

SCALE_BYTES: Final = 4
"""Of a token's numbers in 8 bits: a float32, see `kernels/cpu/rotate.h`."""


class PageLayout(Enum):
    """How a page's numbers lie within it. TOKENS: one token after the other, as the shapes here say. LANES: as the compiled CPU
    kernels want them (kernels/cpu/rotate.h); of the shapes only the size is true then."""

    TOKENS = "tokens"
    LANES = "lanes"


@dataclass(frozen=True, slots=True)
class KVSpec:
    """What decides the size of a page, and what is where in it: the model's shape, and the precision and the layout that its
    kernels want."""

    layers: int
    kv_heads: int
    head_size: int
    dtype: torch.dtype
    layout: PageLayout = PageLayout.TOKENS

    @property
    def token_numbers(self) -> int:
        """What is kept of one token in one head of one layer, of its key or its value."""
        return self.head_size + (SCALE_BYTES if self.dtype == torch.int8 else 0)

    @property
    def page_shape(self) -> tuple[int, int, int]:
        """The keys or values of one page in one layer."""
        return PAGE_TOKENS, self.kv_heads, self.token_numbers


class KVCache:
    """`keys` and `values`, one tensor per layer, each [pages, PAGE_TOKENS, kv_heads, token_numbers]: views of `storage`.

    Tokens come before heads, so a token's place is one row (`slot = page * PAGE_TOKENS + offset`) and the gathered pages of a
    sequence are its tokens in order, without another copy.
    """

    def __init__(
        self,
        layers: int,
        pages: int,
        kv_heads: int,
        head_size: int,
        dtype: torch.dtype,
        layout: PageLayout = PageLayout.TOKENS,
    ) -> None:
        self.pages = pages
        self.spec = KVSpec(layers, kv_heads, head_size, dtype, layout)
        self.storage = lazy_zeros((2 * layers, pages, *self.spec.page_shape), dtype)
        self.keys = list(self.storage[:layers])
        self.values = list(self.storage[layers:])
        self._bytes = _bytes_of(self.storage)
        self._first_touch = FirstTouch(self.storage)

    @classmethod
    def for_spec(cls, spec: KVSpec, pages: int) -> KVCache:
        """A cache of `pages` pages for a model."""
        return cls(spec.layers, pages, spec.kv_heads, spec.head_size, spec.dtype, spec.layout)

    @staticmethod
    def bytes_per_page(spec: KVSpec) -> int:
        """Bytes of one page: keys and values, in all layers."""
        return 2 * spec.layers * math.prod(spec.page_shape) * spec.dtype.itemsize

    def reach(self, num_pages: int) -> None:
        """Pages below this number are used: have the memory of the next ones ready. Returns at once."""
        self._first_touch.reach(num_pages)

    def copy_page(self, source: PageId, target: PageId) -> None:
        """Make `target` hold what `source` holds."""
        self._bytes[:, target] = self._bytes[:, source]

    def copy_out(self, pages: Sequence[PageId], records: torch.Tensor, places: Sequence[int]) -> None:
        """Copy each page into the record at its place; `records` is [places, *record]."""
        for page, place, length in _runs(pages, places):
            _bytes_of(records)[place : place + length] = self._bytes[:, page : page + length].swapaxes(0, 1)

    def copy_in(self, records: torch.Tensor, places: Sequence[int], pages: Sequence[PageId]) -> None:
        """Copy the record at each place into its page: the other way of `copy_out`."""
        for page, place, length in _runs(pages, places):
            self._bytes[:, page : page + length] = _bytes_of(records)[place : place + length].swapaxes(0, 1)


def _bytes_of(numbers: torch.Tensor) -> npt.NDArray[np.uint8]:
    """The same memory, for copies. Those of torch are shared among threads and wait for each of them: beside a busy loop one page
    of 0.2 MB has taken 7 ms."""
    return numbers.view(torch.uint8).numpy()


def clear_after(records: torch.Tensor, places: Sequence[int], num_tokens: Sequence[int], spec: KVSpec) -> None:
    """Clear what records hold beyond their own tokens, and nothing of those."""
    for place, count in zip(places, num_tokens, strict=True):
        if count == PAGE_TOKENS:
            continue
        record = records[place]
        if spec.layout is PageLayout.TOKENS:
            record[:, count:].zero_()
            continue
        together = 4 // spec.dtype.itemsize
        blocks = record.view(2 * spec.layers, spec.kv_heads, -1)
        end = PAGE_TOKENS * spec.head_size
        numbers, scales = blocks[..., :end], blocks[..., end:]
        keys = numbers[: spec.layers].view(spec.layers, spec.kv_heads, -1, PAGE_TOKENS, together)
        values = numbers[spec.layers :].view(spec.layers, spec.kv_heads, PAGE_TOKENS // together, -1, together)
        keys[..., count:, :].zero_()
        for token in range(count, PAGE_TOKENS):
            values[:, :, token // together, :, token % together].zero_()
        scales[..., count * SCALE_BYTES :].zero_()


def lazy_zeros(shape: tuple[int, ...], dtype: torch.dtype, *, in_huge_pages: bool = True) -> torch.Tensor:
    """Zeros the operating system hands out on first touch, on whole cache lines: a large cache costs memory only as far as it is
    used, in pieces of 2 MiB where there are huge pages. `engine.first_touch` has that done before a step comes to it.

    Zeros and not whatever was there: a masked value still gets multiplied by 0, and 0 times NaN is NaN.
    """
    size = math.prod(shape) * dtype.itemsize
    return zeros_from_system(size, in_huge_pages=in_huge_pages)[:size].view(dtype).view(shape)


def _runs(pages: Sequence[int], places: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(page, place, length) of each run in which both numbers go up by one.

    One slice copied per run reaches the memory's speed, even where each run is a single page; indexing with lists of numbers
    is slower than that in every form torch has.
    """
    if len(pages) != len(places):
        raise ValueError(f"{len(pages)} pages and {len(places)} places were given")
    start = 0
    for end in range(1, len(pages) + 1):
        adjacent = end < len(pages) and pages[end] == pages[end - 1] + 1 and places[end] == places[end - 1] + 1
        if not adjacent:
            yield pages[start], places[start], end - start
            start = end
