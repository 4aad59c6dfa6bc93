"""Whether there is room for one more sequence, and who gives way where there is not.

Used by `engine.scheduler`, in the engine thread. Pure: it looks at sequences and at the page pool, and changes nothing.

Seniority: the higher class first, where one that has been here long counts as of a higher class (`engine.ageing`), then by
arrival. The first in seniority is never preempted, and everybody becomes the first at some time: so everybody ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.ageing import is_lower, rank
from engine.kv_reserve import KVReserve
from engine.pages import PagePool, pages_for
from engine.sequence import Sequence as TokenSequence
from engine.step_size import StepLoad, StepSize
from engine.types import Priority


class Room:
    """Owns the limits: the pages of the pool with their reserve, the number of sequences, and the length of a step."""

    def __init__(self, pool: PagePool, reserve: KVReserve, step_size: StepSize, max_running: int) -> None:
        self._pool = pool
        self._reserve = reserve
        self._step_size = step_size
        self._max_running = max_running

    def has_place(self, sequence: TokenSequence, others: Sequence[TokenSequence]) -> bool:
        """Whether one more may run beside these: by their number, and by how long a step with all of them would take."""
        return len(others) < self._max_running and self._step_size.may_join(load_of(others), len(sequence.tokens))

    def may_start_any(self, running: Sequence[TokenSequence], restoring: Sequence[TokenSequence]) -> bool:
        """Whether it is worth looking at who waits: there is a place, or somebody who may have to leave his."""
        is_full = len(running) + len(restoring) >= self._max_running
        return not is_full or any(is_lower(other.priority, Priority.INTERACTIVE) for other in running)

    def who_gives_way(
        self,
        sequence: TokenSequence,
        shared_pages: int,
        running: Sequence[TokenSequence],
        restoring: Sequence[TokenSequence],
        now: float,
    ) -> list[TokenSequence] | None:
        """Running sequences of lower classes to be preempted, the last in seniority first, so that this one fits; mostly none.

        None where it does not fit even then. `shared_pages` are those it needs and others hold. Whoever has waited long enough
        to count as of its class is safe, so it happens to no sequence for ever.
        """
        leaving: list[TokenSequence] = []
        if self._fits(sequence, shared_pages, [*running, *restoring], leaving):
            return leaving
        its_rank = _rank(sequence, now)
        for other in reversed(by_seniority(running, now)):
            if is_lower(other.priority, sequence.priority) and _rank(other, now) > its_rank:
                leaving.append(other)
                # What it shares with one that leaves is not in use any more, so nothing is counted as shared.
                if self._fits(sequence, 0, [*running, *restoring], leaving):
                    return leaving
        return None

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


def by_seniority(sequences: Iterable[TokenSequence], now: float) -> list[TokenSequence]:
    return sorted(sequences, key=lambda sequence: (_rank(sequence, now), sequence.arrival))


def load_of(answers: Sequence[TokenSequence]) -> StepLoad:
    """A step in which each of these takes one token."""
    return StepLoad(answers=len(answers), answer_reads=sum(len(sequence.tokens) for sequence in answers))


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
