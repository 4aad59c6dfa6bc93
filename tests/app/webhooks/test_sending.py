"""Webhooks on their way: tried again, in order, once per event, whatever becomes of endpoints and servers."""

from __future__ import annotations

import asyncio

import pytest

from app.database import Database
from app.errors import Conflict
from app.webhooks.event_types import EventType
from app.webhooks.models import DeliveryStatus
from app.webhooks.outbox import add_event
from app.webhooks.posting import Attempted
from app.webhooks.schemas import WebhookPatch
from tests.app.webhooks.endpoints import TAKEN, Endpoints, Webhooks, url_of
from tests.support.clock import SteppedClock
from tests.support.live_server import eventually

FAILS = Attempted(500)


@pytest.fixture
def endpoints() -> Endpoints:
    return Endpoints()


@pytest.fixture
def webhooks(database: Database, clock: SteppedClock, endpoints: Endpoints) -> Webhooks:
    return Webhooks(database, clock, endpoints)


async def test_an_endpoint_that_fails_three_times_gets_it_with_the_same_id_and_a_new_time(
    webhooks: Webhooks, endpoints: Endpoints
) -> None:
    """chatwoot/chatwoot#15920, chatwoot/chatwoot#15952: case C41."""
    hook = await webhooks.endpoint()
    endpoints.answer = lambda url, attempt: FAILS if attempt <= 3 else TAKEN
    await webhooks.happens(1)
    for pause_s in (5, 300, 1800):
        await webhooks.send()
        before = len(endpoints.received[hook.url])
        webhooks.clock.advance(pause_s - 1)
        await webhooks.send()
        assert len(endpoints.received[hook.url]) == before
        webhooks.clock.advance(1)
    await webhooks.send()
    received = endpoints.received[hook.url]
    assert len(received) == 4
    assert len({each.id for each in received}) == len({each.body for each in received}) == 1
    assert len({each.headers["webhook-timestamp"] for each in received}) == 4
    assert len({each.headers["webhook-signature"] for each in received}) == 4
    assert await webhooks.deliveries(hook.id) == [("delivered", 4)]


@pytest.mark.parametrize(
    "failure", [FAILS, Attempted(429), Attempted(302), Attempted(404), Attempted(error="no answer")]
)
async def test_after_six_tries_it_is_dead_and_can_be_replayed(
    webhooks: Webhooks, endpoints: Endpoints, failure: Attempted
) -> None:
    hook = await webhooks.endpoint()
    endpoints.answer = lambda url, attempt: failure
    await webhooks.happens(1)
    for _ in range(10):
        await webhooks.send()
        webhooks.clock.advance(20_000)
    assert len(endpoints.received[hook.url]) == 6
    (dead,) = (await webhooks.service.deliveries(hook.id, status=DeliveryStatus.DEAD, limit=9, cursor=None)).items
    assert (dead.attempts, dead.last_status_code) == (6, failure.status_code)
    assert dead.last_error == failure.error or dead.last_error == f"HTTP {failure.status_code}"
    endpoints.answer = lambda url, attempt: TAKEN
    await webhooks.service.replay(webhooks.admin, hook.id, dead.id)
    await webhooks.send()
    assert len({each.id for each in endpoints.received[hook.url]}) == 1
    assert await webhooks.deliveries(hook.id) == [("delivered", 1)]


async def test_an_attempt_that_goes_wrong_in_a_way_nobody_thought_of_is_a_failed_one(
    webhooks: Webhooks, endpoints: Endpoints
) -> None:
    def breaks(url: str, attempt: int) -> Attempted:
        if attempt <= 2:
            raise KeyError("secret")
        return TAKEN

    hook = await webhooks.endpoint()
    endpoints.answer = breaks
    await webhooks.happens(1)
    await webhooks.send()
    assert await webhooks.deliveries(hook.id) == [("pending", 1)]
    (pending,) = (await webhooks.service.deliveries(hook.id, status=None, limit=9, cursor=None)).items
    assert pending.last_error == "an unexpected KeyError, see the server's log"
    for pause_s in (5, 300):
        webhooks.clock.advance(pause_s)
        await webhooks.send()
    assert await webhooks.deliveries(hook.id) == [("delivered", 3)]


