"""Who is served when not everybody can be, on a simulated machine: classes, accounts, ageing, and a burst."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.ageing import overdue_after_s
from engine.sequence import Sequence, SequenceState
from engine.step_size import PATIENCE, StepLoad
from engine.types import Priority
from engine.waiting_queue import MAX_TIMES_PASSED
from tests.support.machine import Machine
from tests.support.scheduling import Simulation

INTERACTIVE, BOT, BACKGROUND = Priority.INTERACTIVE, Priority.BOT, Priority.BACKGROUND

machines = st.builds(
    Machine,
    fixed=st.floats(0.012, 0.05),
    per_prompt_token=st.floats(2e-4, 0.002),
    per_answer=st.floats(1e-4, 0.004),
    per_read=st.floats(0.0, 4e-6),
)


@given(machines, st.integers(0, 2**32), st.sampled_from([None, 0.1, 0.3]))
@settings(max_examples=3, deadline=None)
def test_in_a_burst_no_stream_pauses_for_long_and_nobody_starves(
    machine: Machine, seed: int, target_s: float | None
) -> None:
    """200 requests, 10 of them of 6,000 tokens, come at once while a few answers stream. A stream's usual time between tokens is
    the median of its own, for those that streamed before the burst the one before it. On these machines a page of a prompt, the
    least that is computed of one, takes at most three times as long as a token of an answer alone."""
    rng = random.Random(seed)
    simulation = Simulation(
        num_pages=3000,
        context_tokens=8192,
        max_running=32,
        machine=machine,
        noise=lambda: rng.uniform(0.9, 1.1),
        inter_token_target_s=target_s,
    )
    for number in range(4):
        simulation.add(50, 600, user=f"early {number}")
    for _ in range(60):
        simulation.step()
    usual = {sequence: statistics.median(simulation.gaps(sequence)[10:]) for sequence in simulation.all}
    requests = [(6000, 40)] * 10 + [(rng.randint(10, 400), rng.randint(5, 60)) for _ in range(190)]
    rng.shuffle(requests)
    burst = [simulation.add(prompt, output, user=f"user {rng.randrange(20)}") for prompt, output in requests]
    simulation.drain()
    assert all(sequence.state is SequenceState.FINISHED and sequence.num_output_tokens for sequence in burst)
    for sequence in simulation.all:
        if len(gaps := simulation.gaps(sequence)) >= 3:
            assert max(gaps) <= 5 * min(statistics.median(gaps), usual.get(sequence, float("inf")))
    # Not one of them, long or short, waits for more than the whole burst: no account has more than its share before it.
    assert {sequence for sequence in burst if sequence.num_prompt_tokens == 6000} <= set(simulation.started_at)


@pytest.mark.parametrize("answers", [1, 8, 31])
def test_while_a_long_prompt_is_read_running_answers_get_their_tokens(answers: int) -> None:
    """sgl-project/sglang#10063: short chats waited for a huge prefill."""
    simulation = Simulation(num_pages=3000, max_running=32, max_step_tokens=2048, machine=Machine())
    for number in range(answers):
        simulation.add(50, 2000, user=f"user {number}")
    for _ in range(40):
        simulation.step()
    before = statistics.median(simulation.gaps(simulation.all[0])[-20:])
    long = simulation.add(6000, 1, user="reader")
    begun = simulation.now
    while long.state is not SequenceState.FINISHED:
        simulation.step()
    during = [gap for sequence in simulation.all[:answers] for gap in simulation.gaps(sequence)[39:]]
    assert max(during) <= 1.2 * PATIENCE * before
    # And the long prompt is not forgotten over it.
    alone_s = 6000 * 0.001 + 6000**2 / 16 * 1e-6
    assert simulation.now - begun <= 3 * alone_s


