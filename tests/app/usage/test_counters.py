"""Counts that several callers take from at once: one suite for every twin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from app.replicas.redis_link import RedisLink
from app.usage.counters import Counters
from app.usage.limits import Limits, Span, Subject, SubjectKind, Unit, Window
from app.usage.memory_counters import MemoryCounters
from app.usage.redis_counters import RedisCounters
from tests.support.redis_server import RedisServer

ANN = Subject(SubjectKind.USER, "ann")
KEY = Subject(SubjectKind.KEY, "key")
NOW = datetime(2099, 12, 1, 12, 30, 15, tzinfo=UTC)
"""Far enough that Redis, which has a clock of its own, keeps the windows."""

MINUTE = Window.at(ANN, Unit.REQUESTS, Span.MINUTE, NOW)
DAY = Window.at(KEY, Unit.REQUESTS, Span.DAY, NOW)


@pytest.fixture(params=["memory", "redis"])
async def counters(request: pytest.FixtureRequest) -> AsyncIterator[Counters]:
    if request.param == "memory":
        yield MemoryCounters()
        return
    server: RedisServer = request.getfixturevalue("redis_server")
    link = RedisLink(server.url)
    yield RedisCounters(link, MemoryCounters())
    await link.close()
    server.empty()


@pytest.fixture
async def pair(redis_server: RedisServer) -> AsyncIterator[tuple[RedisCounters, RedisCounters]]:
    """Those of two servers."""
    links = RedisLink(redis_server.url), RedisLink(redis_server.url)
    yield RedisCounters(links[0], MemoryCounters()), RedisCounters(links[1], MemoryCounters())
    for link in links:
        await link.close()
    redis_server.empty()


def test_windows_are_whole_minutes_and_days_of_utc() -> None:
    assert (MINUTE.begins_at, MINUTE.ends_at) == (NOW.replace(second=0), NOW.replace(minute=31, second=0))
    assert DAY.begins_at == datetime(2099, 12, 1, tzinfo=UTC)
    assert DAY.ends_at == datetime(2099, 12, 2, tzinfo=UTC)


def test_only_limits_that_are_set_have_windows() -> None:
    limits = Limits(requests_per_day=5, tokens_per_minute=100)
    assert dict(limits.windows(KEY, Unit.REQUESTS, NOW)) == {DAY: 5}
    assert dict(limits.windows(ANN, Unit.TOKENS, NOW)) == {Window.at(ANN, Unit.TOKENS, Span.MINUTE, NOW): 100}
    assert dict(Limits().windows(ANN, Unit.TOKENS, NOW)) == {}


async def test_of_many_at_once_exactly_as_many_get_through_as_may(counters: Counters) -> None:
    await counters.seed(MINUTE, 2)
    taken = await asyncio.gather(*(counters.take({MINUTE: 10}, 1) for _ in range(50)))
    assert taken.count(None) == 8
    assert {found for found in taken if found is not None} == {(MINUTE, 10)}
    assert await counters.used(MINUTE) == 10


async def test_where_one_window_is_full_nothing_is_taken_from_the_others(counters: Counters) -> None:
    await counters.seed(MINUTE, 0)
    await counters.seed(DAY, 7)
    assert await counters.take({MINUTE: 10, DAY: 7}, 1) == (DAY, 7)
    assert await counters.used(MINUTE) == 0


async def test_an_amount_that_crosses_the_limit_is_taken_and_the_next_one_is_not(counters: Counters) -> None:
    await counters.seed(DAY, 90)
    assert await counters.take({DAY: 100}, 50) is None
    assert await counters.take({DAY: 100}, 0) == (DAY, 140)


async def test_what_was_taken_can_be_given_back(counters: Counters) -> None:
    await counters.seed(DAY, 0)
    await counters.take({DAY: 1}, 1)
    await counters.add({DAY: 1}, -1)
    assert await counters.take({DAY: 1}, 1) is None


async def test_the_first_one_who_seeds_counts_and_a_window_that_nobody_seeded_is_not_counted(
    counters: Counters,
) -> None:
    await counters.add({DAY: 5}, 3)
    assert await counters.unseeded([DAY, MINUTE]) == [DAY, MINUTE]
    await counters.seed(DAY, 4)
    await counters.seed(DAY, 9)
    assert await counters.used(DAY) == 4
    assert await counters.unseeded([DAY, MINUTE]) == [MINUTE]


async def test_windows_that_are_over_are_forgotten() -> None:
    counters = MemoryCounters()
    for minute in range(1000):
        now = NOW + timedelta(minutes=minute)
        await counters.seed(Window.at(ANN, Unit.REQUESTS, Span.MINUTE, now), 0)
        await counters.seed(Window.at(ANN, Unit.REQUESTS, Span.DAY, now), 0)
    assert len(counters) == 2


# --- over Redis -----------------------------------------------------------------------------------------------------------


async def test_several_servers_count_together(pair: tuple[RedisCounters, RedisCounters]) -> None:
    one, other = pair
    await one.seed(DAY, 0)
    assert await other.unseeded([DAY]) == []
    taken = await asyncio.gather(*(counters.take({DAY: 10, MINUTE: 100}, 1) for counters in pair * 10))
    assert taken.count(None) == 10
    assert await one.used(DAY) == await other.used(DAY) == 10
    assert await other.used(MINUTE) == 10


async def test_what_redis_keeps_of_a_window_ends_soon_after_it(
    pair: tuple[RedisCounters, RedisCounters], redis_server: RedisServer
) -> None:
    now = datetime.now(UTC)
    window = Window.at(ANN, Unit.TOKENS, Span.MINUTE, now)
    assert await pair[0].take({window: 5}, 1) is None
    commands = RedisLink(redis_server.url).commands
    (key,) = await commands.keys("*")
    left_ms = await commands.pttl(key)
    await commands.aclose()
    assert 0 < left_ms <= 121_000


async def test_while_redis_is_away_each_counts_alone_and_tells_it_afterwards(
    pair: tuple[RedisCounters, RedisCounters], redis_server: RedisServer
) -> None:
    one, other = pair
    await one.seed(DAY, 0)
    assert await one.take({DAY: 10}, 3) is None
    link = one._link
    away, link.commands = link.commands, RedisLink("redis://127.0.0.1:1").commands
    scripts = one._take.registered_client, one._add.registered_client
    one._take.registered_client = one._add.registered_client = link.commands
    assert await one.unseeded([DAY]) == [DAY]
    await one.seed(DAY, 3)
    assert await one.take({DAY: 10}, 4) is None
    await one.add({DAY: 10}, 1)
    assert await one.used(DAY) == 8
    assert await other.used(DAY) == 3
    await link.commands.aclose()
    link.commands = away
    one._take.registered_client, one._add.registered_client = scripts
    assert await one.used(DAY) == await other.used(DAY) == 8
