"""Who is dead, and what becomes of the answers they leave: each ended by exactly one server, with all that was shown."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace

import pytest

from app.clock import utc_now
from app.conversations.models import MessageStatus
from app.replicas.opening import open_replicas
from app.responses import queries
from app.responses.interruption import Interruption
from app.responses.reaper import PATIENCE_S, Reaper
from app.responses.storage import AnswerStorage
from tests.app.responses.chat import Chat
from tests.support.clock import SteppedClock
from tests.support.scripts import ENDLESS


class Board:
    """Leases as a test sets them; None when nobody can say."""

    def __init__(self) -> None:
        self.names: set[str] | None = set()

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def alive(self, owners: Collection[str]) -> set[str] | None:
        return None if self.names is None else self.names & set(owners)


class Neighbour:
    """The reaper of another server, on the same database and the same shared logs."""

    def __init__(self, chat: Chat, name: str) -> None:
        context, self.clock, self.leases = chat.context, SteppedClock(), Board()
        shared = replace(context.replicas, owner=name, leases=self.leases)
        storage = AnswerStorage(context.database)
        self.interruption = Interruption(context.database, storage, shared.logs, owner=name, now=utc_now)
        self.reaper = Reaper(context.database, shared, self.interruption, monotonic=self.clock.monotonic)

    async def after(self, seconds: float) -> int:
        """Look again, so much later."""
        self.clock.advance(seconds)
        return await self.reaper.look()


async def dies(session: object, ending: object) -> None:
    raise asyncio.CancelledError


async def running_answer(chat: Chat) -> str:
    chat.engine.queue_script(ENDLESS)
    response_id = str((await chat.say("hello"))["response"]["id"])
    await chat.engine.received(1)
    await chat.shown(response_id, " tick tock tick")
    return response_id


async def state(chat: Chat, response_id: str) -> queries.State:
    async with chat.context.database.read() as session:
        return (await queries.states(session, [response_id]))[response_id]


async def test_who_has_been_missed_for_long_enough_is_dead_and_not_sooner(chat: Chat) -> None:
    response_id, other = await running_answer(chat), Neighbour(chat, "other")
    assert await other.after(0) == 0
    assert await other.after(PATIENCE_S - 0.1) == 0
    assert await other.after(0.2) == 1
    assert (await state(chat, response_id))[::2] == (MessageStatus.INTERRUPTED, "other")


async def test_who_is_seen_again_or_cannot_be_asked_about_is_not_dead(chat: Chat) -> None:
    response_id, other = await running_answer(chat), Neighbour(chat, "other")
    for names in ({chat.context.replicas.owner}, None):
        assert await other.after(0) == 0
        other.leases.names = names
        assert await other.after(PATIENCE_S) == 0
        other.leases.names = set()
        assert await other.after(PATIENCE_S) == 0
    assert not (await state(chat, response_id)).status.is_final


async def test_of_several_who_find_it_one_ends_it_and_everything_that_was_shown_is_kept(chat: Chat) -> None:
    response_id = await running_answer(chat)
    others = [Neighbour(chat, name) for name in ("one", "two", "three")]
    for other in others:
        await other.after(0)
    assert sum(await asyncio.gather(*(other.after(PATIENCE_S) for other in others))) == 1
    async with chat.context.database.read() as session:
        stored = await queries.stored_log(session, response_id)
    assert stored is not None
    assert b"tick" in stored
    assert b"response.interrupted" in stored


async def test_a_server_that_was_taken_for_dead_says_what_the_other_has_written(chat: Chat) -> None:
    response_id, other = await running_answer(chat), Neighbour(chat, "other")
    log = chat.context.hub.log(response_id)
    assert log is not None
    await other.after(0)
    await other.after(PATIENCE_S)
    assert (await chat.ended(response_id))["status"] == "interrupted"
    assert log.is_ended
    frames = await chat.events(response_id)
    assert [frame["seq"] for frame in frames] == list(range(1, len(frames) + 1))
    assert frames[-1]["type"] == "response.interrupted"
    assert len(frames) == log.last_seq
    assert (await chat.messages())[-1]["content"].startswith(" tick tock tick")


@pytest.mark.parametrize("wanted", [MessageStatus.CANCELLED])
async def test_a_status_that_is_wanted_is_wanted_once_and_of_running_answers_only(
    chat: Chat, wanted: MessageStatus
) -> None:
    response_id = await running_answer(chat)
    async with chat.context.database.write() as session:
        await queries.want_status(session, response_id, wanted)
    assert (await state(chat, response_id)).wanted_status is wanted
    await chat.cancel(response_id)
    async with chat.context.database.write() as session:
        await queries.want_status(session, response_id, MessageStatus.INTERRUPTED)
    assert (await state(chat, response_id)).wanted_status is wanted


async def test_an_answer_that_has_ended_meanwhile_is_not_taken_over(chat: Chat) -> None:
    response_id, other = await running_answer(chat), Neighbour(chat, "other")
    async with chat.context.database.read() as session:
        (left,) = await queries.unfinished(session)
    frames = await chat.context.replicas.logs.read(response_id)
    await chat.cancel(response_id)
    await chat.ended(response_id)
    ended = await chat.events(response_id)
    assert not await other.interruption.interrupt(left, frames)
    assert (await state(chat, response_id))[::2] == (MessageStatus.CANCELLED, chat.context.replicas.owner)
    assert await chat.events(response_id) == ended


async def test_who_dies_while_it_ends_the_answers_of_the_dead_leaves_them_as_they_were(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    response_id, one, two = await running_answer(chat), Neighbour(chat, "one"), Neighbour(chat, "two")
    await one.after(0)
    await two.after(0)
    with monkeypatch.context() as dying:
        dying.setattr(queries, "write_ending", dies)
        with pytest.raises(asyncio.CancelledError):
            await one.after(PATIENCE_S)
    assert (await state(chat, response_id)).owner == chat.context.replicas.owner
    assert await two.after(PATIENCE_S) == 1


async def test_a_server_without_redis_is_alone() -> None:
    async with open_replicas("", "me", SteppedClock().monotonic) as replicas:
        assert replicas.is_alone
        assert replicas.problem() is None
        assert await replicas.leases.alive(["me", "you"]) == {"me"}
