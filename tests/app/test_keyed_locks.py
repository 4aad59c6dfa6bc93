"""One block per key at a time, first come first served, and no lock that nobody needs."""

from __future__ import annotations

import asyncio

import pytest

from app.keyed_locks import KeyedLocks


async def test_blocks_of_one_key_follow_each_other_and_of_two_do_not() -> None:
    locks, order = KeyedLocks(), []

    async def work(key: str, name: str) -> None:
        async with locks.holding(key):
            order.append(f"{name} in")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            order.append(f"{name} out")

    await asyncio.gather(work("a", "1"), work("a", "2"), work("b", "3"))
    assert order.index("1 out") < order.index("2 in")
    assert order.index("3 in") < order.index("1 out")
    assert len(locks) == 0


async def test_who_fails_or_is_cancelled_leaves_nothing() -> None:
    locks = KeyedLocks()
    with pytest.raises(ZeroDivisionError):
        async with locks.holding("a"):
            raise ZeroDivisionError
    async with locks.holding("a"):
        waiting = asyncio.create_task(_hold(locks))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert len(locks) == 1
    assert len(locks) == 0


async def _hold(locks: KeyedLocks) -> None:
    async with locks.holding("a"):
        pass
