"""The lanes of `engine.tiers.transfers` without threads: a job runs when the engine polls, or hangs while a test says so.

Everything else is the real thing: deadlines, cancelled jobs, results that come too late.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from engine.tiers.transfers import Job, Lane, Transfers


class SteppedLane(Lane):
    """`is_hanging` holds the job that is begun next, and all behind it, until it is False again."""

    def __init__(self, name: str, timeout_s: float, clock: Callable[[], float], wake: Callable[[], None]) -> None:
        super().__init__(name, timeout_s, clock, wake)
        self._thread = threading.current_thread()  # so that none is started
        self._held: Job[Any] | None = None
        self.is_hanging = False
        self.sleep: Callable[[float], None] = lambda seconds: None

    def poll(self) -> None:
        if not self.is_hanging:
            self._main()
        elif self._held is None and self._waiting:
            self._held = super()._next()
        super().poll()

    def wait(self, timeout_s: float) -> None:
        if self.is_hanging:
            self.sleep(timeout_s)
        else:
            self._main()

    def close(self) -> None:
        self._is_closed = True
        self._waiting.clear()

    def _next(self) -> Job[Any] | None:
        if (held := self._held) is not None:
            self._held = None
            return held
        return super()._next() if self._waiting else None


class SteppedTransfers(Transfers):
    """Handed to the engine in place of `Transfers`."""

    def __init__(self, timeout_s: float, clock: Callable[[], float], wake: Callable[[], None]) -> None:
        super().__init__(timeout_s, clock, wake)
        self.reads = SteppedLane("disk-reads", timeout_s, clock, wake)
        self.writes = SteppedLane("disk-writes", timeout_s, clock, wake)
        self.deletions = SteppedLane("disk-deletions", timeout_s, clock, wake)
        self._lanes = (self.reads, self.writes, self.deletions)

    def hang(self, lane: str, sleep: Callable[[float], None]) -> None:
        """Let `reads` or `writes` stand still; `sleep` is called where somebody waits for it."""
        stepped: SteppedLane = getattr(self, lane)
        stepped.is_hanging, stepped.sleep = True, sleep

    def go_on(self) -> None:
        for lane in (self.reads, self.writes, self.deletions):
            lane.is_hanging = False
