"""Decides what each engine step computes: which sequences run and how many of their tokens, who is preempted, who waits.

Used by `engine.core`, in the engine thread. `admit` lets waiting sequences in, with what the prefix cache has of their
prompts; `plan` changes nothing and returns a value, `commit` carries it out. Pure: no torch, no clock, no asyncio.

    budget of one step, `max_step_tokens`
    |d|d|d|d|d| oldest prompt, at least half | shorter prompts first ………………… |
     decodes: one token for every running answer, always

Memory: a sequence is admitted when the pages for all its tokens are free or can be evicted, beside those already promised and
a reserve that lets running answers grow. Pages it shares with a running sequence cost nothing. When pages run out all the
same, the youngest running sequences give theirs back. What they had computed stays in the prefix cache: on the device while
there is room, then on the host, and otherwise it is computed again. So the oldest one always moves.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from engine.admission import Admission, Missing, Restoring, counted, origin
from engine.cached_page import CachedPage
from engine.config import PAGE_TOKENS
from engine.errors import EngineError, PromptTooLong
from engine.page_keys import PageKey
from engine.pages import PageId, pages_for
from engine.prefix_cache import PrefixCache, PrefixMatch
from engine.sequence import Sequence, SequenceState
from engine.step_plan import EngineStalled, Scheduled, StepPlan
from engine.types import Namespace

MAX_TIMES_PASSED = 8
"""Later arrivals that may start before a sequence that does not fit yet. Small requests profit, and the wait stays bounded."""

RESERVE_PAGES = 2
"""Pages kept free for each running answer when another is admitted: 32 tokens each, so that admission does not at once lead
to preemption."""


class Scheduler:
    """Owns the queue, and every sequence that holds pages.

    Invariant: a sequence is in `waiting`, `restoring` or `running`, by its state. A page that several hold is only read.
    """

    def __init__(self, cache: PrefixCache, *, max_context_tokens: int, max_step_tokens: int, max_running: int) -> None:
        self.cache = cache
        self.pool = pool = cache.pool
        self.max_sequence_tokens = min(max_context_tokens, pool.num_pages * PAGE_TOKENS)
        """Most tokens one sequence can have, prompt and answer together."""
        self._max_step_tokens = max_step_tokens
        # Every running sequence may then take a token in every step, so no answer pauses for want of budget.
        self._max_running = min(max_running, max_step_tokens)
        self._waiting: list[Sequence] = []
        self._running: list[Sequence] = []
        self._restoring: dict[Sequence, Restoring] = {}
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
    def restoring(self) -> tuple[Sequence, ...]:
        """In the order of admission."""
        return tuple(self._restoring)

    @property
    def has_work(self) -> bool:
        return bool(self._waiting or self._running or self._restoring)

    def add(self, sequence: Sequence) -> None:
        """Queue a new sequence. Raises PromptTooLong where it could never produce a token."""
        require_room(sequence.num_prompt_tokens, self.max_sequence_tokens)
        _insert(self._waiting, sequence)

    def remove(self, sequence: Sequence, keep_tokens: int | None = 0) -> None:
        """End a sequence, whatever its state; its pages are given back at once. Again for a finished one: nothing happens.

        The KV of its first `keep_tokens` tokens, as far as it is computed, stays in the prefix cache. With None what it
        computed is taken out of there.
        """
        if sequence.state is SequenceState.FINISHED:
            return
        if sequence.state is SequenceState.RESTORING:
            self._let_go(self._restoring.pop(sequence).missing)
            # What was to be brought may not be there yet.
            keep_tokens = 0
        else:
            _take(self._waiting if sequence.state is SequenceState.WAITING else self._running, sequence)
        if keep_tokens is None:
            computed = map(self.cache.on_device, sequence.pages[sequence.num_reused :])
            self.cache.remove([page for page in computed if page is not None])
        else:
            self._leave_behind(sequence, keep_tokens)
        self._drop_pages(sequence)
        sequence.state = SequenceState.FINISHED

    def admit(self) -> list[Admission]:
        """Let in the waiting sequences whose memory is there, by arrival; a few may pass one that does not fit yet."""
        admitted: list[Admission] = []
        promised = sum(map(_pages_promised, [*self._running, *self._restoring]))
        passes_left = MAX_TIMES_PASSED
        is_first_blocked = True
        for sequence in tuple(self._waiting):
            in_engine = len(self._running) + len(self._restoring)
            if in_engine >= self._max_running or not passes_left:
                break
            match = self._match(sequence)
            needed = pages_for(len(sequence.tokens)) - self._num_shared_in_use(match)
            # Alone in the engine a sequence needs no reserve: `add` made sure that all of it fits.
            if needed <= self.pool.num_free + self.pool.num_evictable - promised or not in_engine:
                admitted.append(self._begin(sequence, match))
                promised += _pages_promised(sequence)
                passes_left -= not is_first_blocked
            else:
                is_first_blocked = False
                passes_left = min(passes_left, _passes_left(sequence))
        return admitted

    def restored(self, sequence: Sequence, num_missing_brought: int) -> None:
        """The first so many of an admission's missing pages are there; what lies behind them is computed."""
        restoring = self._restoring.pop(sequence)
        brought, failed = restoring.missing[:num_missing_brought], restoring.missing[num_missing_brought:]
        self._let_go(restoring.missing)
        for item in brought:
            if item.source.device is None and item.tokens == PAGE_TOKENS:
                self.cache.restored(item.source, item.target)
        num_computed = sum(tokens for _, tokens in restoring.origins)
        if failed:
            first = failed[0].index
            num_computed = first * PAGE_TOKENS
            # Pages behind it may be shared, and must not be written.
            self.cache.release(sequence.pages[first + 1 :][::-1])
            del sequence.pages[first + 1 :]
            self.cache.prune(item.source for item in failed)
        self._run(sequence, num_computed, restoring.origins)

    def plan(self) -> StepPlan:
        """What the next step should do. Raises EngineStalled where sequences are there and none could run; while some are
        being restored there may be nothing to do."""
        keep, preempt = self._fit_running()
        run = tuple(self._share_budget(keep, preempt))
        scheduled = {id(item.sequence) for item in run} | {id(sequence) for sequence in preempt}
        others = [*self._running, *self._restoring, *self._waiting]
        wait = tuple(sequence for sequence in others if id(sequence) not in scheduled)
        if not run and self.has_work and not self._restoring:
            raise EngineStalled(len(self._waiting), len(self._running), self.pool.num_free, self.pool.num_pages)
        return StepPlan(run, tuple(preempt), wait)

    def commit(self, plan: StepPlan) -> None:
        """Take the pages of the preempted back, and allocate those of the scheduled."""
        for sequence in plan.preempt:
            self._preempt(sequence)
        for scheduled in plan.run:
            sequence = scheduled.sequence
            sequence.pages += self._allocate(max(0, pages_for(scheduled.end) - len(sequence.pages)))

    def advance(self, plan: StepPlan) -> None:
        """The step has been computed: the KV of its tokens is there, and that of prompts can be used by others."""
        for scheduled in plan.run:
            sequence = scheduled.sequence
            sequence.num_computed = scheduled.end
            self._publish(sequence, min(sequence.num_computed, sequence.num_prompt_tokens))

    def check_integrity(self) -> None:
        """Raise where lists, states and pages contradict each other."""
        for sequences, state in ((self._waiting, SequenceState.WAITING), (self._running, SequenceState.RUNNING)):
            arrivals = [sequence.arrival for sequence in sequences]
            if arrivals != sorted(set(arrivals)) or any(sequence.state is not state for sequence in sequences):
                raise EngineError(f"the list of {state.name} sequences is out of order or holds one in another state")
        if any(sequence.pages or sequence.num_computed for sequence in self._waiting):
            raise EngineError("a waiting sequence holds pages")
        if any(sequence.state is not SequenceState.RESTORING for sequence in self._restoring):
            raise EngineError("a sequence that is being restored is in another state")
        if any(len(sequence.pages) < pages_for(sequence.num_computed) for sequence in self._running):
            raise EngineError("a running sequence has fewer pages than tokens computed")
        self.cache.check_integrity()
        held = [page for sequence in (*self._running, *self._restoring) for page in sequence.pages]
        copied = [item.held for waits in self._restoring.values() for item in waits.missing if item.held is not None]
        self.pool.check_integrity([*held, *copied, *self.cache.device_pages()])

    # --- planning: nothing below changes anything, up to `_begin` ----------------------------------------------------

    def _fit_running(self) -> tuple[list[Sequence], list[Sequence]]:
        """The running sequences that can take at least one token each, and the youngest, who must give way for that."""
        keep, preempt = list(self._running), list[Sequence]()
        free = self.pool.num_free + self.pool.num_evictable
        wanted = sum(map(_pages_for_one_more, keep))
        while wanted > free and len(keep) > 1:
            youngest = keep.pop()
            preempt.append(youngest)
            wanted -= _pages_for_one_more(youngest)
            free += self._num_returned(youngest)
        return keep, preempt

    def _share_budget(self, sequences: list[Sequence], preempt: list[Sequence]) -> Iterable[Scheduled]:
        """Divide the step's tokens, as the picture above says, as far as the free pages reach."""
        shares = {id(sequence): 1 for sequence in sequences}
        prompts = [sequence for sequence in sequences if sequence.num_pending > 1]
        budget = self._max_step_tokens - (len(sequences) - len(prompts))
        shares.update(_share_among_prompts(prompts, budget))
        free = self.pool.num_free + self.pool.num_evictable + sum(map(self._num_returned, preempt))
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

    def _num_returned(self, sequence: Sequence) -> int:
        """Pages that are free or evictable once this sequence has given its pages back."""
        return sum(self.pool.num_sequences(page) == 1 for page in sequence.pages)

    # --- what the prefix cache has -----------------------------------------------------------------------------------

    def _match(self, sequence: Sequence) -> PrefixMatch:
        if sequence.namespace is None:
            return PrefixMatch()
        keys = self._keys(sequence, sequence.namespace)
        return self.cache.match(sequence.tokens, sequence.namespace, sequence.public_tokens, keys)

    def _keys(self, sequence: Sequence, namespace: Namespace) -> list[PageKey]:
        return self.cache.page_keys(sequence.tokens, namespace, sequence.public_tokens, sequence.page_keys)

    def _num_shared_in_use(self, match: PrefixMatch) -> int:
        return sum(page.device is not None and not self.pool.is_evictable(page.device) for page in match.pages)

    def _publish(self, sequence: Sequence, num_tokens: int) -> None:
        """Let others use the whole pages of the first `num_tokens` tokens, which are computed."""
        end = num_tokens // PAGE_TOKENS
        if sequence.namespace is None or end <= sequence.num_published:
            return
        indices = range(sequence.num_published, end)
        keys = self._keys(sequence, sequence.namespace)
        self.cache.publish(
            sequence.tokens,
            keys,
            sequence.pages,
            sequence.namespace,
            sequence.public_tokens,
            sequence.session,
            indices,
        )
        sequence.num_published = end

    def _leave_behind(self, sequence: Sequence, keep_tokens: int) -> None:
        """Publish what is computed of the first `keep_tokens` tokens, the last one included."""
        keep_tokens = min(keep_tokens, sequence.num_computed)
        if sequence.namespace is None or not keep_tokens:
            return
        self._keys(sequence, sequence.namespace)
        self._publish(sequence, keep_tokens)
        self.cache.publish_tail(
            sequence.tokens[:keep_tokens],
            sequence.page_keys,
            sequence.pages,
            sequence.namespace,
            sequence.session,
        )

    # --- changes -----------------------------------------------------------------------------------------------------

    def _begin(self, sequence: Sequence, match: PrefixMatch) -> Admission:
        """Take a sequence out of the queue, with the pages it shares and places for those that have to be brought."""
        _take(self._waiting, sequence)
        for other in self._waiting:
            if other.arrival > sequence.arrival:
                break
            other.times_passed += 1
        self.pool.retain(page.device for page in match.pages if page.device is not None)
        tail = match.tail if self._has_room_for_tail(match) else None
        held = None if tail is None else tail.device
        self.pool.retain(() if held is None else (held,))
        origins = [(origin(page), PAGE_TOKENS) for page in match.pages]
        origins += [] if tail is None else [(origin(tail), match.tail_tokens)]
        sources = [page for page in match.pages if page.device is None] + ([] if tail is None else [tail])
        targets = iter(self._allocate_for(sources))
        missing = []
        for index, page in enumerate(match.pages):
            if page.device is None:
                missing.append(Missing(page, next(targets), index, PAGE_TOKENS, None))
            sequence.pages.append(missing[-1].target if page.device is None else page.device)
        if tail is not None:
            missing.append(Missing(tail, next(targets), len(match.pages), match.tail_tokens, held))
            sequence.pages.append(missing[-1].target)
        self.cache.use(match.pages)
        if sequence.session is not None:
            self.cache.own(match.pages, sequence.session)
        if missing:
            sequence.state = SequenceState.RESTORING
            self._restoring[sequence] = Restoring(tuple(missing), origins)
        else:
            self._run(sequence, len(match.pages) * PAGE_TOKENS, origins)
        return Admission(sequence, tuple(missing))

    def _has_room_for_tail(self, match: PrefixMatch) -> bool:
        """Whether a page can be held beside its copy: in a pool that one sequence fills its few tokens are computed."""
        if match.tail is None:
            return False
        room = self.pool.num_free + self.pool.num_evictable
        holding = match.tail.device is not None and self.pool.is_evictable(match.tail.device)
        return room > sum(page.device is None for page in match.pages) + holding

    def _allocate_for(self, sources: Iterable[CachedPage]) -> list[PageId]:
        """A page for each of these. Making room for them must not cost one of them."""
        sources = list(sources)
        for page in sources:
            page.host_pins += 1
        targets = self._allocate(len(sources))
        for page in sources:
            page.host_pins -= 1
        return targets

    def _allocate(self, count: int) -> list[PageId]:
        self.cache.make_room(count)
        return self.pool.allocate(count)

    def _run(self, sequence: Sequence, num_computed: int, origins: Iterable[tuple[str, int]]) -> None:
        """The sequence begins to compute, behind what it was given."""
        sequence.num_computed = num_computed
        sequence.num_published = sequence.num_reused = num_computed // PAGE_TOKENS
        if sequence.cached_from is None:
            sequence.cached_from = counted(origins, num_computed)
        sequence.state = SequenceState.RUNNING
        _insert(self._running, sequence)

    def _let_go(self, missing: Iterable[Missing]) -> None:
        self.pool.free(item.held for item in missing if item.held is not None)

    def _preempt(self, sequence: Sequence) -> None:
        _take(self._running, sequence)
        self._leave_behind(sequence, sequence.num_computed)
        self._drop_pages(sequence)
        sequence.state = SequenceState.WAITING
        sequence.num_preemptions += 1
        self.num_preemptions += 1
        _insert(self._waiting, sequence)

    def _drop_pages(self, sequence: Sequence) -> None:
        # The last page first, so that the next sequence gets them in their order again.
        self.cache.release(sequence.pages[::-1])
        sequence.pages = []
        sequence.num_computed = sequence.num_published = 0


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
    return max(0, pages_for(sequence.num_computed + 1) - len(sequence.pages))


def _pages_promised(sequence: Sequence) -> int:
    return max(0, pages_for(len(sequence.tokens)) - len(sequence.pages)) + RESERVE_PAGES


def _by_arrival(sequence: Sequence) -> int:
    return sequence.arrival


def _insert(sequences: list[Sequence], sequence: Sequence) -> None:
    insort(sequences, sequence, key=_by_arrival)


def _take(sequences: list[Sequence], sequence: Sequence) -> None:
    del sequences[bisect_left(sequences, sequence.arrival, key=_by_arrival)]
