"""The brake on guessing passwords, by itself."""

from __future__ import annotations

import pytest

from app.accounts import throttle
from app.accounts.throttle import MAX_FAILURES, MAX_FAILURES_ANYWHERE, WINDOW_S, LoginThrottle
from app.errors import TooManyRequests
from tests.support.clock import SteppedClock


def test_names_and_addresses_are_counted_apart(clock: SteppedClock) -> None:
    brake = LoginThrottle(clock.monotonic)
    for _ in range(MAX_FAILURES):
        brake.begin("ann", "here")
    with pytest.raises(TooManyRequests):
        brake.begin("ann", "here")
    brake.begin("ann", "there")
    brake.begin("bob", "here")


def test_many_addresses_do_not_make_many_guesses(clock: SteppedClock) -> None:
    """As from a crowd of machines, or with an invented X-Forwarded-For behind a proxy that passes it on."""
    brake = LoginThrottle(clock.monotonic)
    for number in range(MAX_FAILURES_ANYWHERE):
        brake.begin("ann", f"address {number}")
    with pytest.raises(TooManyRequests):
        brake.begin("ann", "here")
    brake.begin("bob", "here")
    clock.advance(WINDOW_S)
    brake.begin("ann", "here")


def test_signing_in_often_is_no_guessing(clock: SteppedClock) -> None:
    brake = LoginThrottle(clock.monotonic)
    for number in range(3 * MAX_FAILURES_ANYWHERE):
        brake.begin("ann", f"address {number}")
        brake.succeeded("ann", f"address {number}")


def test_it_says_when_to_try_again(clock: SteppedClock) -> None:
    brake = LoginThrottle(clock.monotonic)
    for _ in range(MAX_FAILURES):
        brake.begin("ann", "here")
    clock.advance(WINDOW_S - 0.5)
    with pytest.raises(TooManyRequests) as caught:
        brake.begin("ann", "here")
    assert caught.value.headers == {"Retry-After": "1"}
    clock.advance(0.5)
    brake.begin("ann", "here")


def test_invented_names_do_not_fill_the_memory(clock: SteppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "MAX_KEYS", 3)
    brake = LoginThrottle(clock.monotonic)
    for number in range(100):
        brake.begin(f"user{number}", "here")
    assert len(brake._attempts) == 3
