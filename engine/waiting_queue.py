"""The order in which waiting sequences are considered for starting.

Used by `engine.scheduler`, in the engine thread; who fits into memory is decided there. Pure: the time is handed in.

    1  the lower rank: interactive, bot, background; each AGEING_S of waiting lifts by one, up to overdue (`engine.ageing`)
    2  in a rank, first those that were preempted, or passed MAX_TIMES_PASSED times, by arrival
    3  then the account that was served least (`engine.fair_shares`); overdue ones by the time waited instead
    4  in an account, the order of arrival

The requests of one account and one class stand in a lane, and only the first of a lane ages, from the lane's last start on.
So a thousand requests of one account get older one at a time, and never push others back.

Nothing starves: the first of a lane is overdue after at most 3 x AGEING_S. From then on only those start before it that are
overdue longer (at most one a lane, since a start makes the lane young again), those of rule 2, and MAX_TIMES_PASSED small
ones. Nothing here knows what is cached, so the order tells nobody what somebody else has asked before.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, TypeVar

from engine.ageing import OVERDUE, rank
from engine.fair_shares import Account, FairShares
from engine.types import Counts, Priority

MAX_TIMES_PASSED = 8
"""Sequences that may start before one that comes first and does not fit yet. Small requests profit, and its wait is bounded."""


class Waiting(Protocol):
    """What the order depends on. `arrival` and `queued_at` grow together."""

    arrival: int
    queued_at: float
    priority: Priority
    account: Account | None
    num_prompt_tokens: int
    num_preemptions: int
    times_passed: int


S = TypeVar("S", bound=Waiting)


@dataclass(slots=True)
class Lane(Generic[S]):
    """Requests of one account and one class, by arrival."""

    account: Account | None
    priority: Priority
    sequences: list[S] = field(default_factory=list)
    last_start_at: float = float("-inf")


class WaitingQueue(Generic[S]):
    """Owns who waits. Invariant: a sequence is in one lane or among the first, and an empty lane is forgotten."""

    def __init__(self, shares: FairShares) -> None:
        self._shares = shares
        self._lanes: dict[tuple[Account | None, Priority], Lane[S]] = {}
        self._first: list[S] = []
        """Preempted, or passed too often, by arrival."""
        self.num_changes = 0
        """Grows with everybody who comes or goes."""

    def __len__(self) -> int:
        return len(self._first) + sum(len(lane.sequences) for lane in self._lanes.values())

    def __iter__(self) -> Iterator[S]:
        """In no order that means anything; see `in_order`."""
        yield from self._first
        for lane in self._lanes.values():
            yield from lane.sequences

    def add(self, sequence: S) -> None:
        """Let a new or a preempted sequence wait. Its account must have entered the shares."""
        self.num_changes += 1
        if goes_first(sequence):
            insort(self._first, sequence, key=_arrival)
            return
        account, priority = sequence.account, sequence.priority
        if not any((account, other) in self._lanes for other in Priority):
            self._shares.forfeit_credit(account)
        lane = self._lanes.setdefault((account, priority), Lane(account, priority))
        insort(lane.sequences, sequence, key=_arrival)

    def remove(self, sequence: S) -> None:
        """A sequence does not wait any more. Raises KeyError where it did not."""
        self.num_changes += 1
        if goes_first(sequence):
            _take(self._first, sequence)
            return
        key = (sequence.account, sequence.priority)
        lane = self._lanes[key]
        _take(lane.sequences, sequence)
        if not lane.sequences:
            del self._lanes[key]

    def start(self, sequence: S, now: float) -> None:
        """A sequence starts: it leaves the queue, and its account is charged its prompt, once."""
        lane = self._lanes.get((sequence.account, sequence.priority))
        if lane is not None and lane.sequences[0] is sequence:
            lane.last_start_at = now
        self.remove(sequence)
        if not sequence.num_preemptions:
            self._shares.serve(sequence.account, sequence.num_prompt_tokens)

    def count_pass(self, sequence: S) -> None:
        """One that comes after it in the order has started before it. After MAX_TIMES_PASSED it is among the first."""
        self.remove(sequence)
        sequence.times_passed += 1
        self.add(sequence)

    def count_by_priority(self) -> Counts:
        counts = Counter(sequence.priority for sequence in self)
        return tuple((priority.value, counts[priority]) for priority in Priority)

    def in_order(self, now: float) -> list[S]:
        """Everybody who waits, as they would start one after the other if each start happened now. Changes nothing."""
        order: list[S] = []
        charged: Counter[Account | None] = Counter()
        places: dict[int, int] = {}
        heap: list[tuple[_Key, S, Lane[S] | None]]
        heap = [(_first_key(sequence, now), sequence, None) for sequence in self._first]
        heap += [(self._lane_key(lane, 0, 0, now), lane.sequences[0], lane) for lane in self._lanes.values()]
        heapify(heap)
        while heap:
            key, sequence, lane = heappop(heap)
            if lane is not None:
                place = places.get(id(lane), 0)
                current = self._lane_key(lane, place, charged[lane.account], now)
                if key < current:
                    # Others of the account have had their turn since this one was weighed.
                    heappush(heap, (current, sequence, lane))
                    continue
                charged[lane.account] += sequence.num_prompt_tokens
                places[id(lane)] = place = place + 1
                if place < len(lane.sequences):
                    key = self._lane_key(lane, place, charged[lane.account], now)
                    heappush(heap, (key, lane.sequences[place], lane))
            order.append(sequence)
        return order

    def _lane_key(self, lane: Lane[S], place: int, charged: int, now: float) -> _Key:
        """The weight of the `place`-th of a lane, once those before it have started and `charged` tokens were served."""
        sequence = lane.sequences[place]
        since = now if place else max(sequence.queued_at, lane.last_start_at)
        its_rank = rank(lane.priority, now - since)
        weight = since if its_rank == OVERDUE else self._shares.served(lane.account) + charged
        # Served alike, as one that has just come and one that was alone: who has not had a turn yet.
        last_start_at = now if place else lane.last_start_at
        return its_rank, 1, weight, last_start_at, sequence.arrival


def goes_first(sequence: Waiting) -> bool:
    """Whether it goes before all others of its rank, and none may pass it: what it has waited for must not be lost.

    A preempted one is overtaken by nobody who came later (vllm-project/vllm#41951).
    """
    return sequence.num_preemptions > 0 or sequence.times_passed >= MAX_TIMES_PASSED


_Key = tuple[int, int, float, float, int]
"""Rank, 0 for the first, then the weight, the lane's last start, and the arrival, which no two share."""


def _first_key(sequence: Waiting, now: float) -> _Key:
    return rank(sequence.priority, now - sequence.queued_at), 0, 0.0, 0.0, sequence.arrival


def _arrival(sequence: Waiting) -> int:
    return sequence.arrival


def _take(sequences: list[S], sequence: S) -> None:
    place = bisect_left(sequences, sequence.arrival, key=_arrival)
    if place == len(sequences) or sequences[place] is not sequence:
        raise KeyError(sequence.arrival)
    del sequences[place]
