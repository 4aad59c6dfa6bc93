"""Ends tasks that speak with Redis or SQL, for certain.

On Python 3.11 `asyncio.wait_for`, which the Redis client uses for every write, loses a cancellation that comes at the moment
when what it waits for is done (python/cpython#86296). A loop that was cancelled then goes on, and whoever waits for its end waits
for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

HEARD_S = 0.2
"""A task that has not ended by then has not heard."""


async def ended(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel these tasks, as often as it takes, and return when all of them have ended."""
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=HEARD_S)
