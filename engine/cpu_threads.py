"""How many threads compute, and whether they really help.

Called once by `engine.thread` when it begins: the number belongs to the thread that sets it. A model left on one core by an
affinity mask or an environment variable is a common and silent fault (vllm-project/vllm#10971), so it is said aloud.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

import torch

logger = logging.getLogger(__name__)

SELF_TEST_SIZE = 512
SELF_TEST_REPEATS = 3
"""The best of so many: 20 ms in all, and what else the machine does at that moment counts less than in a mean."""

LEAST_SPEEDUP = 1.2
"""Two idle cores reach about 1.9; below this the second thread as good as does nothing."""


def usable_cores() -> int:
    """Cores this process may run on, which is what counts in a container or under taskset."""
    return len(os.sched_getaffinity(0))


def use_threads(wanted: int | None, clock: Callable[[], float]) -> int:
    """Set, test and log the number of threads, one per usable core where none is wanted; return the number in use."""
    cores = usable_cores()
    torch.set_num_threads(wanted or cores)
    threads = torch.get_num_threads()
    speedup = _speedup(threads, clock)
    logger.info("computing with %d threads on %d usable cores, %.1f times as fast as one", threads, cores, speedup)
    if threads > cores:
        logger.warning(
            "%d threads share %d usable cores and slow each other down; set KVASIR_THREADS=0", threads, cores
        )
    elif threads < (wanted or cores):
        logger.warning("only %d of %d threads are in use; OMP_NUM_THREADS may limit them", threads, wanted or cores)
    elif threads > 1 and speedup < LEAST_SPEEDUP:
        logger.warning(
            "%d threads are only %.1f times as fast as one; the cores are busy, or an affinity mask binds them",
            threads,
            speedup,
        )
    return threads


def _speedup(threads: int, clock: Callable[[], float]) -> float:
    matrix = torch.ones(SELF_TEST_SIZE, SELF_TEST_SIZE)
    alone = _seconds(matrix, 1, clock)
    together = _seconds(matrix, threads, clock)
    return alone / together if together > 0 else 1.0


def _seconds(matrix: torch.Tensor, threads: int, clock: Callable[[], float]) -> float:
    torch.set_num_threads(threads)
    torch.mm(matrix, matrix)
    times = []
    for _ in range(SELF_TEST_REPEATS):
        begun = clock()
        torch.mm(matrix, matrix)
        times.append(clock() - begun)
    return min(times)
