"""A scheduler and a model of a machine in place of a model of language: steps take the time that the machine says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from engine.fair_shares import account_of
from engine.page_keys import PageKeys
from engine.pages import PagePool
from engine.prefix_cache import PrefixCache
from engine.scheduler import Scheduler
from engine.sequence import Sequence
from engine.step_plan import StepPlan
from engine.types import Namespace, Priority, RequestId
from tests.support.machine import Machine


@dataclass
class Simulation:
    """Every step is checked. Without a machine steps take no time, and the clock moves only when a test moves it."""

    num_pages: int = 64
    context_tokens: int = 100_000
    max_step_tokens: int = 256
    max_running: int = 8
    kv_reserve: float = 0.3
    inter_token_target_s: float | None = None
    machine: Machine | None = None
    noise: Callable[[], float] = lambda: 1.0
    arrivals: int = 0
    now: float = 0.0
    steps: int = 0
    all: list[Sequence] = field(default_factory=list)
    token_at: dict[Sequence, list[float]] = field(default_factory=dict)
    """When each token of each answer came."""
    started_at: dict[Sequence, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pool = PagePool(self.num_pages)
        self.scheduler = Scheduler(
            PrefixCache(self.pool, PageKeys(b"secret", "model")),
            max_context_tokens=self.context_tokens,
            max_step_tokens=self.max_step_tokens,
            max_running=self.max_running,
            kv_reserve=self.kv_reserve,
            inter_token_target_s=self.inter_token_target_s,
        )

    def add(
        self,
        prompt: int | list[int],
        output: int = 4,
        *,
        user: str | None = None,
        priority: Priority = Priority.INTERACTIVE,
        token: int = 1,
        reuse: bool = False,
    ) -> Sequence:
        """The prompt is these tokens, or so many times the same. With `reuse` KV is kept for the user, and found again."""
        tokens = prompt if isinstance(prompt, list) else [token] * prompt
        namespace = None if user is None else Namespace.user(user)
        sequence = Sequence(
            RequestId(str(self.arrivals)),
            self.arrivals,
            tokens,
            len(tokens),
            min(len(tokens) + output, self.scheduler.max_sequence_tokens),
            namespace=namespace if reuse else None,
            priority=priority,
            account=account_of(namespace),
            queued_at=self.now,
        )
        self.arrivals += 1
        self.scheduler.add(sequence)
        self.all.append(sequence)
        self.token_at[sequence] = []
        return sequence

    def step(self) -> StepPlan:
        for admission in self.scheduler.admit(self.now):
            if admission.missing:
                self.scheduler.restored(admission.sequence, len(admission.missing))
        plan = self.scheduler.plan(self.now)
        self.check(plan)
        self.scheduler.commit(plan, self.now)
        self.check_integrity()
        for item in plan.run:
            self.started_at.setdefault(item.sequence, self.now)
        if self.machine is not None:
            seconds = self.machine.seconds(plan.load) * self.noise()
            self.scheduler.measured(plan, seconds)
            self.now += seconds
        sampled = [item.sequence for item in plan.run if item.samples]
        self.scheduler.advance(plan)
        for sequence in sampled:
            sequence.tokens.append(2)
            self.token_at[sequence].append(self.now)
            if sequence.is_full:
                self.scheduler.remove(sequence)
        self.check_integrity()
        self.steps += 1
        return plan

    def check(self, plan: StepPlan) -> None:
        run = [item.sequence for item in plan.run]
        everyone = [*run, *plan.preempt, *plan.wait]
        assert len(set(everyone)) == len(everyone)
        assert set(everyone) == {*self.scheduler.waiting, *self.scheduler.running}
        assert sum(item.num_tokens for item in plan.run) <= self.max_step_tokens
        assert len(run) <= self.max_running
        assert all(
            item.start == item.sequence.num_computed < item.end <= len(item.sequence.tokens) for item in plan.run
        )
        # Every answer that is past its prompt goes on in every step, unless it has to give its memory back.
        decoding = [sequence for sequence in self.scheduler.running if sequence.num_pending == 1]
        assert all(sequence in run or sequence in plan.preempt for sequence in decoding)

    def check_integrity(self) -> None:
        """After every change, and with a large pool, where it takes long, after some."""
        if self.num_pages <= 64 or self.steps % 16 == 0:
            self.scheduler.check_integrity()

    def drain(self, limit: int = 100_000) -> None:
        while self.scheduler.has_work:
            self.step()
            assert self.steps < limit

    def gaps(self, sequence: Sequence) -> list[float]:
        """Seconds between the tokens of an answer."""
        times = self.token_at[sequence]
        return [later - earlier for earlier, later in pairwise(times)]
