"""Prompts that begin alike and come together: one computes the common beginning, and the others start behind it.

Used by `engine.scheduler`. Pure. Without this all of them would be let in before the first has anything to share, and each would
compute the same pages: sixteen chats that begin with one system prompt of 400 tokens compute 6,400 tokens for the 400.

The keys of pages say who may share what (`engine.page_keys`), so nobody waits for what somebody else's prompt looks like. A queue
of a thousand is looked through in every step, so keys are made only where the tokens of the page are alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.ageing import is_lower
from engine.config import PAGE_TOKENS
from engine.page_keys import PageKey
from engine.prefix_cache import PrefixCache
from engine.sequence import Sequence, SequenceState
from engine.step_plan import StepPlan
from engine.types import Namespace, Priority
from engine.waiting_queue import goes_first

MAX_SLOW_STEPS = 4
"""Steps in a row in which the one that computes may get less than an even share of the prompts' tokens. A long prompt may get
next to nothing for as long as shorter ones come, and a short one that begins like it must not stand behind all of them."""


@dataclass(frozen=True, slots=True)
class Underway:
    """The next page that a running prompt computes for others, too."""

    place: int
    key: PageKey
    tokens: list[int]
    namespace: Namespace | None
    priority: Priority


class SharedBeginnings:
    """Owns how slowly running prompts get on."""

    def __init__(self, cache: PrefixCache) -> None:
        self._cache = cache
        self._slow_steps: dict[Sequence, int] = {}

    def planned(self, plan: StepPlan) -> None:
        """The next step computes this."""
        shares = {item.sequence: item.num_tokens for item in plan.run if not item.is_answer}
        shares |= {sequence: 0 for sequence in plan.wait if sequence.state is SequenceState.RUNNING}
        total = sum(shares.values())
        self._slow_steps = {
            sequence: self._slow_steps.get(sequence, 0) + 1
            for sequence, share in shares.items()
            if share * len(shares) < total
        }

    def underway(self, running: Iterable[Sequence]) -> list[Underway]:
        """What these compute next; not what another one has computed before them, and not what may take them long."""
        pages = []
        for other in running:
            place = other.num_published
            is_whole = place < min(len(other.page_keys), other.num_prompt_tokens // PAGE_TOKENS)
            if not is_whole or self._slow_steps.get(other, 0) >= MAX_SLOW_STEPS:
                continue
            if not self._cache.is_on_device(key := other.page_keys[place]):
                tokens = other.tokens[place * PAGE_TOKENS : (place + 1) * PAGE_TOKENS]
                pages.append(Underway(place, key, tokens, other.namespace, other.priority))
        return pages

    def awaits(self, sequence: Sequence, underway: Iterable[Underway]) -> bool:
        """Whether one of these pages is one that `sequence` needs as well.

        A key stands for everything up to its page, so this one comparison says that they begin alike up to there and that it is
        not there yet. Whoever was passed too often waits for nobody, and nobody waits for what is done in the background.
        """
        if sequence.namespace is None or goes_first(sequence):
            return False
        return any(self._needs(sequence, sequence.namespace, page) for page in underway)

    def _needs(self, sequence: Sequence, namespace: Namespace, page: Underway) -> bool:
        start, end = page.place * PAGE_TOKENS, (page.place + 1) * PAGE_TOKENS
        # The last token is always computed, so the page that it ends is of no use.
        if end >= len(sequence.tokens) or is_lower(page.priority, sequence.priority):
            return False
        may_share = end <= sequence.public_tokens or page.namespace == namespace
        if not may_share or sequence.tokens[start:end] != page.tokens:
            return False
        if len(sequence.page_keys) <= page.place:
            self._cache.page_keys(sequence.tokens[:end], namespace, sequence.public_tokens, sequence.page_keys)
        return sequence.page_keys[page.place] == page.key
