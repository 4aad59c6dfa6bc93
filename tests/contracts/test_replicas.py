"""What `app.replicas` promises, in memory and over Redis: the same for a server that is alone and for several."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import pytest

from app.replicas.bus import News, Topic
from app.replicas.shared_logs import NumberedFrame
from tests.contracts.replicas import Deployment, Member, MemoryDeployment, RedisDeployment, joined
from tests.support.live_server import eventually, eventually_equal
from tests.support.redis_server import RedisServer

FRAMES = [b"one", b"two", b"three", b"four", b"five", b"six"]


@pytest.fixture(params=["memory", "redis"])
def deployment(request: pytest.FixtureRequest) -> Iterator[Deployment]:
    if request.param == "memory":
        yield MemoryDeployment()
        return
    server: RedisServer = request.getfixturevalue("redis_server")
    yield RedisDeployment(server.url)
    server.empty()


@pytest.fixture
async def pair(deployment: Deployment) -> AsyncIterator[list[Member]]:
    async with joined(deployment, "one", "other") as members:
        yield members


class Reading:
    """Somebody who reads a shared log."""

    def __init__(self) -> None:
        self.frames: list[NumberedFrame] = []

    def __call__(self, frames: Sequence[NumberedFrame]) -> None:
        self.frames += frames


async def appended(member: Member, response_id: str, first_seq: int, frames: Sequence[bytes]) -> bool:
    """Add frames and wait until they are there; whether that was this server's to do."""
    settled: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    member.logs.append(response_id, first_seq, frames, settled.set_result)
    return await settled


def numbered(frames: Sequence[bytes], first: int = 1) -> list[NumberedFrame]:
    return list(enumerate(frames, first))


# --- bus -----------------------------------------------------------------------------------------------------------------


async def heard_from(sender: Member, listener: Member) -> list[News]:
    """News that `listener` gets on a topic of its own; it is there before anything else of this test."""
    heard: list[News] = []
    listener.bus.on(Topic.CANCEL, heard.append)
    while not heard:
        # Who listens over a network is there a moment later.
        sender.bus.publish(Topic.CANCEL, response_id="first")
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    heard.clear()
    return heard


async def test_what_one_server_publishes_the_others_hear_in_order(pair: list[Member]) -> None:
    one, other = pair
    heard = await heard_from(one, other)
    for number in range(100):
        one.bus.publish(Topic.CANCEL, response_id=f"r{number}")
    await eventually(lambda: len(heard) == 100)
    assert [news["response_id"] for news in heard] == [f"r{number}" for number in range(100)]


async def test_nobody_hears_what_he_says_himself_and_topics_are_apart(pair: list[Member]) -> None:
    one, other = pair
    heard = await heard_from(one, other)
    own: list[News] = []
    personas: list[News] = []
    one.bus.on(Topic.CANCEL, own.append)
    other.bus.on(Topic.PERSONA, personas.append)
    one.bus.publish(Topic.CANCEL, response_id="r")
    one.bus.publish(Topic.PERSONA, name="p")
    await eventually(lambda: bool(heard and personas))
    assert (own, personas) == ([], [{"name": "p"}])


# --- leases --------------------------------------------------------------------------------------------------------------


async def test_who_is_open_is_alive_and_who_has_closed_is_not(pair: list[Member]) -> None:
    one, other = pair
    assert await one.leases.alive(["one", "other", "stranger"]) == {"one", "other"}
    await other.leases.close()
    assert await one.leases.alive(["one", "other"]) == {"one"}
    assert await one.leases.alive([]) == set()


async def test_a_server_knows_how_many_others_hear_it(deployment: Deployment) -> None:
    async with joined(deployment, "one", "other", "third") as members:

        async def counts() -> list[int]:
            return [await member.bus.num_others() for member in members]

        await eventually_equal(counts, [2, 2, 2])
        await members[2].bus.close()
        await eventually_equal(lambda: members[0].bus.num_others(), 1)


# --- rate limits ---------------------------------------------------------------------------------------------------------


async def test_a_limit_is_one_for_all_servers(pair: list[Member]) -> None:
    one, other = pair
    for member in (one, other, one):
        assert await member.limits.take("ann", limit=3, window_s=60) is None
    waits_s = [await member.limits.take("ann", limit=3, window_s=60) for member in pair]
    assert all(wait is not None and 0 < wait <= 60 for wait in waits_s)
    assert await one.limits.take("bob", limit=3, window_s=60) is None


