"""Work that has to be done whatever becomes of whoever asked for it, and who waits for it only a moment.

Used where SQL has decided and the engine has to follow. What is not done when the server ends is found again at its next start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any

LONGEST_WAIT_S = 1.0
"""Who asks waits this long. What takes longer is done all the same."""

LAST_WORK_S = 1.0
"""What it gets when the server ends."""


class Background:
    """Owns the tasks that are under way. What is given to it must not raise."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    async def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin it, and return when it is done or has taken too long to wait for."""
        await asyncio.wait([self.begin(work)], timeout=LONGEST_WAIT_S)

    def begin(self, work: Coroutine[Any, Any, None], context: Context | None = None) -> asyncio.Task[None]:
        """Begin it, for somebody who does not wait at all; in another context than that of who calls, where one is given."""
        task = asyncio.create_task(work, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """End what is under way."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LAST_WORK_S)
        for task in (late := list(self._tasks)):
            task.cancel()
        if late:
            await asyncio.wait(late)
