"""What the engine tells those that wait, and how long it waits itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from engine.model.batch import ForwardBatch
from engine.step_size import PATIENCE
from engine.types import EngineEvent, EngineState, GenerationRequest, Namespace, Priority, Queued
from tests.support.stepped_engine import run, says, submit
from tests.support.tiny_model import PIECES, request, tiny_engine


def of(priority: Priority, name: str) -> GenerationRequest:
    return replace(request(name), priority=priority)


def by(user: str, name: str) -> GenerationRequest:
    return replace(request(name), namespace=Namespace.user(user))


def positions(events: Iterable[EngineEvent]) -> list[tuple[str, int]]:
    return [(event.request_id, event.position) for event in events if isinstance(event, Queued)]


def test_who_has_to_wait_hears_the_position_and_every_change_of_it() -> None:
    engine = tiny_engine(max_running=1, decoder=says(b" hello"))
    submit(engine, request("a"), request("b"), request("c"))
    positions: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    while engine.has_work:
        for event in engine.step():
            if isinstance(event, Queued):
                positions[event.request_id].append(event.position)
    assert positions == {"a": [], "b": [1], "c": [2, 1]}


def test_an_idle_engine_waits_a_moment_for_company_but_never_with_a_person() -> None:
    now = [0.0]
    engine = tiny_engine(clock=lambda: now[0], batch_window_ms=20, reuse=False)
    submit(engine, of(Priority.BOT, "a"))
    assert engine.wait_s() == engine.gathering_s() == 0.02
    now[0] = 0.015
    submit(engine, of(Priority.BACKGROUND, "b"))
    assert engine.gathering_s() == pytest.approx(0.005)
    now[0] = 0.021
    assert engine.gathering_s() == 0.0
    engine.step()
    assert engine.stats(EngineState.READY, 1).running_requests == 2
    submit(engine, of(Priority.BOT, "c"))
    assert engine.wait_s() == 0.0, "an engine that works does not wait"
    run(engine)
    submit(engine, of(Priority.BOT, "d"))
    assert engine.gathering_s() > 0.0
    submit(engine, of(Priority.INTERACTIVE, "e"))
    assert engine.gathering_s() == 0.0
    run(engine)
    assert engine.stats(EngineState.READY, 1).batch_windows_total == 2


def test_who_is_served_less_hears_at_once_and_who_is_overtaken_hears_it_now_and_then() -> None:
    now = [0.0]
    engine = tiny_engine(clock=lambda: now[0], max_running=1, decoder=says(b" hello", then=PIECES.index(b" world")))
    submit(engine, *(by("hog", name) for name in "abc"))
    assert positions(engine.step()) == [("b", 1), ("c", 2)]
    submit(engine, by("guest", "d"))
    assert positions(engine.step()) == [("d", 1)]
    now[0] = 1.0
    assert positions(engine.step()) == [("b", 2), ("c", 3)]
    assert positions(engine.step()) == []


def test_the_statistics_tell_who_waits_and_how_long_a_step_may_be() -> None:
    now = [0.0]
    engine = tiny_engine(clock=lambda: now[0], max_running=1, max_step_tokens=32)
    submit(engine, *(of(priority, f"{priority}{number}") for priority in Priority for number in range(2)))
    engine.step()
    stats = engine.stats(EngineState.READY, 1)
    assert stats.waiting_by_priority == (("interactive", 1), ("bot", 2), ("background", 2))
    assert stats.step_prompt_tokens == 32
    run(engine)
    assert dict(engine.stats(EngineState.READY, 1).waiting_by_priority) == dict.fromkeys(
        ("interactive", "bot", "background"), 0
    )


def test_the_length_of_a_step_is_measured_and_held() -> None:
    now = [0.0]

    def take_time(batch: ForwardBatch) -> None:
        now[0] += 0.01 + 0.001 * len(batch.token_ids)

    engine = tiny_engine(clock=lambda: now[0], max_step_tokens=256, num_pages=200, context_tokens=2000, reuse=False)
    engine._runner._decoder.before_forward = take_time  # type: ignore[attr-defined]
    submit(engine, request("a", max_tokens=400, ignore_eos=True))
    for _ in range(10):
        engine.step()
    submit(engine, request("b", "x" * 1000, max_tokens=2))
    for _ in range(3):
        before = now[0]
        engine.step()
        assert now[0] - before <= 1.2 * PATIENCE * 0.011
    assert engine.stats(EngineState.READY, 1).step_prompt_tokens < 64
