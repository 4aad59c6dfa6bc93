"""What happens to an answer when nobody watches it any more: it goes on, or ends after a grace time."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.realtime.event_log import EventLog
from app.responses.unwatched import Unwatched
from tests.support.live_server import eventually_equal, live_server
from tests.support.scripts import ENDLESS


class Timers:
    """Stands for the loop's `call_later`."""

    def __init__(self) -> None:
        self.waiting: list[Timer] = []

    def call_later(self, delay_s: float, callback: object) -> Timer:
        timer = Timer(delay_s, callback, self.waiting)
        self.waiting.append(timer)
        return timer


class Timer:
    def __init__(self, delay_s: float, callback: object, waiting: list[Timer]) -> None:
        self.delay_s = delay_s
        self.callback = callback
        self._waiting = waiting

    def cancel(self) -> None:
        self._waiting.remove(self)

    def fire(self) -> None:
        self._waiting.remove(self)
        self.callback()  # type: ignore[operator]


@pytest.fixture
def timers() -> Timers:
    return Timers()


@pytest.fixture
def cancelled() -> list[str]:
    return []


@pytest.fixture
def unwatched(timers: Timers, cancelled: list[str]) -> Unwatched:
    return Unwatched(cancelled.append, grace_s=60, call_later=timers.call_later)  # type: ignore[arg-type]


def test_an_answer_that_loses_its_last_watcher_has_the_grace_time(
    unwatched: Unwatched, timers: Timers, cancelled: list[str]
) -> None:
    log = EventLog("c", "r")
    unwatched.watched(log, True)
    assert timers.waiting == []
    unwatched.watched(log, False)
    assert [timer.delay_s for timer in timers.waiting] == [60]
    timers.waiting[0].fire()
    assert cancelled == ["r"]
    assert len(unwatched) == 0


def test_who_comes_back_in_time_saves_it(unwatched: Unwatched, timers: Timers, cancelled: list[str]) -> None:
    log = EventLog("c", "r")
    unwatched.watched(log, False)
    unwatched.watched(log, True)
    assert (timers.waiting, cancelled, len(unwatched)) == ([], [], 0)


def test_an_answer_that_has_ended_is_forgotten(unwatched: Unwatched, timers: Timers) -> None:
    unwatched.watched(EventLog("c", "r"), False)
    unwatched.forget("r")
    unwatched.forget("r")
    assert (timers.waiting, len(unwatched)) == ([], 0)


@pytest.mark.parametrize(("policy", "status"), [("cancel", "cancelled"), ("continue", "in_progress")])
async def test_the_policy_decides_what_a_lost_socket_means(
    tmp_path: Path, sqlite_url: str, policy: str, status: str
) -> None:
    async with (
        live_server(tmp_path, sqlite_url, on_disconnect=policy, disconnect_grace_s=0.05) as live,
        live.person("ann") as ann,
    ):
        live.engine.queue_script(ENDLESS, ENDLESS)
        watched, unseen = await ann.conversation(), await ann.conversation()
        async with ann.socket() as socket:
            response_id = (await socket.say(watched, "hello"))["response_id"]
            await socket.text_arrives(response_id)
            socket.connection.transport.abort()
        # Nobody has ever watched this one: it is for somebody who reads results.
        other = (await ann.say(unseen, "hello"))["response"]["id"]

        async def state() -> str:
            return str((await ann.response(response_id))["status"])

        await eventually_equal(state, status)
        assert (await ann.response(other))["status"] == "in_progress"


async def test_a_socket_that_comes_back_within_the_grace_time_saves_the_answer(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        live_server(tmp_path, sqlite_url, on_disconnect="cancel", disconnect_grace_s=30) as live,
        live.person("ann") as ann,
    ):
        live.engine.queue_script(ENDLESS)
        async with ann.socket() as socket:
            response_id = (await socket.say(await ann.conversation(), "hello"))["response_id"]
            await socket.text_arrives(response_id)
            socket.connection.transport.abort()

        async def timers_running() -> int:
            return len(live.context.responses.unwatched)

        await eventually_equal(timers_running, 1)
        async with ann.socket(hello=False) as socket:
            await socket.hello([(response_id, 1)])
            await socket.text_arrives(response_id)
            assert await timers_running() == 0
            await socket.ask("response.cancel", response_id=response_id)
            await socket.end_of(response_id)
        assert await timers_running() == 0
