"""What is swept out from time to time: sign-ins that have ended, idempotency keys that are old. Run by the context, as a task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

INTERVAL_S = 3600.0
"""Nothing depends on it being prompt: what has expired is refused by its time and not by its absence."""


async def keep_house(
    chores: Sequence[Callable[[], Awaitable[None]]],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    *,
    every_s: float = INTERVAL_S,
) -> None:
    """Do every chore now and then once per interval, until cancelled. One that fails is logged and tried again next time."""
    while True:
        for chore in chores:
            try:
                await chore()
            except Exception:
                # A database that is away for a moment must not end the sweeping for good.
                structlog.get_logger("kvasir.housekeeping").exception("a chore failed")
        await sleep(every_s)
