from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.batch_window import MAX_BATCH_WINDOW_MS, BatchWindow
from engine.types import Priority


@dataclass(frozen=True)
class Request:
    queued_at: float = 0.0
    priority: Priority = Priority.BOT
    num_prompt_tokens: int = 10


WINDOW = BatchWindow(0.02, full_requests=4, full_tokens=256)


def test_an_idle_engine_waits_for_company_until_the_window_closes() -> None:
    assert WINDOW.closes_at([Request(5.0)], now=5.001) == pytest.approx(5.02)
    assert WINDOW.closes_at([Request(5.0), Request(5.015)], now=5.016) == pytest.approx(5.02)
    assert WINDOW.closes_at([Request(5.0)], now=5.02) is None


def test_nothing_waits_for_nothing() -> None:
    assert WINDOW.closes_at([], now=0.0) is None


@pytest.mark.parametrize("others", [0, 1, 2])
def test_a_person_never_waits_for_company(others: int) -> None:
    requests = [Request()] * others + [Request(priority=Priority.INTERACTIVE)]
    assert WINDOW.closes_at(requests, now=0.0) is None


def test_a_full_batch_does_not_wait_for_more() -> None:
    assert WINDOW.closes_at([Request()] * 3, now=0.0) is not None
    assert WINDOW.closes_at([Request()] * 4, now=0.0) is None
    assert WINDOW.closes_at([Request(num_prompt_tokens=255)], now=0.0) is not None
    assert WINDOW.closes_at([Request(num_prompt_tokens=256)], now=0.0) is None


def test_no_window_means_no_waiting() -> None:
    assert BatchWindow(0.0, full_requests=4, full_tokens=256).closes_at([Request()], now=0.0) is None


@pytest.mark.parametrize("window_ms", [-1, MAX_BATCH_WINDOW_MS + 1])
def test_a_window_that_would_be_felt_is_refused(window_ms: int) -> None:
    with pytest.raises(ValueError, match="0 to 20 ms"):
        BatchWindow(window_ms / 1000, full_requests=4, full_tokens=256)


@given(
    st.lists(st.builds(Request, st.floats(0, 10), st.sampled_from(Priority), st.integers(1, 300)), max_size=6),
    st.floats(0, 10),
)
def test_nobody_waits_longer_than_the_window(requests: list[Request], now: float) -> None:
    closes_at = WINDOW.closes_at(requests, now)
    if closes_at is not None:
        assert now < closes_at <= min(request.queued_at for request in requests) + 0.02
