"""What is swept out from time to time."""

from __future__ import annotations

import asyncio

import pytest

from app.operations.housekeeping import INTERVAL_S, keep_house


async def test_every_chore_is_done_at_once_and_then_once_per_interval() -> None:
    done: list[str] = []
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise asyncio.CancelledError

    async def first() -> None:
        done.append("first")

    async def second() -> None:
        done.append("second")

    with pytest.raises(asyncio.CancelledError):
        await keep_house([first, second], sleep)
    assert done == ["first", "second"] * 3
    assert slept == [INTERVAL_S] * 3


async def test_a_chore_that_fails_stops_no_other_and_is_tried_again() -> None:
    done: list[str] = []

    async def sleep(seconds: float) -> None:
        if done.count("fine") == 2:
            raise asyncio.CancelledError

    async def failing() -> None:
        done.append("failing")
        raise OSError("the database is away")

    async def fine() -> None:
        done.append("fine")

    with pytest.raises(asyncio.CancelledError):
        await keep_house([failing, fine], sleep)
    assert done == ["failing", "fine"] * 2
