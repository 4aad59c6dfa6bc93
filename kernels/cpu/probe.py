"""Whether the compiled kernels are the faster ones on this machine: measured when a model is loaded, in a few milliseconds.

A precision with fewer bits that ran slower on some CPU has happened to others (pytorch/pytorch#180447).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch.nn import functional

from kernels.cpu.library import CpuKernels
from kernels.packed_matrix import empty_matrix

ROWS: Final = 2048
COLUMNS: Final = 1024
"""8 MB in float32: more than a core's own cache, as the matrices of a step are."""
REPEATS: Final = 8


def speedup_over_float32(kernels: CpuKernels, clock: Callable[[], float]) -> float:
    """How many times as fast a product of one row is with 8 bits as with torch's float32; the best of several each.

    By one thread, and `clock` counts what it has worked: threads that wait for each other on a busy machine would measure that.
    """
    row, wide, packed = torch.ones(1, COLUMNS), torch.zeros(ROWS, COLUMNS), empty_matrix(ROWS, COLUMNS, 8)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        float32_s = _best(lambda: functional.linear(row, wide), clock)
        packed_s = _best(lambda: kernels.operations.linear(row, packed.quants, packed.scales, None), clock)
    finally:
        torch.set_num_threads(threads)
    return float32_s / packed_s if packed_s > 0 else 1.0


def _best(work: Callable[[], object], clock: Callable[[], float]) -> float:
    times = []
    for _ in range(REPEATS):
        begun = clock()
        work()
        times.append(clock() - begun)
    return min(times)
