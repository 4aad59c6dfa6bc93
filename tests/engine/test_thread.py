"""How the engine thread waits, with an engine that does nothing and without a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from engine.thread import HAND_OVER_S, EngineThread, Submit
from engine.types import PromptProgress, RequestId, TextDelta
from tests.support.tiny_model import load_tiny_model, request, tiny_config


class Recorded:
    """In place of the engine: how long it wants to wait is what a test says."""

    def __init__(self, gathering: Sequence[Callable[[], float]]) -> None:
        self.submitted: list[str] = []
        self._gathering = iter(gathering)

    def wait_s(self) -> float | None:
        return 0.0

    def gathering_s(self) -> float:
        return next(self._gathering)()

    def submit(self, one: Any, *rest: object) -> None:
        self.submitted.append(one.request_id)


def engine_thread() -> EngineThread:
    return EngineThread(
        tiny_config(),
        load=load_tiny_model,
        clock=lambda: 0.0,
        on_ready=lambda ready: None,
        on_step=lambda events, replies: None,
        on_failed=lambda message: None,
    )


def take(thread: EngineThread, engine: Recorded) -> bool:
    return thread._take_commands(engine)  # type: ignore[arg-type]


def test_what_comes_within_the_window_is_in_the_first_step() -> None:
    thread = engine_thread()

    def another_comes() -> float:
        thread.send(Submit(request("b"), [1], 0.0))
        return 5.0

    engine = Recorded([another_comes, lambda: 0.0])
    thread.send(Submit(request("a"), [1], 0.0))
    assert take(thread, engine)
    assert engine.submitted == ["a", "b"]


def test_when_nobody_else_comes_the_window_closes() -> None:
    thread = engine_thread()
    engine = Recorded([lambda: 0.001])
    thread.send(Submit(request("a"), [1], 0.0))
    assert take(thread, engine)
    assert engine.submitted == ["a"]


@pytest.mark.parametrize("before", [0, 1])
def test_a_stop_does_not_wait_for_the_window(before: int) -> None:
    thread = engine_thread()
    for _ in range(before):
        thread.send(Submit(request("a"), [1], 0.0))

    def stop_comes() -> float:
        thread.stop()
        return 60.0

    if not before:
        thread.stop()
    assert not take(thread, Recorded([stop_comes]))


class Noted(threading.Event):
    """How long somebody was ready to wait, and whether they had to."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[tuple[float | None, bool]] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append((timeout, not self.is_set()))
        return self.is_set()


def test_what_comes_beside_a_prompt_is_taken_before_the_next_step_begins_or_a_moment_is_over() -> None:
    thread, noted = engine_thread(), Noted()
    thread._taken = noted
    delta, progress = TextDelta(RequestId("a"), "x", 1), PromptProgress(RequestId("b"), 16, 32, 0)
    thread._publish([delta])
    thread._publish([])
    assert noted.waits == []
    thread._publish([delta, progress])
    assert noted.waits == [(HAND_OVER_S, True)]
    thread._on_step = lambda events, replies: thread.taken()
    thread._publish([progress])
    assert noted.waits[1:] == [(HAND_OVER_S, False)]
    thread._on_step = lambda events, replies: None
    thread._publish([progress])
    assert noted.waits[2:] == [(HAND_OVER_S, True)]