@pytest.mark.parametrize("answers", [0, 1, 8])
@pytest.mark.parametrize("short_tokens", [5, 20])
def test_while_a_long_prompt_is_read_a_short_one_is_answered_soon(answers: int, short_tokens: int) -> None:
    """sgl-project/sglang#10063, beside answers that run."""
    machine = Machine()
    simulation = Simulation(num_pages=3000, max_running=32, machine=machine)
    for number in range(answers):
        simulation.add(50, 2000, user=f"user {number}")
    for _ in range(40 if answers else 0):
        simulation.step()
    simulation.add(6000, 1, user="reader")
    for _ in range(10):
        simulation.step()
    before = simulation.now
    simulation.step()
    one_step_s = simulation.now - before
    short = simulation.add(short_tokens, 1, user="anna")
    while short.state is not SequenceState.FINISHED:
        simulation.step()
    idle_s = machine.seconds(StepLoad().with_prompt(short_tokens, 0))
    # It comes just after a step has begun.
    assert one_step_s + simulation.now - short.queued_at <= 3 * idle_s + one_step_s


def test_a_hog_leaves_others_their_share_of_the_machine() -> None:
    simulation = Simulation(num_pages=2000, max_running=4, machine=Machine())
    for _ in range(100):
        simulation.add(200, 50, user="hog")
    for _ in range(20):
        simulation.step()
    guests = []
    for _ in range(10):
        guests.append(simulation.add(200, 50, user="guest"))
        while guests[-1].state is not SequenceState.FINISHED:
            simulation.step()
    waited = [simulation.started_at[guest] - guest.queued_at for guest in guests]
    longest_answer_s = 60 * Machine().seconds(simulation.scheduler.plan(simulation.now).load)
    assert max(waited) <= longest_answer_s
    assert sum(sequence.state is SequenceState.FINISHED for sequence in simulation.all[:100]) < 100


def test_who_fills_all_places_with_long_answers_gives_one_to_an_account_that_has_none() -> None:
    simulation = Simulation(num_pages=2000, max_running=8, machine=Machine())
    hogs = [simulation.add(50, 5000, user="hog") for _ in range(12)]
    for _ in range(20):
        simulation.step()
    guest = simulation.add(50, 50, user="guest")
    while guest.state is not SequenceState.FINISHED:
        simulation.step()
    assert simulation.started_at[guest] - guest.queued_at <= overdue_after_s(INTERACTIVE) + 1
    assert [hog.num_preemptions for hog in hogs[:8]] == [0, 0, 0, 0, 0, 0, 0, 1]
    # One that came later and would be next in the order of the hog's own does not profit.
    simulation.step()
    assert hogs[7].state is SequenceState.RUNNING


def test_an_account_with_a_fair_number_of_places_is_left_alone() -> None:
    simulation = Simulation(num_pages=2000, max_running=8, machine=Machine())
    held = [simulation.add(50, 3000, user=f"user {number // 2}") for number in range(8)]
    simulation.step()
    guest = simulation.add(50, 50, user="guest")
    while simulation.now < guest.queued_at + 2 * overdue_after_s(INTERACTIVE):
        simulation.step()
    assert guest.state is SequenceState.WAITING
    assert not any(sequence.num_preemptions for sequence in held)


@given(st.integers(0, 2**32), st.integers(2, 6))
@settings(max_examples=6, deadline=None)
def test_accounts_that_always_want_more_are_served_alike(seed: int, accounts: int) -> None:
    rng = random.Random(seed)
    simulation = Simulation(num_pages=2000, max_running=4, machine=Machine())
    sizes = {f"user {number}": rng.randint(20, 800) for number in range(accounts)}
    backlog: dict[str, list[Sequence]] = {user: [] for user in sizes}
    for _ in range(400):
        for user, waiting in backlog.items():
            waiting[:] = [sequence for sequence in waiting if sequence.state is not SequenceState.FINISHED]
            while len(waiting) < 8:
                waiting.append(simulation.add(sizes[user], 30, user=user))
        simulation.step()
    got = dict.fromkeys(sizes, 0)
    for sequence in simulation.all:
        if sequence.account is not None and sequence in simulation.started_at:
            got[sequence.account.name] += sequence.num_prompt_tokens + sequence.num_output_tokens
    assert max(got.values()) - min(got.values()) <= 5 * 830


