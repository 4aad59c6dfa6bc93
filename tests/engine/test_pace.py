"""The pace that readers are used to, and what it leaves for the prompts of others."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.pace import HABIT_TOKENS, Pace
from engine.step_size import COMFORT_S, STRETCH, StepLoad
from tests.support.machine import Machine
from tests.support.scheduling import Simulation

QUICK = Machine(fixed=0.002, per_prompt_token=2e-4, per_answer=3e-4, per_read=0.0)
"""The bundled model on two cores."""


@given(st.lists(st.floats(0.001, 10.0), min_size=1, max_size=60))
def test_nobody_is_used_to_a_slower_pace_than_the_median_or_than_a_habit(steps: list[float]) -> None:
    pace = Pace()
    for seconds in steps:
        pace.note(seconds, StepLoad())
    assert pace.usual is not None
    assert pace.usual[0] <= statistics.median_high(steps)
    assert sum(seconds <= pace.usual[0] for seconds in steps) >= min(HABIT_TOKENS, (len(steps) + 1) // 2)


@given(st.lists(st.floats(0.001, 10.0), min_size=2 * HABIT_TOKENS, max_size=60), st.floats(0.001, 10.0))
def test_a_habit_never_gets_slower(steps: list[float], next_s: float) -> None:
    pace = Pace()
    for seconds in steps:
        pace.note(seconds, StepLoad())
    before = pace.usual
    pace.note(next_s, StepLoad())
    assert before is not None
    assert pace.usual is not None
    assert pace.usual[0] <= before[0]


def test_nobody_is_used_to_anything_before_the_second_token() -> None:
    assert Pace().usual is None


def test_prompts_that_come_together_are_read_in_hardly_more_time_than_without_the_answers_that_begin_meanwhile() -> (
    None
):
    simulation = Simulation(num_pages=3000, max_running=32, machine=QUICK)
    for number in range(10):
        simulation.add(50, 20, user=f"earlier {number}")
    simulation.drain()
    begun = simulation.now
    chats = [simulation.add(430, 60, user=f"user {number}") for number in range(16)]
    simulation.drain()
    last_first_token_s = max(simulation.token_at[chat][0] for chat in chats) - begun
    assert last_first_token_s <= 1.4 * 16 * 430 * QUICK.per_prompt_token
    longest = max(gap for chat in chats for gap in simulation.gaps(chat))
    assert longest <= 1.1 * max(COMFORT_S, STRETCH * QUICK.fixed)


def test_who_was_alone_before_they_came_keeps_the_pace() -> None:
    simulation = Simulation(num_pages=3000, max_running=32, machine=QUICK)
    reader = simulation.add(50, 2000, user="reader")
    for _ in range(100):
        simulation.step()
    usual = statistics.median(simulation.gaps(reader))
    for number in range(16):
        simulation.add(430, 60, user=f"user {number}")
    simulation.drain()
    assert max(simulation.gaps(reader)) <= 5 * usual


@pytest.mark.parametrize(("chats", "output"), [(2, 200), (4, 200), (8, 300), (16, 60), (16, 300)])
def test_who_began_in_a_crowd_has_not_paused_for_long_beside_the_pace_that_comes_after_it(
    chats: int, output: int
) -> None:
    simulation = Simulation(num_pages=3000, max_running=32, machine=QUICK)
    for number in range(10):
        simulation.add(50, 20, user=f"earlier {number}")
    simulation.drain()
    crowd = [simulation.add(430, output, user=f"user {number}") for number in range(chats)]
    simulation.drain()
    for chat in crowd:
        gaps = simulation.gaps(chat)
        assert max(gaps) <= 5 * statistics.median(gaps)


@pytest.mark.parametrize("slower", [3.0, 8.0])
def test_newcomers_do_not_wait_for_the_end_of_streams_that_knew_a_quicker_machine(slower: float) -> None:
    """Something else takes the machine, and five answers were used to having it."""
    simulation = Simulation(num_pages=5000, max_running=32, machine=Machine())
    streams = [simulation.add(50, 3000, user=f"reader {number}") for number in range(5)]
    for _ in range(100):
        simulation.step()
    simulation.noise = lambda: slower
    for _ in range(30):
        simulation.step()
    newcomers = [simulation.add(400, 20, user=f"user {number}") for number in range(4)]
    while not all(newcomer.num_output_tokens for newcomer in newcomers):
        simulation.step()
    assert max(stream.num_output_tokens for stream in streams) < 1000
