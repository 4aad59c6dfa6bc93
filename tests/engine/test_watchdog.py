from __future__ import annotations

from engine.watchdog import MAX_IDLE_PASSES, MAX_IDLE_S, Watchdog


def test_idling_with_work_is_noticed_by_the_time_and_by_the_number_of_plans() -> None:
    """vllm-project/vllm#45388: the engine sat idle for minutes with a full queue."""
    watchdog = Watchdog(patience_s=10.0)
    assert watchdog.idled(5.0, is_restoring=False) is None
    assert watchdog.idled(5.0 + MAX_IDLE_S, is_restoring=False) is None
    assert watchdog.idled(5.1 + MAX_IDLE_S, is_restoring=False) is not None
    watchdog = Watchdog(patience_s=10.0)
    assert [watchdog.idled(0.0, is_restoring=False) for _ in range(MAX_IDLE_PASSES)] == [None] * MAX_IDLE_PASSES
    assert watchdog.idled(0.0, is_restoring=False) == 0.0


def test_bringing_kv_back_may_take_its_time_and_not_for_ever() -> None:
    watchdog = Watchdog(patience_s=10.0)
    for pass_number in range(3 * MAX_IDLE_PASSES):
        assert watchdog.idled(pass_number * 0.05, is_restoring=True) is None
    assert watchdog.idled(10.0 + MAX_IDLE_S, is_restoring=True) is None
    assert watchdog.idled(10.1 + MAX_IDLE_S, is_restoring=True) == 10.1 + MAX_IDLE_S


def test_a_plan_that_runs_something_ends_the_count() -> None:
    watchdog = Watchdog(patience_s=10.0)
    watchdog.idled(0.0, is_restoring=True)
    watchdog.ran()
    assert watchdog.idled(100.0, is_restoring=True) is None
