"""Laws 2 to 5 and 7 after each of ten thousand random operations.

Another order of operations in every run. When a law is broken the smallest list of operations that still breaks it is printed,
and the seed of the run, which `KVASIR_LAW_SEED` takes to repeat it.

That the laws would be broken if the engine were wrong is shown by `test_planted_bugs.py`.
"""

from __future__ import annotations

import logging
import os
import random
from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.laws.random_operations import Operations

OPERATIONS = 10_000
STEPS = 100


@pytest.fixture
def quiet() -> Iterator[None]:
    """What the engine says of the accidents would fill pages."""
    logger = logging.getLogger("engine")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(before)


@pytest.mark.slow
# It takes half a minute; the rest is for making a failure small.
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("quiet")
def test_the_laws_hold_after_every_one_of_ten_thousand_operations() -> None:
    run_seed = int(os.environ.get("KVASIR_LAW_SEED") or random.randrange(1 << 32))
    print(f"KVASIR_LAW_SEED={run_seed}")

    @seed(run_seed)
    class ThisRun(Operations):
        num_operations: ClassVar[int] = 0
        found: ClassVar[Counter[str]] = Counter()

    run_state_machine_as_test(
        ThisRun,
        settings=settings(
            # A few runs are shorter than they may be.
            max_examples=OPERATIONS // STEPS * 6 // 5,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            print_blob=True,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(f"{ThisRun.num_operations} operations; tokens found again: {dict(ThisRun.found)}")
    assert ThisRun.num_operations >= OPERATIONS
    # Laws that nothing was found under would show little.
    assert all(ThisRun.found[source] > 0 for source in ("device", "host", "disk", "prefix")), ThisRun.found
