"""Decides what each engine step computes: which sequences run and how many of their tokens, who is preempted, who waits.

Used by `engine.core`, in the engine thread. `plan` changes nothing and returns a value; `commit` carries it out. Pure: no
torch, no clock, no asyncio.

    budget of one step, `max_step_tokens`
    |d|d|d|d|d| oldest prompt, at least half | shorter prompts first ………………… |
     decodes: one token for every running answer, always

Memory: a sequence is admitted when the pages for all its tokens are free, beside those already promised and a reserve that
lets running answers grow. When pages run out all the same, the youngest running sequences give theirs back and compute
again later, so the oldest one always moves.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

from engine.config import PAGE_TOKENS
from engine.errors import EngineError, PromptTooLong
from engine.pages import PagePool, pages_for
from engine.sequence import Sequence, SequenceState

MAX_TIMES_PASSED = 8
"""Later arrivals that may start before a sequence that does not fit yet. Small requests profit, and the wait stays bounded."""

RESERVE_PAGES = 2
"""Pages kept free for each running answer when another is admitted: 32 tokens each, so that admission does not at once lead
to preemption."""


class EngineStalled(EngineError):
    """Sequences are there and none can run: a bug, whatever the load (vllm-project/vllm#45388)."""

    def __init__(self, waiting: int, running: int, free_pages: int, num_pages: int) -> None:
        super().__init__(
            f"{waiting} sequences wait and {running} hold memory, but none can run; {free_pages} of {num_pages} pages are free"
        )


@dataclass(frozen=True, slots=True)
class Scheduled:
    """Tokens `start` to `end` of a sequence are computed in this step."""

    sequence: Sequence
    start: int
    end: int

    @property
    def num_tokens(self) -> int:
        return self.end - self.start

    @property
    def samples(self) -> bool:
        """Whether the step reaches the sequence's last token, so that the next one can be sampled."""
        return self.end == len(self.sequence.tokens)


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What one step does. Every sequence is in exactly one of the three; those in `wait` keep the pages they have."""

    run: tuple[Scheduled, ...]
    preempt: tuple[Sequence, ...]
    wait: tuple[Sequence, ...]


class Scheduler:
    """Owns the queue, the set of running sequences and the page pool.

    Invariant: a sequence is in `waiting` or in `running`, by its state, and each page is held by one running sequence.
    """

    def __init__(self, pool: PagePool, *, max_context_tokens: int, max_step_tokens: int, max_running: int) -> None:
        self.pool = pool
        self.max_sequence_tokens = min(max_context_tokens, pool.num_pages * PAGE_TOKENS)
        """Most tokens one sequence can have, prompt and answer together."""
        self._max_step_tokens = max_step_tokens
        # Every running sequence may then take a token in every step, so no answer pauses for want of budget.
        self._max_running = min(max_running, max_step_tokens)
        self._waiting: list[Sequence] = []
        self._running: list[Sequence] = []
        self.num_preemptions = 0

    @property
    def waiting(self) -> tuple[Sequence, ...]:
        """In the order of arrival."""
        return tuple(self._waiting)

    @property
    def running(self) -> tuple[Sequence, ...]:
        """In the order of arrival."""
        return tuple(self._running)

    @property
    def has_work(self) -> bool:
        return bool(self._waiting or self._running)

    def add(self, sequence: Sequence) -> None:
        """Queue a new sequence. Raises PromptTooLong where it could never produce a token."""
        require_room(sequence.num_prompt_tokens, self.max_sequence_tokens)
        _insert(self._waiting, sequence)

    def remove(self, sequence: Sequence) -> None:
        """End a sequence, whatever its state; its pages are free at once. Again for a finished one: nothing happens."""
        if sequence.state is SequenceState.FINISHED:
            return
        _take(self._waiting if sequence.state is SequenceState.WAITING else self._running, sequence)
        self._drop_pages(sequence)
        sequence.state = SequenceState.FINISHED

    def plan(self) -> StepPlan:
        """What the next step should do. Raises EngineStalled where sequences are there and none could run."""
        keep, preempt = self._fit_running()
        admit = [] if preempt else self._admissible()
        run = tuple(self._share_budget(sorted(keep + admit, key=_by_arrival), preempt))
        scheduled = {id(item.sequence) for item in run} | {id(sequence) for sequence in preempt}
        wait = tuple(sequence for sequence in self._running + self._waiting if id(sequence) not in scheduled)
        if not run and self.has_work:
            raise EngineStalled(len(self._waiting), len(self._running), self.pool.num_free, self.pool.num_pages)
        return StepPlan(run, tuple(preempt), wait)

    def commit(self, plan: StepPlan) -> None:
        """Free the pages of the preempted, allocate those of the scheduled, and move sequences between the lists."""
        for sequence in plan.preempt:
            self._preempt(sequence)
        for scheduled in plan.run:
            sequence = scheduled.sequence
            if sequence.state is SequenceState.WAITING:
                self._begin(sequence)
            sequence.pages += self.pool.allocate(pages_for(scheduled.end) - len(sequence.pages))

    def advance(self, plan: StepPlan) -> None:
        """The step has been computed: the KV of its tokens is there."""
        for scheduled in plan.run:
            scheduled.sequence.num_computed = scheduled.end

    def check_integrity(self) -> None:
        """Raise where lists, states and pages contradict each other."""
        for sequences, state in ((self._waiting, SequenceState.WAITING), (self._running, SequenceState.RUNNING)):
            arrivals = [sequence.arrival for sequence in sequences]
            if arrivals != sorted(set(arrivals)) or any(sequence.state is not state for sequence in sequences):
                raise EngineError(f"the list of {state.name} sequences is out of order or holds one in another state")
        if any(sequence.pages or sequence.num_computed for sequence in self._waiting):
            raise EngineError("a waiting sequence holds pages")
        if any(len(sequence.pages) < pages_for(sequence.num_computed) for sequence in self._running):
            raise EngineError("a running sequence has fewer pages than tokens computed")
        self.pool.check_integrity(page for sequence in self._running for page in sequence.pages)

    # --- planning: nothing below changes anything, up to `_begin` ----------------------------------------------------

    def _fit_running(self) -> tuple[list[Sequence], list[Sequence]]:
        """The running sequences that can take at least one token each, and the youngest, who must give way for that."""
        keep, preempt = list(self._running), list[Sequence]()
        free = self.pool.num_free
        wanted = sum(map(_pages_for_one_more, keep))
        while wanted > free and len(keep) > 1:
            youngest = keep.pop()
            preempt.append(youngest)
            wanted -= _pages_for_one_more(youngest)
            free += len(youngest.pages)
        return keep, preempt

    def _admissible(self) -> list[Sequence]:
        """Waiting sequences whose memory is there, by arrival; a few may pass one that does not fit yet."""
        admit: list[Sequence] = []
        slots = self._max_running - len(self._running)
        available = self.pool.num_free - sum(
            pages_for(len(sequence.tokens)) - len(sequence.pages) + RESERVE_PAGES for sequence in self._running
        )
        passes_left = MAX_TIMES_PASSED
        is_first_blocked = True
        for sequence in self._waiting:
            if len(admit) == slots or not passes_left:
                break
            needed = pages_for(len(sequence.tokens))
            # Alone in the engine a sequence needs no reserve: `add` made sure that all of it fits.
            alone = not self._running and not admit
            if needed <= available or alone:
                admit.append(sequence)
                available -= needed + RESERVE_PAGES
                if not is_first_blocked:
                    passes_left -= 1
            else:
                is_first_blocked = False
                passes_left = min(passes_left, _passes_left(sequence))
        return admit

    def _share_budget(self, sequences: list[Sequence], preempt: list[Sequence]) -> Iterable[Scheduled]:
        """Divide the step's tokens, as the picture above says, as far as the free pages reach."""
        shares = {id(sequence): 1 for sequence in sequences}
        prompts = [sequence for sequence in sequences if sequence.num_pending > 1]
        budget = self._max_step_tokens - (len(sequences) - len(prompts))
        shares.update(_share_among_prompts(prompts, budget))
        free = self.pool.num_free + sum(len(sequence.pages) for sequence in preempt)
        spare = free - sum(_pages_for_one_more(sequence) for sequence in sequences if shares[id(sequence)])
        for sequence in sequences:
            if not (share := shares[id(sequence)]):
                continue
            at_least = _pages_for_one_more(sequence)
            room = (len(sequence.pages) + at_least + spare) * PAGE_TOKENS - sequence.num_computed
            end = sequence.num_computed + min(share, room)
            spare -= max(0, pages_for(end) - len(sequence.pages) - at_least)
            if end > sequence.num_computed:
                yield Scheduled(sequence, sequence.num_computed, end)

    # --- changes -----------------------------------------------------------------------------------------------------

    def _begin(self, sequence: Sequence) -> None:
        _take(self._waiting, sequence)
        for other in self._waiting:
            if other.arrival > sequence.arrival:
                break
            other.times_passed += 1
        sequence.state = SequenceState.RUNNING
        _insert(self._running, sequence)

    def _preempt(self, sequence: Sequence) -> None:
        _take(self._running, sequence)
        self._drop_pages(sequence)
        sequence.state = SequenceState.WAITING
        sequence.num_preemptions += 1
        self.num_preemptions += 1
        _insert(self._waiting, sequence)

    def _drop_pages(self, sequence: Sequence) -> None:
        # The last page first, so that the next sequence gets them in their order again.
        self.pool.free(reversed(sequence.pages))
        sequence.pages = []
        sequence.num_computed = 0


def require_room(prompt_tokens: int, max_sequence_tokens: int) -> None:
    """Raise PromptTooLong unless the prompt leaves room for one token of an answer."""
    if prompt_tokens >= max_sequence_tokens:
        raise PromptTooLong(prompt_tokens, max_sequence_tokens - 1)


def _share_among_prompts(prompts: list[Sequence], budget: int) -> dict[int, int]:
    """Tokens for each sequence that has more than one pending, by id; they are at most `budget` in all.

    The oldest is sure of half, so that it gets on however many short ones come. The rest goes to those that are overdue,
    then to the shortest, whose answers can begin soonest. A step that completes a short prompt is kept short: the others
    take at most twice its tokens, so that a long prompt hardly delays the first word of a small one
    (sgl-project/sglang#10063).
    """
    if not prompts:
        return {}
    oldest = prompts[0]
    kept_for_oldest = min(oldest.num_pending, max(1, budget // 2))
    left = budget - kept_for_oldest
    shares: dict[int, int] = {}
    completed_tokens = 0
    for sequence in sorted(prompts, key=_urgency):
        kept = kept_for_oldest if sequence is oldest else 0
        share = min(sequence.num_pending, left + kept)
        left -= share - kept
        shares[id(sequence)] = share
        completed_tokens += share if share == sequence.num_pending else 0
    if completed_tokens:
        others = max(PAGE_TOKENS, 2 * completed_tokens)
        for sequence in prompts:
            if shares[id(sequence)] < sequence.num_pending:
                shares[id(sequence)] = min(shares[id(sequence)], others)
                others -= shares[id(sequence)]
    return shares


def _passes_left(sequence: Sequence) -> int:
    """How many later arrivals may still start first; none before one that was preempted (vllm-project/vllm#41951)."""
    return 0 if sequence.num_preemptions else max(0, MAX_TIMES_PASSED - sequence.times_passed)


def _urgency(sequence: Sequence) -> tuple[bool, int, int]:
    """Overdue ones by arrival, then the others by length."""
    may_wait = _passes_left(sequence) > 0
    return may_wait, sequence.num_pending if may_wait else 0, sequence.arrival


def _pages_for_one_more(sequence: Sequence) -> int:
    return pages_for(sequence.num_computed + 1) - len(sequence.pages)


def _by_arrival(sequence: Sequence) -> int:
    return sequence.arrival


def _insert(sequences: list[Sequence], sequence: Sequence) -> None:
    insort(sequences, sequence, key=_by_arrival)


def _take(sequences: list[Sequence], sequence: Sequence) -> None:
    del sequences[bisect_left(sequences, sequence.arrival, key=_by_arrival)]
