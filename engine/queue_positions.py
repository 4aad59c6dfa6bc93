"""What those that wait are told of their place in the queue, and when.

Used by `engine.core`, after each step. A place is told when a request comes, and when it gets on: at once to those who are near,
to the others four times a second, because each answer that begins moves all of them on, and a hundred that wait would be told of
little else. The order also moves back, with every token that is served to somebody else: that is told once a second, since nobody
watches it that closely. Pure.
"""

from __future__ import annotations

from engine.sequence import Sequence
from engine.waiting_queue import WaitingQueue

NEAR_PLACES = 8
TELL_OTHERS_EVERY_S = 0.25
TELL_SETBACKS_EVERY_S = 1.0


class QueuePositions:
    """Owns what was told. A request that has run before hears nothing: its reader sees an answer that pauses."""

    def __init__(self) -> None:
        self._told: dict[Sequence, int] = {}
        self._told_others_at = self._told_setbacks_at = float("-inf")
        self._has_untold = False
        self._changes_seen = 0

    def news(self, queue: WaitingQueue[Sequence], now: float) -> list[tuple[Sequence, int]]:
        """Who is to be told which place; 1 is the next to start."""
        others_too = now >= self._told_others_at + TELL_OTHERS_EVERY_S
        setbacks_too = now >= self._told_setbacks_at + TELL_SETBACKS_EVERY_S
        if queue.num_changes == self._changes_seen and not setbacks_too and not (others_too and self._has_untold):
            return []
        self._changes_seen = queue.num_changes
        self._told_others_at = now if others_too else self._told_others_at
        self._told_setbacks_at = now if setbacks_too else self._told_setbacks_at
        self._has_untold = False
        before, self._told = self._told, {}
        news = []
        for place, sequence in enumerate(queue.in_order(now), start=1):
            if sequence.num_preemptions:
                continue
            told = before.get(sequence)
            if told is None or (
                setbacks_too if place > told else place < told and (others_too or place <= NEAR_PLACES)
            ):
                news.append((sequence, place))
                told = place
            self._has_untold |= place < told
            self._told[sequence] = told
        return news
