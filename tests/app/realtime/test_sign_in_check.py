"""A stream begins at once, and ends where its sign-in had ended before it could be ended with it."""

from __future__ import annotations

import asyncio

import pytest

from app.database import DatabaseAway
from app.realtime.event_log import EventLog
from app.realtime.hub import Hub
from app.realtime.sign_in_check import end_unless_held
from app.responses.event_stream import EventStream
from tests.support.live_server import eventually


class Stream:
    credential_id = "sign-in"

    def __init__(self) -> None:
        self.has_ended = False

    def watches(self, conversation_id: str) -> bool:
        return False

    def end(self) -> None:
        self.has_ended = True


@pytest.mark.parametrize("holds", [True, False])
async def test_a_stream_ends_where_its_sign_in_has_ended(holds: bool) -> None:
    stream = Stream()

    async def still_holds() -> bool:
        return holds

    await end_unless_held(stream, still_holds)
    assert stream.has_ended is not holds


async def test_a_stream_ends_where_nobody_can_say() -> None:
    stream = Stream()

    async def still_holds() -> bool:
        raise DatabaseAway("it is restarted")

    await end_unless_held(stream, still_holds)
    assert stream.has_ended


async def test_the_first_frames_do_not_wait_for_the_look_and_nothing_follows_a_no() -> None:
    hub, log, asked, may_answer = Hub(), EventLog("conversation", "response"), asyncio.Event(), asyncio.Event()
    hub.open_log(log)
    sent: list[dict[str, object]] = []
    arrived = asyncio.Event()

    async def still_holds() -> bool:
        assert hub.sizes()["event_streams"] == 1, "what ends the sign-in from now on ends the stream"
        asked.set()
        await may_answer.wait()
        return False

    async def send(message: dict[str, object]) -> None:
        sent.append(message)
        if message.get("body"):
            arrived.set()

    async def receive() -> None:
        await asyncio.Event().wait()

    stream = EventStream(
        hub, log, 0, credential_id="s", still_holds=still_holds, expires_in_s=None, heartbeat_s=60, send_timeout_s=60
    )
    running = asyncio.create_task(stream({}, receive, send))  # type: ignore[arg-type]
    await asked.wait()
    hub.show(log, [log.stage("response.created", {})])
    await arrived.wait()
    may_answer.set()
    await running
    assert [message.get("more_body") for message in sent] == [None, True, False]
    assert hub.sizes()["event_streams"] == 0


async def test_of_a_log_that_has_ended_nothing_is_sent_to_whom_it_is_not_for_any_more() -> None:
    """All of it was sent before anybody had looked, and then nobody did."""
    hub, log = Hub(), EventLog("conversation", "response")
    hub.open_log(log)
    hub.show(log, [log.stage("response.created", {})])
    hub.show(log, [log.stage("response.completed", {})])
    sent: list[dict[str, object]] = []

    async def still_holds() -> bool:
        return False

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    async def receive() -> None:
        await asyncio.Event().wait()

    stream = EventStream(
        hub, log, 0, credential_id="s", still_holds=still_holds, expires_in_s=None, heartbeat_s=60, send_timeout_s=60
    )
    await stream({}, receive, send)  # type: ignore[arg-type]
    assert not any(message.get("body") for message in sent)


async def test_the_look_comes_to_its_end_though_the_stream_has_ended_before_it() -> None:
    hub, log, may_answer = Hub(), EventLog("conversation", "response"), asyncio.Event()
    hub.open_log(log)
    has_left, has_looked = asyncio.Event(), False

    async def still_holds() -> bool:
        nonlocal has_looked
        await may_answer.wait()
        has_looked = True
        return True

    async def send(message: dict[str, object]) -> None:
        pass

    async def receive() -> dict[str, object]:
        await has_left.wait()
        return {"type": "http.disconnect"}

    stream = EventStream(
        hub, log, 0, credential_id="s", still_holds=still_holds, expires_in_s=None, heartbeat_s=60, send_timeout_s=60
    )
    running = asyncio.create_task(stream({}, receive, send))  # type: ignore[arg-type]
    await eventually(lambda: hub.sizes()["event_streams"] == 1)
    has_left.set()
    await eventually(lambda: hub.sizes()["event_streams"] == 0)
    may_answer.set()
    await running
    assert has_looked