async def test_what_is_refused_is_not_counted_and_what_is_given_back_can_be_taken_again(pair: list[Member]) -> None:
    limits = pair[0].limits
    assert await limits.take("ann", limit=10, window_s=60, amount=8) is None
    assert await limits.take("ann", limit=10, window_s=60, amount=3) is not None
    assert await limits.take("ann", limit=10, window_s=60, amount=2) is None
    await limits.give_back("ann", 100)
    assert await limits.take("ann", limit=10, window_s=60, amount=10) is None
    await limits.forget("ann")
    assert await limits.take("ann", limit=10, window_s=60, amount=10) is None
    assert await limits.take("empty", limit=10, window_s=60, amount=11) is not None


# --- shared logs ---------------------------------------------------------------------------------------------------------


async def test_a_log_is_read_while_it_grows_from_any_place_and_by_any_server(pair: list[Member]) -> None:
    one, other = pair
    assert await appended(one, "r", 1, FRAMES[:2])
    late, early = Reading(), Reading()
    other.logs.follow("r", 1, late)
    one.logs.follow("r", 0, early)
    assert await appended(one, "r", 3, FRAMES[2:5])
    one.logs.end("r", FRAMES[5])
    await eventually(lambda: len(late.frames) == 5 and len(early.frames) == 6)
    assert (late.frames, early.frames) == (numbered(FRAMES[1:], 2), numbered(FRAMES))
    for member in pair:
        member.logs.leave("r")
    await eventually(lambda: not any(one.logs.sizes().values()))
    assert not any(other.logs.sizes().values())


async def test_two_answers_of_one_conversation_are_two_logs(pair: list[Member]) -> None:
    one, other = pair
    readings = {name: Reading() for name in ("first", "second")}
    for name, reading in readings.items():
        other.logs.follow(name, 0, reading)
    for name in readings:
        assert await appended(one, name, 1, FRAMES[:5])
        one.logs.end(name, FRAMES[5])
    await eventually(lambda: all(len(reading.frames) == 6 for reading in readings.values()))
    assert all(reading.frames == numbered(FRAMES) for reading in readings.values())


async def test_appends_are_told_in_order_and_an_empty_one_behind_all_others(pair: list[Member]) -> None:
    told: list[tuple[int, bool]] = []

    def telling(number: int) -> Callable[[bool], None]:
        return lambda is_mine: told.append((number, is_mine))

    logs = pair[0].logs
    for number in range(50):
        logs.append("r", number + 1, [b"frame"], telling(number))
    logs.append("r", 51, [], telling(50))
    await eventually(lambda: len(told) == 51)
    assert told == [(number, True) for number in range(51)]


async def test_a_server_that_was_taken_for_dead_adds_nothing_behind_the_end(pair: list[Member]) -> None:
    one, other = pair
    assert await appended(one, "r", 1, FRAMES[:2])
    await other.logs.complete("r", [*FRAMES[:2], b"interrupted"])
    assert not await appended(one, "r", 3, [FRAMES[2]])
    one.logs.end("r", None)
    assert (await other.logs.read("r"))[:3] == [*FRAMES[:2], b"interrupted"]
    assert one.logs.sizes()["shared_logs"] == 0


async def test_a_log_that_a_dead_server_left_is_completed_for_those_who_follow_it(pair: list[Member]) -> None:
    one, other = pair
    assert await appended(one, "r", 1, FRAMES[:2])
    reading = Reading()
    other.logs.follow("r", 0, reading)
    await other.logs.complete("r", FRAMES)
    await other.logs.complete("r", FRAMES)
    await eventually(lambda: len(reading.frames) == 6)
    assert reading.frames == numbered(FRAMES)


async def test_who_has_left_is_given_nothing_any_more(pair: list[Member]) -> None:
    one, other = pair
    gone, there = Reading(), Reading()
    other.logs.follow("r", 0, gone)
    other.logs.leave("r")
    other.logs.leave("r")
    one.logs.follow("r", 0, there)
    assert await appended(one, "r", 1, FRAMES)
    await eventually(lambda: len(there.frames) == 6)
    assert gone.frames == []
