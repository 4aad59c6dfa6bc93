"""Prompts that begin alike and come together: the common beginning is computed once, and nobody waits for ever."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import PAGE_TOKENS
from engine.sequence import Sequence, SequenceState
from engine.shared_beginnings import MAX_SLOW_STEPS
from engine.types import Priority
from engine.waiting_queue import MAX_TIMES_PASSED
from tests.support.scheduling import Simulation

COMMON = list(range(1000, 1400))
OWN_TOKENS = 40


def prompt(number: int) -> list[int]:
    """400 tokens that all have, and 40 of its own."""
    return COMMON + [number] * OWN_TOKENS


def many(**options: object) -> Simulation:
    return Simulation(num_pages=3000, max_running=32, **options)  # type: ignore[arg-type]


def computed_tokens(simulation: Simulation, wanted: list[Sequence]) -> int:
    """Of the prompts of these, until all are answered."""
    computed = 0
    while any(not sequence.num_output_tokens for sequence in wanted):
        run = simulation.step().run
        computed += sum(item.num_tokens for item in run if item.start < item.sequence.num_prompt_tokens)
    return computed


def test_the_common_beginning_of_prompts_that_come_together_is_computed_once() -> None:
    simulation = many()
    chats = [simulation.add(prompt(number), user="anna", reuse=True) for number in range(16)]
    computed = computed_tokens(simulation, chats)
    assert computed <= len(COMMON) + 16 * (OWN_TOKENS + PAGE_TOKENS)
    assert not any(chat.times_passed for chat in chats)


def test_it_does_not_matter_that_they_come_while_it_is_being_computed() -> None:
    simulation = many(max_step_tokens=64)
    chats = [simulation.add(prompt(0), user="anna", reuse=True)]
    for _ in range(3):
        simulation.step()
    chats += [simulation.add(prompt(number), user="anna", reuse=True) for number in range(1, 16)]
    assert computed_tokens(simulation, chats) <= len(COMMON) + 16 * (OWN_TOKENS + PAGE_TOKENS)


def test_nobody_waits_for_what_another_account_computes() -> None:
    simulation = many()
    for number in range(8):
        simulation.add(prompt(0), user=f"user {number}", reuse=True)
    simulation.step()
    assert len(simulation.scheduler.running) == 8


def test_nobody_waits_for_what_may_not_be_shared() -> None:
    simulation = many()
    for _ in range(8):
        simulation.add(prompt(0), user="anna", reuse=False)
    simulation.step()
    assert len(simulation.scheduler.running) == 8


def test_a_person_does_not_wait_for_background_work() -> None:
    simulation = many(max_step_tokens=64)
    simulation.add(prompt(0), user="anna", reuse=True, priority=Priority.BACKGROUND)
    simulation.step()
    person = simulation.add(prompt(1), user="anna", reuse=True)
    simulation.step()
    assert person.state is SequenceState.RUNNING


@pytest.mark.parametrize("shared_pages", [1, 5, 25])
def test_a_prompt_starts_as_soon_as_it_differs_from_what_comes_next(shared_pages: int) -> None:
    simulation = many(max_step_tokens=PAGE_TOKENS)
    simulation.add(prompt(0), user="anna", reuse=True)
    simulation.step()
    tokens = COMMON[: shared_pages * PAGE_TOKENS] + [7] * 100
    other = simulation.add(tokens, user="anna", reuse=True)
    while other.state is SequenceState.WAITING:
        simulation.step()
    assert other.num_computed >= shared_pages * PAGE_TOKENS
    assert simulation.steps <= shared_pages + 2


def test_when_the_one_they_wait_for_is_cancelled_the_next_goes_on_from_there() -> None:
    simulation = many(max_step_tokens=64)
    chats = [simulation.add(prompt(number), user="anna", reuse=True) for number in range(4)]
    for _ in range(3):
        simulation.step()
    assert [chat.state for chat in chats[1:]] == [SequenceState.WAITING] * 3
    simulation.scheduler.remove(chats[0], chats[0].num_computed)
    assert computed_tokens(simulation, chats[1:]) <= len(COMMON) - 3 * 64 + 3 * (OWN_TOKENS + PAGE_TOKENS)


def test_whoever_was_passed_too_often_waits_for_nobody() -> None:
    simulation = Simulation(num_pages=3000, max_running=64, max_step_tokens=16)
    simulation.add(prompt(0), user="anna", reuse=True)
    waiting = simulation.add(prompt(1), user="anna", reuse=True)
    simulation.step()
    for number in range(MAX_TIMES_PASSED):
        assert waiting.state is SequenceState.WAITING
        simulation.add([number] * 30, user="anna", reuse=True)
        simulation.step()
    simulation.step()
    assert waiting.state is SequenceState.RUNNING


def test_nobody_waits_for_a_slow_one_to_compute_what_another_has_computed_before_it() -> None:
    simulation = many(max_step_tokens=64)
    simulation.add(list(range(1000, 4000)), user="anna", reuse=True, priority=Priority.BOT)
    simulation.step()
    quick = simulation.add(prompt(1), user="anna", reuse=True)
    while not quick.num_output_tokens:
        simulation.step()
    bot = simulation.add(prompt(2), user="anna", reuse=True, priority=Priority.BOT)
    simulation.step()
    assert bot.state is SequenceState.RUNNING
    assert bot.cached_from is not None
    assert bot.cached_from.total >= len(COMMON)


def test_a_short_prompt_does_not_stand_behind_a_long_one_that_others_hold_up() -> None:
    simulation = many(max_step_tokens=128)
    simulation.add(6000, user="first")
    long = simulation.add(COMMON[:160] + [1] * 5000, user="anna", reuse=True)
    for number in range(10):
        simulation.add(1000, user=f"user {number}", token=number + 2)
    simulation.step()
    begun = simulation.steps
    short = simulation.add(COMMON[:160] + [3] * 10, user="anna", reuse=True)
    while not short.num_output_tokens:
        simulation.step()
    assert simulation.steps - begun <= MAX_SLOW_STEPS + 5
    assert long.num_computed < 160


def test_an_engine_that_is_full_makes_no_keys_for_those_that_wait() -> None:
    """A thousand prompts of a thousand tokens took half a second of one step."""
    simulation = Simulation(num_pages=3000, max_running=8)
    for number in range(8):
        simulation.add(prompt(number), 50, user=f"user {number}", reuse=True, priority=Priority.BACKGROUND)
    simulation.step()
    waiting = [
        simulation.add([number] * 500, user=f"other {number}", reuse=True, priority=Priority.BACKGROUND)
        for number in range(50)
    ]
    simulation.step()
    assert not any(sequence.page_keys for sequence in waiting)


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_whatever_comes_and_goes_everybody_ends(data: st.DataObject) -> None:
    """With few pages, so that those who compute are preempted, too."""
    simulation = Simulation(num_pages=48, context_tokens=600, max_step_tokens=data.draw(st.sampled_from([16, 64, 256])))
    chats: list[Sequence] = []
    for _ in range(data.draw(st.integers(2, 25))):
        kind = data.draw(st.sampled_from(["add", "add", "step", "cancel"]))
        if kind == "add":
            shared = data.draw(st.integers(0, 20)) * PAGE_TOKENS
            own = [data.draw(st.integers(0, 3))] * data.draw(st.integers(1, 60))
            user, priority = data.draw(st.sampled_from(["anna", "bert"])), data.draw(st.sampled_from(list(Priority)))
            chats.append(simulation.add(COMMON[:shared] + own, 6, user=user, reuse=True, priority=priority))
        elif kind == "step":
            simulation.now += 0.1
            if simulation.scheduler.has_work:
                simulation.step()
        elif chats:
            chat = data.draw(st.sampled_from(chats))
            simulation.scheduler.remove(chat, chat.num_computed)
    simulation.drain(limit=5000)
    assert all(chat.state is SequenceState.FINISHED for chat in chats)
