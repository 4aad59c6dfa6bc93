"""The brake on guessing passwords, by itself."""

from __future__ import annotations

import pytest

from app.accounts.throttle import MAX_FAILURES, MAX_FAILURES_ANYWHERE, WINDOW_S, LoginThrottle
from app.errors import TooManyRequests
from app.replicas.memory_rate_limits import MemoryRateLimits
from tests.support.clock import SteppedClock


async def test_names_and_addresses_are_counted_apart(clock: SteppedClock) -> None:
    brake = LoginThrottle(MemoryRateLimits(clock.monotonic))
    for _ in range(MAX_FAILURES):
        await brake.begin("ann", "here")
    with pytest.raises(TooManyRequests):
        await brake.begin("ann", "here")
    await brake.begin("ann", "there")
    await brake.begin("bob", "here")


async def test_many_addresses_do_not_make_many_guesses(clock: SteppedClock) -> None:
    """As from a crowd of machines, or with an invented X-Forwarded-For behind a proxy that passes it on."""
    brake = LoginThrottle(MemoryRateLimits(clock.monotonic))
    for number in range(MAX_FAILURES_ANYWHERE):
        await brake.begin("ann", f"address {number}")
    with pytest.raises(TooManyRequests):
        await brake.begin("ann", "here")
    await brake.begin("bob", "here")
    clock.advance(WINDOW_S)
    await brake.begin("ann", "here")


async def test_signing_in_often_is_no_guessing(clock: SteppedClock) -> None:
    brake = LoginThrottle(MemoryRateLimits(clock.monotonic))
    for number in range(3 * MAX_FAILURES_ANYWHERE):
        await brake.begin("ann", f"address {number}")
        await brake.succeeded("ann", f"address {number}")


async def test_it_says_when_to_try_again(clock: SteppedClock) -> None:
    brake = LoginThrottle(MemoryRateLimits(clock.monotonic))
    for _ in range(MAX_FAILURES):
        await brake.begin("ann", "here")
    clock.advance(WINDOW_S - 0.5)
    with pytest.raises(TooManyRequests) as caught:
        await brake.begin("ann", "here")
    assert caught.value.headers == {"Retry-After": "1"}
    clock.advance(0.5)
    await brake.begin("ann", "here")


async def test_invented_names_do_not_fill_the_memory(clock: SteppedClock) -> None:
    limits = MemoryRateLimits(clock.monotonic, keys_max=3)
    brake = LoginThrottle(limits)
    for number in range(100):
        await brake.begin(f"user{number}", "here")
    assert len(limits) == 3


async def test_what_is_refused_from_all_addresses_is_not_counted_for_one(clock: SteppedClock) -> None:
    brake = LoginThrottle(MemoryRateLimits(clock.monotonic))
    for number in range(MAX_FAILURES_ANYWHERE):
        await brake.begin("ann", f"address {number}")
    for _ in range(MAX_FAILURES + 1):
        with pytest.raises(TooManyRequests):
            await brake.begin("ann", "here")
    for number in range(MAX_FAILURES):
        await brake.succeeded("ann", f"address {number}")
    for _ in range(MAX_FAILURES):
        await brake.begin("ann", "here")
