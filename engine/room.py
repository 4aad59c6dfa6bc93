"""Whether there is room for one more sequence, and who gives way where there is not.

Used by `engine.scheduler`, in the engine thread. Pure: it looks at sequences and at the page pool, and changes nothing.

Seniority: the higher class first, where one that has been here long counts as of a higher class (`engine.ageing`), then by
arrival. The first in seniority is never preempted, and everybody becomes the first at some time: so everybody ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from engine.ageing import OVERDUE, is_lower, rank
from engine.errors import PromptTooLong
from engine.fair_shares import Account
from engine.kv_reserve import KVReserve
from engine.pages import PagePool, pages_for
from engine.sequence import Sequence as TokenSequence
from engine.step_plan import StepPlan
from engine.step_size import StepLoad, StepSize
from engine.types import Priority

LARGE_SHARE = 0.25
"""The part of all places above which an account may have to give one back. Below it, places come free often enough."""

SLOWER = 1.5
"""By more than that no estimate is wrong: what is expected to take so many times as long as it did, does on a slower machine."""


class Room:
    """Owns the limits: the pages of the pool with their reserve, the number of sequences, and the length of a step."""

    def __init__(self, pool: PagePool, reserve: KVReserve, step_size: StepSize, max_running: int) -> None:
        self._pool = pool
        self._reserve = reserve
        self._step_size = step_size
        self._max_running = max_running
        # Whoever has that many keeps one at least, so that two never take each other's place for ever.
        self._large_share = max(1.0, max_running * LARGE_SHARE)

    def has_place(self, sequence: TokenSequence, others: Sequence[TokenSequence]) -> bool:
        """Whether one more may run beside these: by their number, and by how long a step with all of them would take."""
        if len(others) >= self._max_running:
            return False
        return self._step_size.may_join(load_of(others), len(sequence.tokens), usual_s(others, self._step_size))

    def fits(self, sequence: TokenSequence, shared_pages: int, others: Sequence[TokenSequence]) -> bool:
        """Whether it may run beside these. `shared_pages` are those it needs and they hold."""
        return self._fits(sequence, shared_pages, others, ())

    def may_start_any(self, in_engine: Sequence[TokenSequence]) -> bool:
        """Whether it is worth asking who is next: there is a place, or somebody who may have to give his up."""
        places = Counter(one.account for one in in_engine)
        return (
            len(in_engine) < self._max_running
            or any(is_lower(one.priority, Priority.INTERACTIVE) for one in in_engine)
            or max(places.values()) > self._large_share
        )

    def displacement(
        self,
        order: Sequence[TokenSequence],
        running: Sequence[TokenSequence],
        restoring: Sequence[TokenSequence],
        now: float,
        awaits: Callable[[TokenSequence], bool],
    ) -> tuple[TokenSequence, list[TokenSequence]] | None:
        """The first in the order that others have to give way to, and those others; mostly nobody. One that `awaits` something
        is passed over."""
        in_engine = [*running, *restoring]
        seen: set[tuple[Account | None, Priority]] = set()
        for sequence in order:
            if (kind := (sequence.account, sequence.priority)) not in seen and not awaits(sequence):
                seen.add(kind)
                if leaving := self._who_gives_way(sequence, running, in_engine, now):
                    return sequence, leaving
        return None

    def _who_gives_way(
        self, sequence: TokenSequence, running: Sequence[TokenSequence], in_engine: Sequence[TokenSequence], now: float
    ) -> list[TokenSequence]:
        """Running sequences to be preempted so that this one fits, the last in seniority first; none where that does not help."""
        places = Counter(one.account for one in in_engine)
        leaving: list[TokenSequence] = []
        for other in reversed(by_seniority(running, now)):
            if outranks(sequence, other, now) or self._holds_too_much(other, sequence, places, now):
                leaving.append(other)
                places[other.account] -= 1
                # What it shares with one that leaves is not in use any more, so nothing is counted as shared.
                if self._fits(sequence, 0, in_engine, leaving):
                    return leaving
        return []

    def _holds_too_much(
        self, other: TokenSequence, sequence: TokenSequence, places: Counter[Account | None], now: float
    ) -> bool:
        """Whether the account of `other` has so many places that it has to give one to an account that has none and was kept
        waiting for long: otherwise whoever fills all places with long answers has them until those end."""
        if places[sequence.account] or _rank(sequence, now) > OVERDUE or is_lower(sequence.priority, other.priority):
            return False
        even = places.total() / (len(places) + 1)
        return places[other.account] > max(self._large_share, even)

    def fit_running(
        self, running: Sequence[TokenSequence], now: float
    ) -> tuple[list[TokenSequence], list[TokenSequence]]:
        """By seniority, the sequences that can take at least one token each, and the last, who give way for that."""
        keep, leaving = by_seniority(running, now), list[TokenSequence]()
        free = self._pool.num_free + self._pool.num_evictable
        wanted = sum(map(pages_for_one_more, keep))
        while wanted > free and len(keep) > 1:
            last = keep.pop()
            leaving.append(last)
            wanted -= pages_for_one_more(last)
            free += self.num_returned([last])
        return keep, leaving

    def num_returned(self, leaving: Iterable[TokenSequence]) -> int:
        """Pages that are free or evictable once these have given theirs back."""
        return sum(self._pool.num_sequences(page) == 1 for sequence in leaving for page in sequence.pages)

    def _fits(
        self,
        sequence: TokenSequence,
        shared_pages: int,
        in_engine: Sequence[TokenSequence],
        leaving: Sequence[TokenSequence],
    ) -> bool:
        others = [other for other in in_engine if other not in leaving]
        promised = sum(map(_pages_promised, others))
        return self.has_place(sequence, others) and self._reserve.admits(
            pages_for(len(sequence.tokens)) - shared_pages,
            sum(map(_pages_of_growth, [*others, sequence])),
            self._pool.num_free + self._pool.num_evictable + self.num_returned(leaving) - promised,
            is_alone=not others,
        )


def require_room(prompt_tokens: int, max_sequence_tokens: int) -> None:
    """Raise PromptTooLong unless the prompt leaves room for one token of an answer."""
    if prompt_tokens >= max_sequence_tokens:
        raise PromptTooLong(prompt_tokens, max_sequence_tokens - 1)


def outranks(sequence: TokenSequence, other: TokenSequence, now: float) -> bool:
    """Whether one may take the place of another: it is of a higher class, and the other has not been here for so long that it
    counts as of the same. So it happens to no sequence for ever."""
    return is_lower(other.priority, sequence.priority) and _rank(other, now) > _rank(sequence, now)


def by_seniority(sequences: Iterable[TokenSequence], now: float) -> list[TokenSequence]:
    return sorted(sequences, key=lambda sequence: (_rank(sequence, now), sequence.arrival))


def load_of(answers: Sequence[TokenSequence]) -> StepLoad:
    """A step in which each of these takes one token."""
    return StepLoad(answers=len(answers), answer_reads=sum(len(sequence.tokens) for sequence in answers))


def is_watched(answers: Iterable[TokenSequence]) -> bool:
    """Whether anybody reads one of these as it comes; nobody watches background work."""
    return any(answer.priority is not Priority.BACKGROUND for answer in answers)


def usual_s(answers: Iterable[TokenSequence], step_size: StepSize) -> float | None:
    """Seconds between two tokens that the quickest of these is used to, of those that are watched; longer where the machine has
    been slower for long."""
    paces = (answer.pace.usual for answer in answers if answer.priority is not Priority.BACKGROUND)
    # Answers that began together have the same steps.
    usual = {(pace[0], id(pace[1])): pace for pace in paces if pace is not None}
    return min((_now(seconds, step_size.lasting_seconds(load)) for seconds, load in usual.values()), default=None)


def _now(seconds: float, expected: float) -> float:
    """What a step that took so long would take, where another time is expected of it now."""
    return expected if expected > SLOWER * seconds else seconds


def note_pace(plan: StepPlan, took_s: float) -> None:
    """Remember for each answer how long its token took."""
    load = plan.load
    for item in plan.run:
        if item.is_answer:
            item.sequence.pace.note(took_s, load)


def pages_for_one_more(sequence: TokenSequence) -> int:
    """Pages that a sequence lacks for its next token."""
    return max(0, pages_for(sequence.num_computed + 1) - len(sequence.pages))


def _pages_promised(sequence: TokenSequence) -> int:
    return max(0, pages_for(len(sequence.tokens)) - len(sequence.pages))


def _pages_of_growth(sequence: TokenSequence) -> int:
    """Pages that the answer may still need beyond those it has or was promised."""
    return max(0, pages_for(sequence.max_tokens) - max(len(sequence.pages), pages_for(len(sequence.tokens))))


def _rank(sequence: TokenSequence, now: float) -> int:
    return rank(sequence.priority, now - sequence.queued_at)
