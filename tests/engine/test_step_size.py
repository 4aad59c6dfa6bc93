from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import PAGE_TOKENS
from engine.step_size import (
    COMFORT_S,
    CROWDING,
    LEAST_RUNNING,
    LEAST_SHARE,
    LEAST_STEPS,
    PATIENCE,
    STRETCH,
    StepLoad,
    StepSize,
    solve,
)
from tests.support.machine import Machine

BUDGET = 512


def answers(count: int, context_tokens: int = 300) -> StepLoad:
    load = StepLoad()
    for _ in range(count):
        load = load.with_answer(context_tokens)
    return load


def live(
    machine: Machine, size: StepSize, steps: int, rng: random.Random, noise: Callable[[], float] = lambda: 1.0
) -> None:
    """Steps as an engine makes them: answers come and go, and about every second step carries prompt tokens as advised."""
    count = 4
    for _ in range(steps):
        count = max(0, min(32, count + rng.choice([-1, 0, 1])))
        load = answers(count, rng.randint(50, 1500))
        if rng.random() < 0.6 or not count:
            context = rng.randint(0, 2000)
            load = load.with_prompt(min(size.prompt_tokens(load, context), rng.randint(1, BUDGET)), context)
        size.observe(load, machine.seconds(load) * noise())


machines = st.builds(
    Machine,
    fixed=st.floats(0.001, 0.1),
    per_prompt_token=st.floats(2e-5, 0.005),
    per_answer=st.floats(1e-5, 0.02),
    per_read=st.floats(0.0, 1e-5),
)


@given(machines, st.integers(0, 2**32))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_what_a_step_takes_is_learned_on_any_machine(machine: Machine, seed: int) -> None:
    rng = random.Random(seed)
    size = StepSize(BUDGET)
    live(machine, size, 300, rng, lambda: rng.uniform(0.9, 1.1))
    usual = machine.seconds(answers(8).with_prompt(64, 500))
    for count in (1, 8, 32):
        for load in (answers(count), answers(count).with_prompt(64, 500)):
            assert size.seconds(load) == pytest.approx(machine.seconds(load), rel=0.35, abs=0.1 * usual)


