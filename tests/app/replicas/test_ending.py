"""A task that loses a cancellation is cancelled again."""

from __future__ import annotations

import asyncio
import contextlib

from app.replicas.ending import ended


async def test_a_task_that_did_not_hear_is_told_again() -> None:
    """python/cpython#86296: `wait_for` returns the result and forgets that it was cancelled."""
    cancellations = 0

    async def hard_of_hearing() -> None:
        nonlocal cancellations
        while cancellations < 2:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            cancellations += 1
        await asyncio.Event().wait()

    async def quick() -> None:
        await asyncio.Event().wait()

    tasks = [asyncio.create_task(hard_of_hearing()), asyncio.create_task(quick())]
    await asyncio.sleep(0)
    await ended(tasks)
    assert all(task.done() for task in tasks)
    assert cancellations == 2
    await ended(tasks)
    await ended([])
