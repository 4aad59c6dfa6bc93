"""Checks the books of the device's pages when the engine becomes idle, now and then: it looks at each, and somebody may wait.

Used by `engine.core`. What it raises means that a page might be in two hands, and ends the engine. Pure.
"""

from __future__ import annotations

from typing import Final

from engine.scheduler import Scheduler

EVERY_S: Final = 1.0


class BookCheck:
    """Owns the time of the last check."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._checked_at = float("-inf")

    def after_step(self, now: float) -> None:
        """Raises PagesCorrupt where the books contradict themselves."""
        if not self._scheduler.has_work and now >= self._checked_at + EVERY_S:
            self._checked_at = now
            self._scheduler.check_pages()