# An estimate from noise is off now and then, so the machines are the same in every run.
@given(machines, st.integers(0, 2**32), st.one_of(st.none(), st.floats(0.02, 0.5)))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_prompts_stretch_a_step_as_far_as_allowed_and_no_further(
    machine: Machine, seed: int, target_s: float | None
) -> None:
    rng = random.Random(seed)
    size = StepSize(BUDGET, target_s)
    live(machine, size, 300, rng, lambda: rng.uniform(0.95, 1.05))
    for count in (1, 4, 16, 32):
        alone = machine.seconds(answers(count))
        allowed = min(STRETCH * alone, target_s or float("inf"))
        page = machine.seconds(answers(count).with_prompt(PAGE_TOKENS // 2, 500))
        tokens = size.prompt_tokens(answers(count), 500)
        taken = machine.seconds(answers(count).with_prompt(tokens, 500))
        assert taken <= 1.4 * max(allowed, (1 + LEAST_SHARE) * alone, page)
        used_all = tokens == BUDGET - count
        assert used_all or taken >= 0.5 * max(allowed, (1 + LEAST_SHARE) * alone) - (page - alone)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 300), st.integers(0, 4000), st.floats(0, 100)), max_size=60),
    st.integers(1, 2048),
    st.one_of(st.none(), st.floats(0.0001, 10)),
    st.integers(0, 64),
    st.integers(0, 8000),
)
@settings(deadline=None)
def test_whatever_was_measured_a_prompt_gets_half_a_page_and_the_budget_is_kept(
    steps: list[tuple[int, int, int, float]], budget: int, target_s: float | None, count: int, context: int
) -> None:
    size = StepSize(budget, target_s)
    for answering, tokens, position, seconds in steps:
        load = answers(answering, position)
        size.observe(load.with_prompt(tokens, position) if tokens else load, seconds)
    size.observe(StepLoad().with_prompt(budget, 0), 1.0)
    tokens = size.prompt_tokens(answers(count), context)
    most = max(1, budget - count)
    assert min(PAGE_TOKENS // 2, most) <= tokens <= most
    assert tokens in (most, PAGE_TOKENS // 2) or tokens % PAGE_TOKENS == 0
    assert size.seconds(answers(count)) >= 0.0


def test_before_anything_is_measured_the_budget_is_used() -> None:
    size = StepSize(BUDGET, 0.05)
    for _ in range(LEAST_STEPS):
        assert size.prompt_tokens(answers(8), 0) == BUDGET - 8
        assert size.may_join(answers(LEAST_RUNNING), 1000)
        size.observe(answers(8).with_prompt(200, 0), 1.0)
    assert size.prompt_tokens(answers(8), 0) < BUDGET - 8


def test_a_clock_that_stands_still_measures_nothing() -> None:
    size = StepSize(BUDGET, 0.05)
    for _ in range(50):
        size.observe(answers(8).with_prompt(200, 0), 0.0)
    assert size.prompt_tokens(answers(8), 0) == BUDGET - 8


def test_a_step_without_answers_takes_the_whole_budget() -> None:
    size = StepSize(BUDGET, 0.001)
    live(Machine(), size, 100, random.Random(0))
    assert size.prompt_tokens(StepLoad(), 4000) == BUDGET


def test_a_step_whose_answers_nobody_watches_takes_the_budget_up_to_the_target() -> None:
    machine, size, with_target = Machine(), StepSize(BUDGET), StepSize(BUDGET, 0.001)
    live(machine, size, 200, random.Random(0))
    live(machine, with_target, 200, random.Random(0))
    assert size.prompt_tokens(answers(4), 0) < BUDGET - 4
    assert size.prompt_tokens(answers(4), 0, is_watched=False) == BUDGET - 4
    assert with_target.prompt_tokens(answers(4), 0, is_watched=False) == with_target.prompt_tokens(answers(4), 0)


def test_what_a_long_prompt_takes_is_not_told_from_short_ones() -> None:
    """After a restart one greeting was measured, and a conversation that lay on disk was read again for ten seconds."""
    machine, size = Machine(), StepSize(BUDGET)
    for _ in range(20):
        size.observe(StepLoad().with_prompt(20, 16), machine.seconds(StepLoad().with_prompt(20, 16)))
    assert not size.knows_prompts
    size.observe(StepLoad().with_prompt(200, 0), machine.seconds(StepLoad().with_prompt(200, 0)))
    assert size.knows_prompts


def test_an_impossible_target_still_leaves_prompts_a_share() -> None:
    machine, size = Machine(), StepSize(BUDGET, 0.001)
    live(machine, size, 200, random.Random(0))
    alone = machine.seconds(answers(16))
    tokens = size.prompt_tokens(answers(16), 0)
    assert tokens * machine.per_prompt_token == pytest.approx(LEAST_SHARE * alone, rel=0.6)


def test_deep_in_a_long_prompt_the_chunks_are_shorter() -> None:
    machine, size = Machine(per_read=1e-5), StepSize(BUDGET)
    live(machine, size, 300, random.Random(1))
    assert size.prompt_tokens(answers(4), 6000) < size.prompt_tokens(answers(4), 0)


def test_a_hiccup_changes_little_and_a_change_is_learned() -> None:
    rng = random.Random(2)
    machine, size = Machine(), StepSize(BUDGET)
    live(machine, size, 200, rng)
    before = size.seconds(answers(8))
    size.observe(answers(8), 50 * machine.seconds(answers(8)))
    assert size.seconds(answers(8)) < 1.3 * before
    slower = Machine(*(4 * cost for cost in (machine.fixed, machine.per_prompt_token, machine.per_answer, 1e-6)))
    live(slower, size, 40, rng)
    assert size.seconds(answers(8)) == pytest.approx(slower.seconds(answers(8)), rel=0.3)


def test_what_is_slow_for_some_steps_is_no_pace_to_get_used_to_and_what_stays_slow_is() -> None:
    size, load, quick_s = StepSize(BUDGET), answers(4), 0.003
    for _ in range(50):
        size.observe(load, quick_s)
    for _ in range(10):
        size.observe(load, 3 * quick_s)
    assert size.seconds(load) > 1.5 * quick_s
    assert size.lasting_seconds(load) < size.seconds(load)
    for _ in range(500):
        size.observe(load, 3 * quick_s)
    assert size.lasting_seconds(load) == pytest.approx(3 * quick_s, rel=0.1)
    # As soon as it is quick again, it is.
    for _ in range(60):
        size.observe(load, quick_s)
    assert size.lasting_seconds(load) == pytest.approx(quick_s, rel=0.2)


def test_what_prompts_cost_is_remembered_through_a_long_time_without_any() -> None:
    rng = random.Random(3)
    machine, size = Machine(), StepSize(BUDGET)
    live(machine, size, 200, rng)
    before = size.prompt_tokens(answers(8), 0)
    for _ in range(5000):
        size.observe(answers(8), machine.seconds(answers(8)) * rng.uniform(0.9, 1.1))
    assert size.prompt_tokens(answers(8), 0) == pytest.approx(before, rel=0.3)


def test_as_many_answers_run_as_the_target_allows_and_some_always() -> None:
    machine, size = Machine(), StepSize(BUDGET, 0.08)
    live(machine, size, 300, random.Random(4))
    count = 0
    while size.may_join(answers(count), 300):
        count += 1
    page = answers(count).with_prompt(PAGE_TOKENS, 300)
    assert machine.seconds(page) == pytest.approx(0.08, rel=0.1)
    impossible = StepSize(BUDGET, 0.001)
    live(machine, impossible, 100, random.Random(5))
    assert impossible.may_join(answers(LEAST_RUNNING - 1), 300)
    assert not impossible.may_join(answers(LEAST_RUNNING), 300)


def test_the_number_of_answers_grows_no_faster_than_it_is_measured() -> None:
    machine, size = Machine(), StepSize(BUDGET, 10.0)
    for most in (8, 16, 32):
        assert size.may_join(answers(most - 1), 100)
        assert not size.may_join(answers(most), 100)
        size.observe(answers(most), machine.seconds(answers(most)))


def test_a_chunk_beside_answers_grows_no_faster_than_it_is_measured() -> None:
    machine, size = Machine(per_prompt_token=1e-6), StepSize(BUDGET)
    for _ in range(LEAST_STEPS):
        size.observe(answers(4), machine.seconds(answers(4)))
    for most in (16, 32, 64, 128):
        assert size.prompt_tokens(answers(4), 0) == most
        load = answers(4).with_prompt(most, 0)
        size.observe(load, machine.seconds(load))


def test_no_more_join_than_leave_the_others_their_pace_and_prompts_a_part_of_their_patience() -> None:
    machine, size = Machine(), StepSize(BUDGET)
    live(machine, size, 300, random.Random(7))
    usual_s = machine.seconds(answers(4))
    count = 4
    while size.may_join(answers(count), 300, usual_s):
        count += 1
    assert machine.seconds(answers(count)) == pytest.approx(CROWDING * usual_s, rel=0.25)
    tokens = size.prompt_tokens(answers(count), 0, usual_s)
    assert machine.seconds(answers(count).with_prompt(tokens, 0)) == pytest.approx(PATIENCE * usual_s, rel=0.2)


@pytest.mark.parametrize(("pages_in_patience", "tokens"), [(0.9, PAGE_TOKENS // 2), (1.5, PAGE_TOKENS)])
def test_where_a_page_takes_too_long_beside_a_stream_half_of_one_is_read(pages_in_patience: float, tokens: int) -> None:
    alone_s = Machine().seconds(answers(4))
    page_s = (PATIENCE - 1) * alone_s / pages_in_patience
    machine, size = Machine(per_prompt_token=page_s / PAGE_TOKENS), StepSize(BUDGET)
    live(machine, size, 300, random.Random(9))
    assert size.prompt_tokens(answers(4), 0, alone_s) == tokens


def test_answers_that_have_never_been_quicker_leave_the_prompts_as_much_as_the_pace_that_comes_allows() -> None:
    machine, size = Machine(fixed=0.002, per_prompt_token=2e-4, per_answer=3e-4), StepSize(BUDGET)
    live(machine, size, 300, random.Random(8))
    for count, longest_s in (
        (4, STRETCH * machine.seconds(answers(4))),
        (16, STRETCH * machine.seconds(answers(16))),
        (60, COMFORT_S),
    ):
        tokens = size.prompt_tokens(answers(1), 0, None, later=answers(count))
        assert machine.seconds(answers(1).with_prompt(tokens, 0)) == pytest.approx(longest_s, rel=0.35)


def test_without_a_target_any_number_may_join() -> None:
    size = StepSize(BUDGET)
    live(Machine(), size, 100, random.Random(6))
    assert size.may_join(answers(1000), 4000)


@given(st.integers(1, 5), st.integers(0, 2**32))
def test_the_equations_are_solved(count: int, seed: int) -> None:
    rng = random.Random(seed)
    rows = [[rng.uniform(-1, 1) for _ in range(count)] for _ in range(count + 3)]
    matrix = [
        [sum(row[i] * row[j] for row in rows) + (0.01 if i == j else 0.0) for j in range(count)] for i in range(count)
    ]
    expected = [rng.uniform(-5, 5) for _ in range(count)]
    right = [sum(value * one for value, one in zip(row, expected, strict=True)) for row in matrix]
    assert solve(matrix, right) == pytest.approx(expected, abs=1e-6)