def test_people_go_before_programs_and_programs_before_background_work() -> None:
    simulation = Simulation(num_pages=2000, max_running=1, machine=Machine())
    simulation.add(10, 20)
    simulation.step()
    waiting = [simulation.add(10, 2, priority=priority) for priority in (BACKGROUND, BOT, INTERACTIVE)]
    simulation.drain()
    started = [simulation.started_at[sequence] for sequence in waiting]
    assert started == sorted(started, reverse=True)


@pytest.mark.parametrize("priority", [BOT, BACKGROUND])
def test_lower_classes_move_however_many_people_come(priority: Priority) -> None:
    simulation = Simulation(num_pages=2000, max_running=2, machine=Machine())
    low = [simulation.add(50, 10, user="low", priority=priority) for _ in range(3)]
    while any(sequence.state is not SequenceState.FINISHED for sequence in low):
        while len(simulation.scheduler.waiting) < 6:
            simulation.add(50, 10, user=f"person {simulation.arrivals % 3}")
        simulation.step()
        assert simulation.now < 600
    starts = sorted(simulation.started_at[sequence] for sequence in low)
    for earlier, later in zip([0.0, *starts], starts, strict=False):
        assert later - earlier <= overdue_after_s(priority) + 10


def test_a_person_takes_the_place_of_background_work_that_has_just_begun() -> None:
    simulation = Simulation(num_pages=200, max_running=4, machine=Machine())
    jobs = [simulation.add(100, 400, user="batch", priority=BACKGROUND) for _ in range(4)]
    simulation.step()
    person = simulation.add(50, 5, user="anna")
    simulation.step()
    assert person.state is SequenceState.RUNNING
    assert [job.num_preemptions for job in jobs] == [0, 0, 0, 1]
    simulation.drain()
    assert all(job.num_output_tokens == 400 for job in jobs)


def test_a_person_takes_the_memory_of_background_work_but_not_that_of_other_people() -> None:
    simulation = Simulation(num_pages=40, max_running=8, kv_reserve=0.0)
    simulation.add(200, 20, user="bert")
    jobs = [simulation.add(100, 100, user="batch", priority=BACKGROUND) for _ in range(3)]
    simulation.step()
    person = simulation.add(300, 20, user="anna")
    simulation.step()
    assert person.state is SequenceState.RUNNING
    assert sum(job.num_preemptions for job in jobs) == 2
    other = simulation.add(400, 20, user="cem")
    simulation.step()
    assert other.state is SequenceState.WAITING
    assert simulation.all[0].num_preemptions == person.num_preemptions == 0
    # Where it would not be enough, nobody is disturbed for nothing.
    assert sum(job.num_preemptions for job in jobs) == 2
    simulation.drain()


def test_background_work_alone_reads_its_prompts_as_fast_as_the_machine_can() -> None:
    simulation = Simulation(num_pages=2000, max_running=8, machine=Machine())
    for _ in range(8):
        simulation.add(512, 100, user="batch", priority=BACKGROUND)
    while not all(sequence.num_output_tokens for sequence in simulation.all):
        simulation.step()
    assert max(sequence.num_output_tokens for sequence in simulation.all) <= 8 * 512 // simulation.max_step_tokens + 8
    simulation.drain()


def test_background_work_that_has_been_here_for_long_is_not_disturbed_any_more() -> None:
    simulation = Simulation(num_pages=200, max_running=1)
    job = simulation.add(100, 400, user="batch", priority=BACKGROUND)
    simulation.step()
    simulation.now = overdue_after_s(BACKGROUND)
    person = simulation.add(50, 5, user="anna")
    simulation.step()
    assert person.state is SequenceState.WAITING
    assert job.num_preemptions == 0


