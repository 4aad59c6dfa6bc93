"""What those that wait are told of their place in the queue, and when.

Used by `engine.core`, after each step. A place is told when a request comes and whenever it gets on. The order also moves back,
with every token that is served to somebody else: that is told once a second, since nobody watches it that closely. Pure.
"""

from __future__ import annotations

from engine.sequence import Sequence
from engine.waiting_queue import WaitingQueue

TELL_SETBACKS_EVERY_S = 1.0


class QueuePositions:
    """Owns what was told. A request that has run before hears nothing: its reader sees an answer that pauses."""

    def __init__(self) -> None:
        self._told: dict[Sequence, int] = {}
        self._told_at = float("-inf")
        self._changes_seen = 0

    def news(self, queue: WaitingQueue[Sequence], now: float) -> list[tuple[Sequence, int]]:
        """Who is to be told which place; 1 is the next to start."""
        is_time = now >= self._told_at + TELL_SETBACKS_EVERY_S
        if queue.num_changes == self._changes_seen and not is_time:
            return []
        self._changes_seen = queue.num_changes
        self._told_at = now if is_time else self._told_at
        before, self._told = self._told, {}
        news = []
        for place, sequence in enumerate(queue.in_order(now), start=1):
            if sequence.num_preemptions:
                continue
            told = before.get(sequence)
            if told is None or place < told or (place > told and is_time):
                news.append((sequence, place))
                told = place
            self._told[sequence] = told
        return news
