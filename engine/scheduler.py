"""Decides what each engine step computes: which sequences run and how many of their tokens, who is preempted, who waits.

Used by `engine.core`, in the engine thread. `admit` lets waiting sequences in, with what the prefix cache has of their
prompts; `plan` changes nothing and returns a value, `commit` carries it out. Pure: no torch, no clock, no asyncio.

Who is next is for `engine.waiting_queue` to say, how long a step may be for `engine.step_size`, how it is divided for
`engine.step_budget`; every running answer gets its one token in every step.

Memory: a sequence is admitted when the pages for all its tokens are free or can be evicted, beside those already promised and
the reserve into which running answers grow (`engine.kv_reserve`). Pages it shares with a running sequence cost nothing. One of
a higher class may take the place of the youngest of a lower one. When pages run out all the same, the last in seniority give
theirs back. What they had computed stays in the prefix cache: on the device while there is room, then on the host, and
otherwise it is computed again. So the first in seniority always moves, and everybody becomes the first at some time.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Items
from functools import partial

from engine.admission import Admission, Missing, Restoring, counted, origin
from engine.cached_page import CachedPage
from engine.config import PAGE_TOKENS
from engine.fair_shares import FairShares
from engine.kv_reserve import KVReserve
from engine.page_keys import PageKey
from engine.pages import PageId, pages_for
from engine.prefix_cache import PrefixCache
from engine.prefix_match import PrefixMatch
from engine.room import Room, note_pace, require_room
from engine.sequence import Sequence, SequenceState, by_arrival
from engine.sequence_check import check_sequences
from engine.shared_beginnings import SharedBeginnings
from engine.speculation import Speculation
from engine.step_budget import fit_into_pages, prompt_budget, share_among_prompts
from engine.step_plan import EngineStalled, Scheduled, StepPlan
from engine.step_size import StepSize
from engine.waiting_queue import WaitingQueue, goes_first
from engine.watchdog import Watchdog

MAX_LOOKED_AT = 16
"""Waiting sequences that do not fit and are looked at in one admission: each costs a look into the prefix cache."""


class Scheduler:
    """Owns the queue, and every sequence that holds pages.

    Invariant: a sequence is in `waiting`, `restoring` or `running`, by its state. A page that several hold is only read.
    """

    def __init__(
        self,
        cache: PrefixCache,
        *,
        max_context_tokens: int,
        max_step_tokens: int,
        max_running: int,
        kv_reserve: float = 0.3,
        inter_token_target_s: float | None = None,
        transfer_timeout_s: float = 10.0,
        speculation_tokens: int = 0,
    ) -> None:
        self.cache = cache
        self.pool = pool = cache.pool
        self.max_sequence_tokens = min(max_context_tokens, pool.num_pages * PAGE_TOKENS)
        """Most tokens one sequence can have, prompt and answer together."""
        self.worth_fetching: Callable[[Items[CachedPage]], bool] = lambda pages: True
        """Whether bringing pages back is quicker than computing them: to be set by whoever can tell."""
        self.step_size = StepSize(max_step_tokens, inter_token_target_s)
        # Every running sequence may then take a token in every step, so no answer pauses for want of budget.
        max_running = min(max_running, max_step_tokens)
        self.speculation = Speculation(speculation_tokens, max_step_tokens)
        self._room = Room(pool, KVReserve(kv_reserve, pool.num_pages), self.step_size, max_running)
        self._beginnings = SharedBeginnings(cache)
        self._shares = FairShares()
        self.queue: WaitingQueue[Sequence] = WaitingQueue(self._shares)
        self._running: list[Sequence] = []
        self._restoring: dict[Sequence, Restoring] = {}
        self._watchdog = Watchdog(transfer_timeout_s)
        self.num_preemptions = 0
        self.step_prompt_tokens = max_step_tokens
        """Most tokens of prompts that fitted into the last step that had any."""

    @property
    def waiting(self) -> tuple[Sequence, ...]:
        """In the order of arrival."""
        return tuple(sorted(self.queue, key=by_arrival))

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
        return bool(self.queue or self._running or self._restoring)

    def add(self, sequence: Sequence) -> None:
        """Queue a new sequence. Raises PromptTooLong where it could never produce a token."""
        require_room(sequence.num_prompt_tokens, self.max_sequence_tokens)
        self._shares.enter(sequence.account)
        self.queue.add(sequence)

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
        elif sequence.state is SequenceState.WAITING:
            self.queue.remove(sequence)
        else:
            self._running.remove(sequence)
        if keep_tokens is None:
            computed = map(self.cache.on_device, sequence.pages[sequence.num_reused :])
            self.cache.remove([page for page in computed if page is not None])
        else:
            self._leave_behind(sequence, keep_tokens)
        self._drop_pages(sequence)
        self._shares.leave(sequence.account)
        sequence.state = SequenceState.FINISHED

    def admit(self, now: float) -> list[Admission]:
        """Let in the waiting sequences that have a place and memory, in their order; a few may pass one that does not fit yet.
        Where none has, one may take the place of others."""
        if not self.queue or not self._room.may_start_any([*self._running, *self._restoring]):
            return []
        order = self.queue.in_order(now)
        return self._admit_fitting(order, now) or self._displace(order, now)

    def _admit_fitting(self, order: list[Sequence], now: float) -> list[Admission]:
        admitted: list[Admission] = []
        passed: list[Sequence] = []
        num_blocked = 0
        underway = self._beginnings.underway(self._running)
        for sequence in order:
            others = [*self._running, *self._restoring]
            if not self._room.has_place(sequence, others):
                break
            if self._beginnings.awaits(sequence, underway):
                passed.append(sequence)
                continue
            match = self._match(sequence)
            if self._room.fits(sequence, self._num_shared_in_use(match), others):
                for other in passed:
                    self.queue.count_pass(other)
                admitted.append(self._begin(sequence, match, now))
                underway = self._beginnings.underway(self._running)
            else:
                passed.append(sequence)
                num_blocked += 1
            if any(map(goes_first, passed)) or num_blocked == MAX_LOOKED_AT:
                break
        return admitted

    def _displace(self, order: list[Sequence], now: float) -> list[Admission]:
        """One sequence, where others have to give way to it."""
        awaits = partial(self._beginnings.awaits, underway=self._beginnings.underway(self._running))
        found = self._room.displacement(order, self._running, [*self._restoring], now, awaits)
        if found is None:
            return []
        sequence, leaving = found
        for other in leaving:
            self._preempt(other)
        return [self._begin(sequence, self._match(sequence), now)]

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

    def plan(self, now: float) -> StepPlan:
        """What the next step should do. Raises EngineStalled where sequences are there and none could run; while some are
        being restored there may be nothing to do."""
        keep, preempt = self._room.fit_running(self._running, now)
        answers = [sequence for sequence in keep if sequence.num_pending == 1]
        prompts = [sequence for sequence in keep if sequence.num_pending > 1]
        budget = prompt_budget(answers, prompts, self.step_size) if prompts else 0
        shares = dict.fromkeys(answers, 1) | share_among_prompts(prompts, budget)
        free_pages = self.pool.num_free + self.pool.num_evictable + self._room.num_returned(preempt)
        run = tuple(fit_into_pages(keep, shares, free_pages))
        run = self.speculation.with_drafts(run, free_pages - sum(item.num_pages_lacking for item in run))
        scheduled = {item.sequence for item in run} | {*preempt}
        others = [*self._running, *self._restoring, *self.queue]
        wait = tuple(sequence for sequence in others if sequence not in scheduled)
        if not run and self.has_work and not self._restoring:
            raise self._stalled()
        return StepPlan(run, tuple(preempt), wait, budget if prompts else None)

    def commit(self, plan: StepPlan, now: float) -> None:
        """Take the pages of the preempted back, and allocate those of the scheduled. Raises EngineStalled where too many plans
        had nothing to compute, or for too long."""
        if plan.run:
            self._watchdog.ran()
        elif self._watchdog.idled(now, is_restoring=bool(self._restoring)) is not None:
            raise self._stalled()
        self._beginnings.planned(plan)
        if plan.prompt_budget is not None:
            self.step_prompt_tokens = plan.prompt_budget
        for sequence in plan.preempt:
            self._preempt(sequence)
        for scheduled in plan.run:
            scheduled.sequence.pages += self._allocate(scheduled.num_pages_lacking)

    def measured(self, plan: StepPlan, took_s: float) -> None:
        """The step took this long to compute, on the engine's clock."""
        self.step_size.observe(plan.load, took_s)
        self.speculation.observe(plan.run, took_s)
        note_pace(plan, took_s)

    def advance(self, plan: StepPlan) -> None:
        """The step has been computed: the KV of its tokens is there, and that of prompts can be used by others."""
        for scheduled in plan.run:
            sequence = scheduled.sequence
            self._shares.serve(sequence.account, int(scheduled.samples))
            sequence.num_computed = scheduled.end
            self._publish(sequence, min(sequence.num_computed, sequence.num_prompt_tokens))

    def settle(self, scheduled: Scheduled) -> None:
        """What came true of its draft is charged, and pages that only the rest of it needed are given back."""
        sequence, num_accepted = scheduled.sequence, self.speculation.settled(scheduled)
        if sequence.state is SequenceState.RUNNING:
            self._shares.serve(sequence.account, num_accepted)
            self.cache.release(sequence.pages[pages_for(sequence.num_computed) :])
            del sequence.pages[pages_for(sequence.num_computed) :]

    def check_integrity(self) -> None:
        """Raise where lists, states and pages contradict each other."""
        check_sequences(self.queue, self._restoring, self._running)
        self.cache.check_integrity()
        self.check_pages()

    def check_pages(self) -> None:
        """Raise PagesCorrupt where a page of the device is counted otherwise than it is held: it might be in two hands."""
        held = [page for sequence in (*self._running, *self._restoring) for page in sequence.pages]
        copied = [item.held for waits in self._restoring.values() for item in waits.missing if item.held is not None]
        self.pool.check_integrity([*held, *copied, *self.cache.device_pages()])

    def _stalled(self) -> EngineStalled:
        num_holding = len(self._running) + len(self._restoring)
        return EngineStalled(len(self.queue), num_holding, self.pool.num_free, self.pool.num_pages)

    # --- what the prefix cache has: up to `_publish` nothing changes anything -----------------------------------------

    def _match(self, sequence: Sequence) -> PrefixMatch:
        if sequence.namespace is None:
            return PrefixMatch()
        keys = self._keys(sequence)
        match = self.cache.match(sequence.tokens, sequence.namespace, sequence.public_tokens, keys)
        first = next((place for place, page in enumerate(match.pages) if page.device is None), None)
        if first is None or self.worth_fetching(match.pages[first:]):
            return match
        return PrefixMatch(match.pages[:first])

    def _keys(self, sequence: Sequence) -> list[PageKey]:
        if sequence.namespace is None:
            return []
        return self.cache.page_keys(sequence.tokens, sequence.namespace, sequence.public_tokens, sequence.page_keys)

    def _num_shared_in_use(self, match: PrefixMatch) -> int:
        return sum(page.device is not None and not self.pool.is_evictable(page.device) for page in match.pages)

    def _publish(self, sequence: Sequence, num_tokens: int) -> None:
        """Let others use the whole pages of the first `num_tokens` tokens, which are computed."""
        end = num_tokens // PAGE_TOKENS
        if sequence.namespace is None or end <= sequence.num_published:
            return
        indices = range(sequence.num_published, end)
        self.cache.publish(
            sequence.tokens,
            self._keys(sequence),
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
        self._keys(sequence)
        self._publish(sequence, keep_tokens)
        self.cache.publish_tail(
            sequence.tokens[:keep_tokens],
            sequence.page_keys,
            sequence.pages,
            sequence.namespace,
            sequence.session,
        )

    # --- changes -----------------------------------------------------------------------------------------------------

    def _begin(self, sequence: Sequence, match: PrefixMatch, now: float) -> Admission:
        """Take a sequence out of the queue, with the pages it shares and places for those that have to be brought."""
        self.queue.start(sequence, now)
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
        insort(self._running, sequence, key=by_arrival)

    def _let_go(self, missing: Iterable[Missing]) -> None:
        self.cache.release([item.held for item in missing if item.held is not None])

    def _preempt(self, sequence: Sequence) -> None:
        self._running.remove(sequence)
        self._leave_behind(sequence, sequence.num_computed)
        self._drop_pages(sequence)
        sequence.state = SequenceState.WAITING
        sequence.num_preemptions += 1
        self.num_preemptions += 1
        self.queue.add(sequence)

    def _drop_pages(self, sequence: Sequence) -> None:
        # The last page first, so that the next sequence gets them in their order again.
        self.cache.release(sequence.pages[::-1])
        sequence.pages = []
        sequence.num_computed = sequence.num_published = 0