@given(st.integers(0, 2**32), st.booleans())
@settings(max_examples=12, deadline=None)
def test_nothing_about_the_order_or_the_steps_depends_on_what_another_account_has_cached(
    seed: int, is_full: bool
) -> None:
    """Longest prefix first would tell one user what another has asked before."""

    def seen_by_prober(victims_token: int) -> list[object]:
        rng = random.Random(seed)
        simulation = Simulation(num_pages=60 if is_full else 600, max_running=3, machine=Machine())
        for _ in range(4):
            simulation.add(rng.randint(100, 300), 10, user="victim", token=victims_token, reuse=True)
        simulation.drain()
        plans: list[object] = []
        for _ in range(10):
            simulation.add(rng.randint(100, 300), 10, user="prober", token=7, reuse=True)
            simulation.add(rng.randint(100, 300), 10, user="victim", token=rng.choice([8, 9]), reuse=True)
        while simulation.scheduler.has_work:
            plan = simulation.step()
            plans.append((simulation.now, [(item.sequence.arrival, item.start, item.end) for item in plan.run]))
        return plans

    assert seen_by_prober(victims_token=7) == seen_by_prober(victims_token=5)


def test_with_a_target_fewer_answers_run_at_once_and_each_is_quicker() -> None:
    def usual_gap_s(target_s: float | None) -> tuple[float, int]:
        machine = Machine(per_answer=0.008)
        simulation = Simulation(num_pages=3000, max_running=32, machine=machine, inter_token_target_s=target_s)
        for number in range(4):
            simulation.add(50, 10, user=f"early {number}")
        simulation.drain()
        most = 0
        for number in range(60):
            simulation.add(50, 100, user=f"user {number}")
        while simulation.scheduler.has_work:
            simulation.step()
            most = max(most, len(simulation.scheduler.running))
        gaps = [gap for sequence in simulation.all[4:] for gap in simulation.gaps(sequence)]
        return statistics.median(gaps), most

    (free_s, free_running), (held_s, held_running) = usual_gap_s(None), usual_gap_s(0.15)
    assert free_running == 32
    assert held_running < 32
    assert held_s <= 0.15 * 1.1 < free_s


@given(st.integers(0, 2**32), st.floats(0.0, 0.9))
@settings(max_examples=10, deadline=None)
def test_whoever_fits_alone_runs_at_last_with_any_reserve(seed: int, kv_reserve: float) -> None:
    rng = random.Random(seed)
    simulation = Simulation(num_pages=rng.randint(4, 40), max_running=6, kv_reserve=kv_reserve, machine=Machine())
    most = simulation.scheduler.max_sequence_tokens
    for _ in range(60):
        user, priority = f"user {rng.randrange(4)}", rng.choice(list(Priority))
        simulation.add(rng.randint(1, most - 1), rng.randint(1, 60), user=user, priority=priority)
        for _ in range(rng.randint(0, 6)):
            if simulation.scheduler.has_work:
                simulation.step()
    simulation.drain(limit=20_000)
    assert all(sequence.state is SequenceState.FINISHED for sequence in simulation.all)
    assert all(sequence.times_passed <= MAX_TIMES_PASSED + sequence.num_preemptions for sequence in simulation.all)


@given(st.integers(0, 2**32))
@settings(max_examples=4, deadline=None)
def test_the_longest_wait_under_a_lasting_load_is_bounded(seed: int) -> None:
    """vllm-project/vllm#41951. The load is what the machine can just not do, for two minutes, from every class."""
    rng = random.Random(seed)
    simulation = Simulation(num_pages=120, max_running=8, machine=Machine())
    while simulation.now < 120:
        if rng.random() < 0.12:
            priority = rng.choices(list(Priority), [6, 2, 1])[0]
            simulation.add(rng.randint(5, 600), rng.randint(5, 60), user=f"u{rng.randrange(5)}", priority=priority)
        if simulation.scheduler.has_work:
            simulation.step()
        else:
            simulation.now += 0.05
    waits = [simulation.now - sequence.queued_at for sequence in simulation.scheduler.waiting]
    queue = len(simulation.scheduler.waiting)
    assert max(waits, default=0.0) <= overdue_after_s(BACKGROUND) * (1 + queue)
    simulation.drain()
    assert all(sequence.state is SequenceState.FINISHED for sequence in simulation.all)
