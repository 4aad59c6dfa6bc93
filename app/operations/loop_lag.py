"""Watches the event loop: how late a timer fires is how long something blocked it.

The context runs `watch_event_loop` as a task for the life of the app. Its samples go to the metric
`kvasir_event_loop_lag_seconds`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

SAMPLE_S = 0.1
"""Often enough to catch a block of a tenth of a second, rare enough to cost nothing."""


async def watch_event_loop(
    report: Callable[[float], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] | None = None,
) -> None:
    """Report one lag in seconds per sample, until cancelled. The clock is the loop's own unless given."""
    now = clock or asyncio.get_running_loop().time
    while True:
        due = now() + SAMPLE_S
        await sleep(SAMPLE_S)
        report(max(0.0, now() - due))
