from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import PAGE_TOKENS
from engine.errors import PromptTooLong
from engine.sequence import Sequence, SequenceState
from engine.step_plan import EngineStalled, StepPlan
from engine.types import Priority, RequestId
from engine.waiting_queue import MAX_TIMES_PASSED
from tests.support.machine import Machine
from tests.support.scheduling import Simulation


def running(plan: StepPlan) -> dict[str, int]:
    return {item.sequence.request_id: item.num_tokens for item in plan.run}


def test_a_plan_is_a_value_and_changes_nothing() -> None:
    simulation = Simulation(num_pages=4)
    simulation.add(40)
    simulation.step()
    simulation.add(30)
    before = (simulation.pool.num_free, simulation.scheduler.waiting, simulation.scheduler.running)
    assert simulation.scheduler.plan(0.0) == simulation.scheduler.plan(0.0)
    assert before == (simulation.pool.num_free, simulation.scheduler.waiting, simulation.scheduler.running)


def test_requests_join_at_any_step_and_answers_come_before_prompts() -> None:
    simulation = Simulation(max_step_tokens=32)
    first = simulation.add(10, output=20)
    assert running(simulation.step()) == {"0": 10}
    simulation.add(100)
    assert running(simulation.step()) == {"0": 1, "1": 31}
    assert first.num_output_tokens == 2


def test_a_prompt_that_can_never_fit_is_refused_with_both_numbers() -> None:
    """vllm-project/vllm#39734: it stood at the head of the queue for ever."""
    simulation = Simulation(num_pages=4)
    with pytest.raises(PromptTooLong, match="70 tokens, but at most 63 fit"):
        simulation.add(70)
    with pytest.raises(PromptTooLong):
        simulation.add(64)
    simulation.add(63)
    simulation.drain()
    with pytest.raises(PromptTooLong, match="at most 49"):
        Simulation(context_tokens=50).add(50)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_random_load_with_tiny_memory_keeps_every_invariant(data: st.DataObject) -> None:
    """vllm-project/vllm#23347: a step preempted what it had just scheduled. `Simulation.check` looks at each of the plans."""
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    simulation = Simulation(
        num_pages=data.draw(st.integers(2, 12)),
        max_step_tokens=data.draw(st.sampled_from([1, 2, 7, 16, 64])),
        max_running=data.draw(st.integers(1, 6)),
        kv_reserve=data.draw(st.sampled_from([0.0, 0.3, 0.9])),
        machine=data.draw(st.sampled_from([None, Machine(), Machine(fixed=0.5)])),
        inter_token_target_s=data.draw(st.sampled_from([None, 0.03, 1.0])),
    )
    most = simulation.scheduler.max_sequence_tokens
    for _ in range(200):
        if rng.random() < 0.3:
            user, priority = rng.choice([None, "anna", "bert"]), rng.choice(list(Priority))
            simulation.add(rng.randint(1, most - 1), rng.randint(1, 40), user=user, priority=priority)
        if rng.random() < 0.1 and simulation.all:
            simulation.scheduler.remove(rng.choice(simulation.all))
        if simulation.scheduler.has_work:
            simulation.step()
    simulation.drain()
    assert simulation.pool.num_free == simulation.num_pages
    simulation.pool.check_integrity()
    assert all(sequence.state is SequenceState.FINISHED for sequence in simulation.all)


def test_one_tenth_of_the_needed_memory_still_drains_and_the_longest_wait_is_bounded() -> None:
    simulation = Simulation(num_pages=20, max_running=16)
    for _ in range(16):
        simulation.add(100, output=100)
    alone = Simulation(num_pages=20, max_running=16)
    alone.add(100, output=100)
    alone.drain()
    simulation.drain(limit=16 * alone.steps + 1)


def test_memory_for_one_request_of_full_length_serves_eight() -> None:
    """huggingface/transformers#43150: generation failed when no block was free."""
    simulation = Simulation(num_pages=16, max_running=8)
    sequences = [simulation.add(20 + index, output=1000) for index in range(8)]
    simulation.drain()
    assert {len(sequence.tokens) for sequence in sequences} == {simulation.scheduler.max_sequence_tokens}
    assert simulation.scheduler.num_preemptions > 0


