"""What those that wait hear of their place: the near ones at once, the others now and then, and everybody in the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from engine.queue_positions import NEAR_PLACES, TELL_OTHERS_EVERY_S, TELL_SETBACKS_EVERY_S, QueuePositions
from engine.sequence import Sequence
from engine.waiting_queue import WaitingQueue


@dataclass(eq=False)
class Waiting:
    name: int
    num_preemptions: int = 0


@dataclass
class Queue:
    """As much of a queue as positions look at."""

    order: list[Waiting] = field(default_factory=list)
    num_changes: int = 0

    def in_order(self, now: float) -> list[Waiting]:
        return self.order

    def leave(self, place: int) -> None:
        del self.order[place - 1]
        self.num_changes += 1


def told(positions: QueuePositions, queue: Queue, now: float) -> list[tuple[int, int]]:
    news = positions.news(cast(WaitingQueue[Sequence], queue), now)
    return [(cast(Waiting, sequence).name, place) for sequence, place in news]


def test_near_places_are_told_at_once_and_far_ones_four_times_a_second() -> None:
    positions, queue = QueuePositions(), Queue([Waiting(name) for name in range(1, 101)], num_changes=1)
    assert told(positions, queue, 0.0) == [(name, name) for name in range(1, 101)]
    queue.leave(1)
    assert told(positions, queue, 0.01) == [(place + 1, place) for place in range(1, NEAR_PLACES + 1)]
    queue.leave(1)
    assert [place for _, place in told(positions, queue, 0.02)] == list(range(1, NEAR_PLACES + 1))
    assert told(positions, queue, 0.03) == []
    # Nothing has changed since, and they hear of it all the same.
    late = told(positions, queue, TELL_OTHERS_EVERY_S)
    assert late == [(place + 2, place) for place in range(NEAR_PLACES + 1, 99)]
    assert told(positions, queue, TELL_OTHERS_EVERY_S + 0.3) == []


def test_setbacks_are_told_once_a_second_and_who_has_run_hears_nothing() -> None:
    positions, queue = QueuePositions(), Queue([Waiting(1), Waiting(2), Waiting(3, num_preemptions=1)], num_changes=1)
    assert told(positions, queue, 0.0) == [(1, 1), (2, 2)]
    queue.order.reverse()
    queue.num_changes += 1
    assert told(positions, queue, 0.5) == []
    assert told(positions, queue, TELL_SETBACKS_EVERY_S) == [(1, 3)]
