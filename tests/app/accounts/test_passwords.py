"""Password hashes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Literal

import pytest
from argon2 import PasswordHasher, extract_parameters

from app.accounts.passwords import Passwords


@pytest.fixture
def passwords() -> Iterator[Passwords]:
    made = Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    yield made
    made.close()


async def test_only_the_right_password_is_right(passwords: Passwords) -> None:
    stored = await passwords.hash("secret")
    assert "secret" not in stored
    assert await passwords.verify(stored, "secret")
    assert not await passwords.verify(stored, "Secret")
    assert not await passwords.verify(None, "secret")
    assert not await passwords.verify("not a hash", "secret")


class CountingHasher(PasswordHasher):
    """Remembers against what it has verified."""

    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=8, parallelism=1)
        self.verified: list[str] = []

    def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:
        self.verified.append(str(hash))
        return super().verify(hash, password)


async def test_no_account_costs_what_a_wrong_password_costs() -> None:
    hasher = CountingHasher()
    made = Passwords(hasher)
    try:
        await made.prepare()
        stored = await made.hash("secret")
        assert not await made.verify(stored, "wrong")
        assert not await made.verify(None, "wrong")
    finally:
        made.close()
    with_account, without = hasher.verified
    assert with_account == stored
    assert extract_parameters(without) == extract_parameters(stored)


async def test_the_event_loop_turns_while_passwords_are_checked() -> None:
    """open-webui/open-webui#11233: password work ran inside the event loop."""
    made = Passwords(PasswordHasher(time_cost=2, memory_cost=65536, parallelism=1))
    try:
        await made.prepare()
        turns = 0
        checks = asyncio.gather(*(made.verify(None, "wrong") for _ in range(6)))
        while not checks.done():
            await asyncio.sleep(0)
            turns += 1
        await checks
        assert turns > 100
    finally:
        made.close()
