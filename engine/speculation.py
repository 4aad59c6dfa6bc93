"""Which running answers guess their next tokens, and how many, so that one step gives them more than one token.

Used by `engine.scheduler` to plan and by `engine.core` to see what came true, in the engine thread. Pure.

    tokens    [ … the old | light house in ]     draft of 3; every row is sampled with the noise of its own position
    sampled             light house was  …      the first that differs from the draft is still a token of the answer
    accepted          [ light house was ]       what plain decoding would have sampled one by one

A draft row is computed for nothing unless all before it came true, so the likeliest come first, and only as long as a row brings
more tokens than the same time brings without it: with one answer most rows are nearly free, with many none is. Between two steps
nothing of a draft is left, neither tokens nor pages.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from engine.common_length import common_length
from engine.config import PAGE_TOKENS
from engine.pages import pages_for
from engine.row_costs import RowCosts
from engine.step_plan import Scheduled

MARGIN: Final = 1.5
"""How many times the tokens that its time is worth a draft row must promise: chances and times are estimates."""

LEAST_CHANCE: Final = 0.05
"""A row that is less likely to be of use is left out, however cheap rows seem to be."""

LEAST_PACE: Final = 0.8
"""The part of its pace that an answer keeps at least while others' drafts make the steps longer."""


class Speculation:
    """Owns the setting and the counters. `max_draft_tokens` is for one answer and step; with 0 nobody guesses."""

    def __init__(self, max_draft_tokens: int, max_step_tokens: int) -> None:
        self._max_draft_tokens = max_draft_tokens
        self._max_step_tokens = max_step_tokens
        self._costs = RowCosts()
        self.num_drafted = 0
        self.num_accepted = 0
        """Draft tokens that were computed, and those of them that came true and became part of an answer."""

    def with_drafts(self, run: Sequence[Scheduled], spare_pages: int) -> tuple[Scheduled, ...]:
        """The same, with drafts where they are worth it; no tokens and no pages change. `spare_pages` nobody needs in this step.

        Only where all are answers: prompts use the time of a step better than guesses do.
        """
        if not self._max_draft_tokens or not all(item.is_answer for item in run):
            return tuple(run)
        for item in run:
            item.sequence.lookup.follow(item.sequence.tokens)
        counts = self._counts(run)
        drafted = []
        for item, count in zip(run, counts, strict=True):
            count, pages = _fitting(item, count, spare_pages)
            spare_pages -= pages
            draft = _allowed(item, item.sequence.lookup.draft(item.sequence.tokens, count)) if count else ()
            drafted.append(replace(item, draft=draft) if draft else item)
        return tuple(drafted)

    def observe(self, run: Sequence[Scheduled], seconds: float) -> None:
        """A step took this long."""
        if self._max_draft_tokens and all(item.is_answer for item in run):
            self._costs.observe(sum(1 + len(item.draft) for item in run), seconds)

    def settled(self, scheduled: Scheduled) -> int:
        """Its tokens are sampled: how many of the draft's became part of the answer."""
        num_accepted = common_length([*scheduled.draft], scheduled.sequence.tokens[scheduled.end :])
        self.num_drafted += len(scheduled.draft)
        self.num_accepted += num_accepted
        return num_accepted

    def _counts(self, run: Sequence[Scheduled]) -> list[int]:
        """Draft tokens of each: the next likeliest row is added while it is worth its time, and nobody pays for it too dearly."""
        counts = [0] * len(run)
        rows = len(run)
        plain_s = seconds = self._costs.seconds(rows)
        chances = [item.sequence.lookup.chance for item in run]
        most = [min(self._max_draft_tokens, _num_wanted(item)) for item in run]
        # Tokens that each may expect of the step.
        tokens = [1.0] * len(run)
        likeliest = [(-chance, place) for place, chance in enumerate(chances) if chance > LEAST_CHANCE and most[place]]
        heapq.heapify(likeliest)
        while likeliest and rows < self._max_step_tokens:
            chance, place = -likeliest[0][0], likeliest[0][1]
            rows += 1
            longer_s = self._costs.seconds(rows)
            if chance * seconds < MARGIN * sum(tokens) * (longer_s - seconds):
                break
            tokens[place] += chance
            if len(run) > 1 and min(tokens) * plain_s < LEAST_PACE * longer_s:
                break
            counts[place] += 1
            seconds = longer_s
            following = chance * chances[place]
            if following > LEAST_CHANCE and counts[place] < most[place]:
                heapq.heapreplace(likeliest, (-following, place))
            else:
                heapq.heappop(likeliest)
        return counts


def accepted(draft: Sequence[int], sampled: Sequence[int | None]) -> list[int | None]:
    """What becomes part of the answer: `sampled` up to the first that differs from the draft, that one included.

    `sampled` has one more than the draft: row `i` was computed behind the draft's first `i` tokens, and holds only if those were
    sampled. None is a row without numbers.
    """
    taken: list[int | None] = []
    for place, token in enumerate(sampled):
        taken.append(token)
        if place == len(draft) or token != draft[place]:
            break
    return taken


def _allowed(item: Scheduled, draft: tuple[int, ...]) -> tuple[int, ...]:
    """As far as the answer's grammar would let it be sampled."""
    num_allowed = item.sequence.num_allowed
    return draft if num_allowed is None or not draft else draft[: num_allowed(draft)]


def _num_wanted(item: Scheduled) -> int:
    """Draft tokens that the answer still has room for, beside the one that it gets anyway."""
    return item.sequence.max_tokens - len(item.sequence.tokens) - 1


def _fitting(item: Scheduled, count: int, spare_pages: int) -> tuple[int, int]:
    """How many of `count` draft tokens have a place, and the pages that takes beside those of the item."""
    own_pages = pages_for(item.end)
    count = min(count, (own_pages + spare_pages) * PAGE_TOKENS - item.end)
    return count, pages_for(item.end + count) - own_pages
