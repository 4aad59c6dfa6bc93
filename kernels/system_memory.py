"""Memory straight from the system, for what is large and read in every step: zeros that cost nothing before they are touched.

Used for weights (`kernels.packed_matrix`), keys and values (`engine.kv_cache`) and the host tier. Private, because Linux gives
huge pages to shared memory only where somebody has allowed that apart (`transparent_hugepage/shmem_enabled`), and what Python
maps is shared unless it is told: in pages of 4 kB a step of one row takes a quarter longer.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from functools import cache
from typing import Final

import torch

MADV_POPULATE_WRITE: Final = 23
"""Since Linux 5.14; Python has no name for it."""


def zeros_from_system(size_bytes: int, *, in_huge_pages: bool = True) -> torch.Tensor:
    """So many zeros (uint8, one at least) on whole pages. Huge ones, where the system has them, are quicker to read, and each
    takes half a millisecond when it is touched first."""
    size_bytes = max(size_bytes, 1)
    if sys.platform == "win32":
        memory = mmap.mmap(-1, size_bytes)
    else:
        memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if in_huge_pages and hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.uint8)


def touch(address: int, size_bytes: int) -> bool:
    """Have the system provide for this memory now; what it holds stays. False where the system has no such call, or no memory:
    then the first use provides for it, as ever. Other threads of Python go on meanwhile, and torch is not called: a thread that
    is in one of its calls when Python ends takes the process down."""
    if not sys.platform.startswith("linux") or not size_bytes:
        return False
    begin = address // mmap.PAGESIZE * mmap.PAGESIZE
    size = ctypes.c_size_t(address + size_bytes - begin)
    return bool(_libc().madvise(ctypes.c_void_p(begin), size, MADV_POPULATE_WRITE) == 0)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)
