"""The engine's snapshot as people look at it: at most a second old, however many ask.

A snapshot is built in the engine's thread between two steps, so who asks for it in a loop would slow everybody's answers.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from app.clock import Monotonic
from engine.client import EngineClient
from engine.snapshot import EngineSnapshot

FRESH_S = 0.9
"""A little less than a second, so that who asks once a second gets a new one each time."""


class EngineView:
    """Owns the last snapshot."""

    def __init__(self, engine: EngineClient, monotonic: Monotonic) -> None:
        self._engine = engine
        self._monotonic = monotonic
        self._lock = asyncio.Lock()
        self._snapshot: EngineSnapshot | None = None
        self._taken_at_s = 0.0

    async def snapshot(self) -> EngineSnapshot:
        """The last one, or a new one where that is old. Raises EngineNotReady."""
        async with self._lock:
            if self._snapshot is None or self._monotonic() - self._taken_at_s >= FRESH_S:
                self._snapshot = await self._engine.snapshot()
                self._taken_at_s = self._monotonic()
            return self._snapshot

    def taken_at(self, now: datetime) -> datetime:
        """When the last one was taken, by the clock on the wall."""
        return now - timedelta(seconds=self._monotonic() - self._taken_at_s)

    def forget(self) -> None:
        """Something was changed: the next one who looks should see it."""
        self._snapshot = None