async def test_an_endpoint_that_asks_for_time_gets_it(webhooks: Webhooks, endpoints: Endpoints) -> None:
    hook = await webhooks.endpoint()
    endpoints.answer = lambda url, attempt: Attempted(429, retry_after_s=100) if attempt == 1 else TAKEN
    await webhooks.happens(1)
    for seconds, tries in ((0, 1), (99, 1), (1, 2)):
        webhooks.clock.advance(seconds)
        await webhooks.send()
        assert len(endpoints.received[hook.url]) == tries


async def test_events_of_one_conversation_come_in_their_order_and_others_do_not_wait(
    webhooks: Webhooks, endpoints: Endpoints
) -> None:
    hook, other = await webhooks.endpoint("a"), await webhooks.endpoint("b")
    endpoints.answer = lambda url, attempt: FAILS if (url, attempt) == (hook.url, 1) else TAKEN
    await webhooks.happens(1, "slow")
    await webhooks.send()
    for number in (2, 3):
        await webhooks.happens(number, "slow")
    await webhooks.happens(10, "quick")
    await webhooks.send()
    assert endpoints.numbers(hook.url) == [1, 10]
    assert sorted(endpoints.numbers(other.url)) == [1, 2, 3, 10]
    webhooks.clock.advance(5)
    await webhooks.send()
    assert endpoints.numbers(hook.url) == [1, 10, 1, 2, 3]


async def test_an_endpoint_is_told_what_it_wants_to_be_told(webhooks: Webhooks, endpoints: Endpoints) -> None:
    some = await webhooks.endpoint("some", EventType.HANDOFF_REQUESTED)
    everything = await webhooks.endpoint("all")
    off = await webhooks.endpoint("off")
    await webhooks.service.update(webhooks.admin, off.id, WebhookPatch(enabled=False))
    await webhooks.happens(1)
    await webhooks.happens(2, kind=EventType.HANDOFF_REQUESTED)
    await webhooks.send()
    assert [endpoints.numbers(hook.url) for hook in (some, everything, off)] == [[2], [1, 2], []]
    event = endpoints.received[some.url][0].event
    assert (event["type"], set(event)) == ("handoff.requested", {"type", "timestamp", "data"})
    assert event["data"]["conversation"]["state"] == "bot"


async def test_an_endpoint_that_is_gone_is_told_nothing_more_at_once(webhooks: Webhooks, endpoints: Endpoints) -> None:
    hook = await webhooks.endpoint()
    endpoints.answer = lambda url, attempt: Attempted(410)
    await webhooks.happens(1)
    await webhooks.send()
    body = await webhooks.service.get(hook.id)
    assert (body.enabled, body.disabled_reason) == (False, "it answered 410 Gone")
    await webhooks.happens(2)
    await webhooks.send()
    assert endpoints.numbers(hook.url) == [1]
    with pytest.raises(Conflict):
        await webhooks.service.test(webhooks.admin, hook.id)


async def test_an_endpoint_that_takes_nothing_for_days_is_given_up_and_may_be_enabled_again(
    webhooks: Webhooks, endpoints: Endpoints
) -> None:
    hook = await webhooks.endpoint()
    endpoints.answer = lambda url, attempt: FAILS
    for number in range(6):
        await webhooks.happens(number, f"c{number}")
        await webhooks.send()
        webhooks.clock.advance(86_400)
    await webhooks.happens(9, "last")
    body = await webhooks.service.get(hook.id)
    assert body.enabled is False
    assert "taken nothing since" in str(body.disabled_reason)
    endpoints.answer = lambda url, attempt: TAKEN
    await webhooks.service.update(webhooks.admin, hook.id, WebhookPatch(enabled=True))
    await webhooks.send()
    assert (await webhooks.service.get(hook.id)).failing_since is None
    statuses = [status for status, _ in await webhooks.deliveries(hook.id)]
    # The oldest have had their six tries.
    assert statuses == ["dead"] * statuses.count("dead") + ["delivered"] * statuses.count("delivered")
    assert statuses[-1] == "delivered"


