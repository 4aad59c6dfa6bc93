"""How the tokens of one step are divided among the sequences in it: every running answer has its one, the rest is for prompts.

Used by `engine.scheduler`. Pure.

    | d d d d d | oldest prompt, at least half | shorter prompts first ………………… |
     answers      `budget`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.config import PAGE_TOKENS
from engine.pace import HABIT_TOKENS
from engine.pages import pages_for
from engine.room import is_watched, load_of, pages_for_one_more, usual_s
from engine.sequence import Sequence as TokenSequence
from engine.step_plan import Scheduled
from engine.step_size import StepSize
from engine.waiting_queue import goes_first

FACTOR_BESIDE_COMPLETED = 2
"""A step that completes short prompts computes at most so many times their tokens for the others."""


def prompt_budget(answers: Sequence[TokenSequence], prompts: Sequence[TokenSequence], step_size: StepSize) -> int:
    """Most tokens of these prompts to compute beside the answers. The one that is furthest costs most for each."""
    deepest = max((sequence.num_computed for sequence in prompts), default=0)
    later = load_of(
        [*answers, *(prompt for prompt in prompts if prompt.max_tokens - len(prompt.tokens) > HABIT_TOKENS)]
    )
    usual = usual_s(answers, step_size)
    return step_size.prompt_tokens(load_of(answers), deepest, usual, later=later, is_watched=is_watched(answers))


def share_among_prompts(prompts: Sequence[TokenSequence], budget: int) -> dict[TokenSequence, int]:
    """Tokens for each of these sequences, which have more than one pending and come in order of seniority; `budget` in all.

    The first is sure of half, so that it gets on however many short ones come. The rest goes to those that may not be passed
    any more, then to the shortest, whose answers can begin soonest. A step that completes a short prompt is kept short, so that
    a long prompt hardly delays the first word of a small one (sgl-project/sglang#10063).
    """
    if not prompts:
        return {}
    first = prompts[0]
    kept_for_first = min(first.num_pending, max(1, budget // 2))
    left = budget - kept_for_first
    shares: dict[TokenSequence, int] = {}
    completed_tokens = 0
    for sequence in sorted(prompts, key=_urgency):
        kept = kept_for_first if sequence is first else 0
        share = min(sequence.num_pending, left + kept)
        left -= share - kept
        shares[sequence] = share
        completed_tokens += share if share == sequence.num_pending else 0
    if completed_tokens:
        others = max(PAGE_TOKENS, FACTOR_BESIDE_COMPLETED * completed_tokens)
        for sequence in prompts:
            if shares[sequence] < sequence.num_pending:
                shares[sequence] = min(shares[sequence], others)
                others -= shares[sequence]
    return shares


def fit_into_pages(
    sequences: Sequence[TokenSequence], shares: dict[TokenSequence, int], free_pages: int
) -> Iterator[Scheduled]:
    """What each computes of its share: all it has pages for, once every sequence with a share has those for one token."""
    spare = free_pages - sum(pages_for_one_more(sequence) for sequence in sequences if shares[sequence])
    for sequence in sequences:
        if not (share := shares[sequence]):
            continue
        at_least = pages_for_one_more(sequence)
        room = (len(sequence.pages) + at_least + spare) * PAGE_TOKENS - sequence.num_computed
        end = sequence.num_computed + min(share, room)
        spare -= max(0, pages_for(end) - len(sequence.pages) - at_least)
        if end > sequence.num_computed:
            yield Scheduled(sequence, sequence.num_computed, end)


def _urgency(sequence: TokenSequence) -> tuple[bool, int]:
    """Those that may not be passed in their order, then the others by length; the sort keeps seniority."""
    return (False, 0) if goes_first(sequence) else (True, sequence.num_pending)
