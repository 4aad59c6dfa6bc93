"""The memory that keeps keys and values, cut into pages of `PAGE_TOKENS` tokens.

Made once by the engine, written and read by the kernels through slots and block tables. It knows nothing of who uses which
page: that is the page pool's business. It is never cleared; what a page held before is masked, not erased.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from engine.config import PAGE_TOKENS


@dataclass(frozen=True, slots=True)
class KVSpec:
    """What decides the size of a page: the model's shape and the precision of its keys and values."""

    layers: int
    kv_heads: int
    head_size: int
    dtype: torch.dtype


class KVCache:
    """`keys` and `values`, one tensor per layer, each [pages, PAGE_TOKENS, kv_heads, head_size].

    Tokens come before heads, so a token's place is one row (`slot = page * PAGE_TOKENS + offset`) and the gathered pages of a
    sequence are its tokens in order, without another copy.
    """

    def __init__(self, layers: int, pages: int, kv_heads: int, head_size: int, dtype: torch.dtype) -> None:
        self.pages = pages
        self.spec = KVSpec(layers, kv_heads, head_size, dtype)
        shape = (pages, PAGE_TOKENS, kv_heads, head_size)
        self.keys = [_zeros(shape, dtype) for _ in range(layers)]
        self.values = [_zeros(shape, dtype) for _ in range(layers)]

    @classmethod
    def for_spec(cls, spec: KVSpec, pages: int) -> KVCache:
        """A cache of `pages` pages for a model."""
        return cls(spec.layers, pages, spec.kv_heads, spec.head_size, spec.dtype)

    @staticmethod
    def bytes_per_page(spec: KVSpec) -> int:
        """Bytes of one page: keys and values, in all layers."""
        return 2 * spec.layers * PAGE_TOKENS * spec.kv_heads * spec.head_size * spec.dtype.itemsize


def _zeros(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Zeros the operating system hands out on first touch: a large cache costs memory only as far as it is used.

    Zeros and not whatever was there: a masked value still gets multiplied by 0, and 0 times NaN is NaN.
    """
    size = int(np.prod(shape)) * dtype.itemsize
    return torch.from_numpy(np.zeros(size, dtype=np.uint8)).view(dtype).view(shape)
