"""What the Redis twins do while Redis is away, and that they are right again by themselves when it is back with nothing in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from app.replicas.bus import News, Topic
from app.replicas.redis_link import RedisLink
from app.replicas.redis_shared_logs import RedisSharedLogs
from app.replicas.shared_logs import SharedLogsAway
from tests.contracts.replicas import Member, RedisDeployment, joined
from tests.contracts.test_replicas import FRAMES, Reading, appended, heard_from, numbered
from tests.support.live_server import eventually, eventually_equal
from tests.support.redis_server import RedisServer


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """One that the test may restart."""
    server = RedisServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def pair(own_redis: RedisServer) -> AsyncIterator[list[Member]]:
    async with joined(RedisDeployment(own_redis.url), "one", "other") as members:
        yield members


async def test_frames_are_not_held_up_while_redis_is_away_and_all_are_there_when_it_is_back(
    own_redis: RedisServer, pair: list[Member]
) -> None:
    one, other = pair
    reading = Reading()
    other.logs.follow("r", 0, reading)
    assert await appended(one, "r", 1, FRAMES[:2])
    await eventually(lambda: len(reading.frames) == 2)
    await asyncio.to_thread(own_redis.stop)
    for seq, frame in enumerate(FRAMES[2:5], 3):
        assert await appended(one, "r", seq, [frame])
    with pytest.raises(SharedLogsAway):
        await other.logs.read("r")
    await asyncio.to_thread(own_redis.start)
    await eventually(lambda: len(reading.frames) == 5)
    one.logs.end("r", FRAMES[5])
    await eventually(lambda: len(reading.frames) == 6)
    assert reading.frames == numbered(FRAMES)
    assert await other.logs.read("r") == FRAMES


async def test_a_restart_that_nobody_has_noticed_loses_no_frame(own_redis: RedisServer, pair: list[Member]) -> None:
    one, other = pair
    assert await appended(one, "r", 1, FRAMES[:5])
    await asyncio.to_thread(own_redis.stop)
    await asyncio.to_thread(own_redis.start)
    assert await appended(one, "r", 6, FRAMES[5:])
    await eventually_equal(lambda: whatever_is_there(other, "r"), FRAMES)


async def test_a_log_that_ends_while_redis_is_away_is_kept_nowhere_here(
    own_redis: RedisServer, pair: list[Member]
) -> None:
    one, _ = pair
    assert await appended(one, "r", 1, FRAMES[:2])
    await asyncio.to_thread(own_redis.stop)
    assert await appended(one, "r", 3, [FRAMES[2]])
    one.logs.end("r", FRAMES[3])
    await eventually(lambda: one.logs.sizes()["shared_logs"] == 0)


async def test_news_is_heard_again_and_who_listens_is_told_that_some_was_missed(
    own_redis: RedisServer, pair: list[Member]
) -> None:
    one, other = pair
    heard = await heard_from(one, other)
    missed = asyncio.Event()
    other.bus.on_reconnected(missed.set)
    await asyncio.to_thread(own_redis.stop)
    one.bus.publish(Topic.CANCEL, response_id="lost")
    await asyncio.to_thread(own_redis.start)
    async with asyncio.timeout(30):
        await missed.wait()
    await eventually_said(one, heard)
    assert {"response_id": "again"} in heard


async def test_nobody_is_called_dead_by_who_cannot_ask(own_redis: RedisServer, pair: list[Member]) -> None:
    one, other = pair
    await asyncio.to_thread(own_redis.stop)
    assert await one.leases.alive(["other"]) is None
    assert one.link is not None
    assert one.link.problem
    await asyncio.to_thread(own_redis.start)
    await eventually_equal(lambda: one.leases.alive(["one", "other"]), {"one", "other"})
    assert other.link is not None
    await eventually(lambda: one.link.problem is None and other.link.problem is None)  # type: ignore[union-attr]


async def test_each_server_counts_for_itself_while_redis_is_away(own_redis: RedisServer, pair: list[Member]) -> None:
    one, other = pair
    assert await one.limits.take("ann", limit=1, window_s=60) is None
    await asyncio.to_thread(own_redis.stop)
    assert [await member.limits.take("ann", limit=1, window_s=60) for member in pair] == [None, None]
    assert await other.limits.take("ann", limit=1, window_s=60) is not None
    await other.limits.give_back("ann")
    await other.limits.forget("ann")


async def test_a_redis_that_does_not_answer_holds_frames_up_once_and_not_for_long(
    own_redis: RedisServer, pair: list[Member]
) -> None:
    one, other = pair
    assert await appended(one, "r", 1, FRAMES[:2])
    own_redis.freeze()
    async with asyncio.timeout(30):
        assert await appended(one, "r", 3, [FRAMES[2]])
        assert await appended(one, "r", 4, [FRAMES[3]])
    own_redis.thaw()
    await eventually_equal(lambda: whatever_is_there(other, "r"), FRAMES[:4])


async def test_a_frame_that_comes_while_the_others_are_on_their_way_back_is_not_forgotten(
    own_redis: RedisServer, pair: list[Member]
) -> None:
    one, other = pair
    assert await appended(one, "r", 1, FRAMES[:2])
    own_redis.freeze()
    assert await appended(one, "r", 3, [FRAMES[2]])
    assert one.link is not None
    given_up = one.link.round_trips
    await eventually(lambda: one.link.round_trips > given_up or one.link.problem is None)  # type: ignore[union-attr]
    assert await appended(one, "r", 4, [FRAMES[3]])
    own_redis.thaw()
    await eventually_equal(lambda: whatever_is_there(other, "r"), FRAMES[:4])


class BusyLogs(RedisSharedLogs):
    """Of a server on which a frame comes in every round trip."""

    async def _add(self, logs: dict[str, Any]) -> dict[str, int]:
        last_seqs = await super()._add(logs)
        if self._is_away and (known := len(self._held["r"].frames)) < 200:
            self.append("r", known + 1, [FRAMES[1]], lambda _: None)
        return last_seqs


async def test_redis_is_back_though_more_frames_come_in_every_round_trip(own_redis: RedisServer) -> None:
    link = RedisLink(own_redis.url)
    logs = BusyLogs(link, "one", time.monotonic)
    await logs.open()
    try:
        logs.append("r", 1, FRAMES[:1], lambda _: None)
        await eventually(lambda: link.round_trips > 0)
        await asyncio.to_thread(own_redis.stop)
        logs.append("r", 2, [FRAMES[1]], lambda _: None)
        await eventually(lambda: link.problem is not None)
        await asyncio.to_thread(own_redis.start)
        await eventually(lambda: link.problem is None)
        # None comes any more now that Redis is back.
        num_known = len(logs._held["r"].frames)
        assert num_known < 10
        await eventually_equal(lambda: logs.read("r"), [FRAMES[0], *[FRAMES[1]] * (num_known - 1)])
    finally:
        await logs.close()
        await link.close()


async def whatever_is_there(member: Member, response_id: str) -> list[bytes]:
    try:
        return await member.logs.read(response_id)
    except SharedLogsAway:
        return []


async def eventually_said(speaker: Member, heard: list[News]) -> None:
    """Say something until it is heard: what is said while the speaker's own connection is down is lost."""
    async with asyncio.timeout(30):
        while {"response_id": "again"} not in heard:
            speaker.bus.publish(Topic.CANCEL, response_id="again")
            await asyncio.sleep(0.02)
