"""Who waits for a place at the cluster, who has one, and what those that wait are told. Pure.

The order is that of the local engine (`engine.waiting_queue`): by class, fair between accounts, nothing starves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from engine.fair_shares import FairShares
from engine.remote.answer import RemoteAnswer
from engine.types import Counts, RequestId
from engine.waiting_queue import WaitingQueue


class Line:
    """Owns the live answers: `waiting` in order, `running` at most `max_running`."""

    def __init__(self, max_running: int, clock: Callable[[], float]) -> None:
        self._max_running = max_running
        self._clock = clock
        self._shares = FairShares()
        self._queue: WaitingQueue[RemoteAnswer] = WaitingQueue(self._shares)
        self._waiting: dict[RequestId, RemoteAnswer] = {}
        self.running: dict[RequestId, RemoteAnswer] = {}

    def __iter__(self) -> Iterator[RemoteAnswer]:
        yield from [*self.running.values(), *self._waiting.values()]

    def __len__(self) -> int:
        return len(self.running) + len(self._waiting)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def waiting(self) -> list[RemoteAnswer]:
        """Those without a place, by arrival."""
        return list(self._waiting.values())

    def get(self, request_id: RequestId) -> RemoteAnswer | None:
        """One that lives."""
        return self.running.get(request_id) or self._waiting.get(request_id)

    def join(self, answer: RemoteAnswer) -> None:
        """A new one waits."""
        self._shares.enter(answer.account)
        self._queue.add(answer)
        self._waiting[answer.request.request_id] = answer

    def start_next(self) -> RemoteAnswer | None:
        """Whoever is first gets a free place; None where there is none, or nobody waits."""
        if len(self.running) >= self._max_running or not self._waiting:
            return None
        now = self._clock()
        answer = self._queue.in_order(now)[0]
        self._queue.start(answer, now)
        self.running[answer.request.request_id] = self._waiting.pop(answer.request.request_id)
        return answer

    def leave(self, answer: RemoteAnswer) -> None:
        """It has ended, or waits no longer."""
        request_id = answer.request.request_id
        if self.running.pop(request_id, None) is None:
            del self._waiting[request_id]
            self._queue.remove(answer)
        self._shares.leave(answer.account)

    def new_positions(self) -> Iterator[tuple[RemoteAnswer, int]]:
        """Who has got on, or has just come, and to which place; 1 is the next to start."""
        if not self._waiting:
            return
        for position, answer in enumerate(self._queue.in_order(self._clock()), start=1):
            if answer.told_position is None or position < answer.told_position:
                answer.told_position = position
                yield answer, position

    def count_by_priority(self) -> Counts:
        """Of those that wait."""
        return self._queue.count_by_priority()