async def test_of_several_servers_one_sends_each_event(webhooks: Webhooks, endpoints: Endpoints) -> None:
    hook = await webhooks.endpoint()
    for number in range(20):
        await webhooks.happens(number, f"c{number % 5}")
    others = [webhooks.another_sender() for _ in range(2)]
    await asyncio.gather(webhooks.send(), *(webhooks.send(other) for other in others))
    assert sorted(endpoints.numbers(hook.url)) == list(range(20))
    for name in range(5):
        of_one = [number for number in endpoints.numbers(hook.url) if number % 5 == name]
        assert of_one == sorted(of_one)


class Stuck(Endpoints):
    """Never answers."""

    async def __call__(self, url: str, headers: object, body: bytes) -> Attempted:
        await asyncio.Event().wait()
        return TAKEN


async def test_what_a_dead_server_was_sending_another_one_sends(webhooks: Webhooks, endpoints: Endpoints) -> None:
    hook = await webhooks.endpoint()
    await webhooks.happens(1)
    dead = webhooks.another_sender(Stuck())
    await dead.send_due()
    assert len(dead) == 1
    await webhooks.send()
    assert endpoints.numbers(hook.url) == []
    webhooks.clock.advance(46)
    await webhooks.send()
    assert endpoints.numbers(hook.url) == [1]
    running = asyncio.create_task(dead.run())
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])


async def test_a_server_that_is_alone_does_not_wait_for_claims_of_its_former_life(
    webhooks: Webhooks, endpoints: Endpoints
) -> None:
    hook = await webhooks.endpoint()
    await webhooks.happens(1)
    dead = webhooks.another_sender(Stuck())
    await dead.send_due()
    await webhooks.sender.take_over()
    await webhooks.send()
    assert endpoints.numbers(hook.url) == [1]
    running = asyncio.create_task(dead.run())
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])


async def test_a_slow_endpoint_keeps_nobody_waiting(webhooks: Webhooks, endpoints: Endpoints) -> None:
    stuck = asyncio.Event()

    class Slow(Endpoints):
        async def __call__(self, url: str, headers: object, body: bytes) -> Attempted:
            if url == url_of("slow"):
                await stuck.wait()
            return await endpoints(url, {}, body)

    await webhooks.endpoint("slow")
    quick = await webhooks.endpoint("quick")
    for number in range(40):
        await webhooks.happens(number, f"c{number}")
    sender = webhooks.another_sender(Slow())
    running = asyncio.create_task(sender.run())
    await eventually(lambda: len(endpoints.received[quick.url]) == 40, timeout_s=60)
    await eventually(lambda: len(sender) == 4, timeout_s=60)
    stuck.set()
    await eventually(lambda: len(endpoints.received[url_of("slow")]) == 40, timeout_s=60)
    running.cancel()
    await asyncio.wait([running])


async def test_what_is_deleted_is_told_to_nobody(webhooks: Webhooks, endpoints: Endpoints) -> None:
    hook = await webhooks.endpoint()
    await webhooks.happens(1)
    await webhooks.delete_conversation()
    await webhooks.send()
    assert endpoints.numbers(hook.url) == []
    await webhooks.happens(2)
    await webhooks.service.delete(webhooks.admin, hook.id)
    await webhooks.send()
    assert endpoints.numbers(hook.url) == []


async def test_what_is_old_is_removed(webhooks: Webhooks) -> None:
    hook = await webhooks.endpoint()
    await webhooks.happens(1)
    await webhooks.send()
    webhooks.clock.advance(13 * 86_400)
    await webhooks.happens(2)
    await webhooks.send()
    webhooks.clock.advance(2 * 86_400)
    await webhooks.service.purge()
    assert len(await webhooks.deliveries(hook.id)) == 1


async def test_what_is_rolled_back_is_told_to_nobody(webhooks: Webhooks, endpoints: Endpoints) -> None:
    hook = await webhooks.endpoint()

    async def fail() -> None:
        async with webhooks.database.write() as session:
            await add_event(session, EventType.TEST, None, {}, [hook.id], now=webhooks.clock.now())
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    await webhooks.send()
    assert endpoints.received == {}