def test_the_youngest_gives_way_and_resumes_before_any_later_arrival() -> None:
    """vllm-project/vllm#41951: newer arrivals kept overtaking a preempted request."""
    simulation = Simulation(num_pages=8, max_running=4)
    old = simulation.add(40, output=80)
    young = simulation.add(40, output=60)
    while not simulation.scheduler.num_preemptions:
        simulation.step()
    assert young.num_preemptions == 1
    assert young.state is SequenceState.WAITING
    assert young.tokens[40:]
    late = simulation.add(1, output=1)
    while young.state is SequenceState.WAITING:
        assert late.state is SequenceState.WAITING
        simulation.step()
    assert old.num_preemptions == 0
    simulation.drain()


def test_small_requests_may_pass_a_blocked_head_a_few_times_and_then_no_more() -> None:
    """vllm-project/vllm#31731 and the other way round, vllm-project/vllm#33499."""
    simulation = Simulation(num_pages=16, max_running=4, context_tokens=256)
    simulation.add(100, output=150)
    simulation.step()
    head = simulation.add(200)
    passed = 0
    for _ in range(MAX_TIMES_PASSED):
        small = simulation.add(2, output=1)
        simulation.step()
        passed += small.state is SequenceState.FINISHED
        assert head.state is SequenceState.WAITING
    assert passed == MAX_TIMES_PASSED == head.times_passed
    small = simulation.add(2, output=1)
    while head.state is SequenceState.WAITING:
        assert small.state is SequenceState.WAITING
        simulation.step()
    simulation.drain()


@pytest.mark.parametrize("step_overhead", [5.0, 25.0, 100.0])
@pytest.mark.parametrize("short_tokens", [5, 20, 100])
@pytest.mark.parametrize("arrives_after_steps", [1, 5, 20])
def test_a_long_prompt_hardly_delays_the_first_token_of_a_short_one(
    step_overhead: float, short_tokens: int, arrives_after_steps: int
) -> None:
    """sgl-project/sglang#10063. A step costs an overhead, and one unit for each token."""

    def cost(plan: StepPlan) -> float:
        return step_overhead + sum(item.num_tokens for item in plan.run)

    simulation = Simulation(num_pages=1000)
    simulation.add(50, output=500)
    simulation.step()
    simulation.add(6000)
    for _ in range(arrives_after_steps):
        simulation.step()
    one_chunk = step_overhead + 256
    short = simulation.add(short_tokens)
    waited = one_chunk  # it came just after a step of full size had begun
    while not short.num_output_tokens:
        waited += cost(simulation.step())
    assert waited <= 3 * (step_overhead + short_tokens) + one_chunk


def test_a_stream_of_short_prompts_does_not_starve_a_long_one() -> None:
    simulation = Simulation(num_pages=1000)
    long = simulation.add(2000)
    for _ in range(2000 // PAGE_TOKENS + 2):
        simulation.add(5, output=1)
        simulation.step()
    assert long.num_output_tokens > 0


def test_prompts_of_equal_length_are_finished_one_after_the_other() -> None:
    """Sharing every step evenly would make all of them wait for the last."""
    simulation = Simulation(max_step_tokens=128)
    sequences = [simulation.add(120, output=50) for _ in range(3)]
    simulation.step()
    assert [sequence.num_output_tokens for sequence in sequences] == [1, 0, 0]


def test_every_running_answer_gets_a_token_even_with_a_tiny_budget() -> None:
    simulation = Simulation(max_step_tokens=3, max_running=8)
    for _ in range(6):
        simulation.add(4, output=10)
    for _ in range(20):
        plan = simulation.step()
        assert len(plan.run) <= 3
    simulation.drain()


def test_waiting_work_that_cannot_run_is_a_bug_and_raises() -> None:
    """vllm-project/vllm#45388: the engine sat idle for minutes with a full queue."""
    simulation = Simulation(num_pages=4)
    simulation.pool.allocate(4)
    simulation.scheduler.add(Sequence(RequestId("a"), 0, [1], 1, 5))
    with pytest.raises(EngineStalled, match=r"1 sequences wait .* 0 of 4 pages are free"):
        simulation.scheduler.plan(0.0)


def test_removing_works_in_every_state_and_twice() -> None:
    """vllm-project/vllm#44100 and vllm-project/vllm#18485: an abort before the first step leaked or raised."""
    simulation = Simulation(num_pages=8)
    waiting, running_one = simulation.add(10), simulation.add(20)
    simulation.scheduler.remove(waiting)
    simulation.scheduler.remove(waiting)
    simulation.step()
    simulation.scheduler.remove(running_one)
    simulation.scheduler.remove(running_one)
    assert simulation.pool.num_free == 8
    assert not simulation.scheduler.has_work
    simulation.scheduler.check_integrity()
