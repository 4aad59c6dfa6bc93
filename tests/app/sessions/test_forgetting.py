"""What is deleted is forgotten by the engine too: at once, also in mid-answer, and after a crash."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest
from sqlalchemy import delete

from app import background
from app.accounts.models import User
from app.conversations.models import Conversation
from engine.snapshot import SessionState
from engine.types import GenerationRequest, Namespace, RequestId, Role, SessionKey, Turn, Usage
from tests.app.responses.chat import Chat, open_chat
from tests.support.fake_engine import FakeEngine
from tests.support.live_server import eventually, eventually_equal
from tests.support.scripts import ENDLESS


async def sessions(chat: Chat) -> set[str]:
    return {status.key.name for status in (await chat.engine.snapshot()).sessions}


async def deleted(chat: Chat, conversation_id: str) -> None:
    assert (await chat.http.delete(f"/api/v1/conversations/{conversation_id}")).status_code == 204


async def test_when_a_deletion_is_answered_the_engine_has_nothing_of_it_left(chat: Chat) -> None:
    await chat.turn("a secret")
    other = Chat(chat.running, chat.http, (await chat.post("conversations", {})).json()["id"])
    await other.turn("something else")
    assert await sessions(chat) == {chat.id, other.id}
    await deleted(chat, chat.id)
    assert await sessions(chat) == {other.id}
    assert (await other.turn("a secret"))["usage"]["cached_tokens"] > 0
    fresh = Chat(chat.running, chat.http, (await chat.post("conversations", {})).json()["id"])
    assert (await fresh.turn("a secret"))["usage"]["cached_tokens"] <= 2


async def test_an_answer_that_runs_ends_and_leaves_nothing(chat: Chat) -> None:
    chat.engine.queue_script(ENDLESS)
    running, waiting = await chat.say("hello"), await chat.say("and?")
    await chat.engine.received(1)
    await chat.shown(running["response"]["id"], " tick")
    await deleted(chat, chat.id)
    await eventually(lambda: not chat.context.responses.dispatcher.alive)
    assert await sessions(chat) == set()
    assert len(chat.engine.requests) == 1, waiting


async def test_an_answer_on_its_way_into_the_engine_leaves_nothing_either(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_enter, entering = asyncio.Event(), asyncio.Event()
    submit = chat.engine.submit

    async def slow(request: GenerationRequest) -> None:
        entering.set()
        try:
            await may_enter.wait()
        except asyncio.CancelledError:
            # As an engine does that has handed the request to its thread already.
            await submit(request)
            raise

    monkeypatch.setattr(chat.engine, "submit", slow)
    await chat.say("hello")
    await entering.wait()
    await deleted(chat, chat.id)
    await eventually(lambda: not chat.context.responses.dispatcher.alive)
    chat.engine.advance_to_end()
    assert await sessions(chat) == set()


async def test_who_deletes_does_not_wait_for_a_slow_engine(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    await chat.turn("a secret")
    may_drop = asyncio.Event()
    drop = chat.engine.drop_session

    async def slow(key: SessionKey) -> bool:
        await may_drop.wait()
        return await drop(key)

    monkeypatch.setattr(chat.engine, "drop_session", slow)
    monkeypatch.setattr(background, "LONGEST_WAIT_S", 0.01)
    await deleted(chat, chat.id)
    assert await sessions(chat) == {chat.id}
    may_drop.set()
    await eventually_equal(lambda: sessions(chat), set())


async def test_an_engine_that_fails_at_it_does_not_fail_the_deletion(
    chat: Chat, monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    await chat.turn("a secret")

    async def broken(key: SessionKey) -> bool:
        raise OSError("the disk is away")

    with monkeypatch.context() as patch:
        patch.setattr(chat.engine, "drop_session", broken)
        await deleted(chat, chat.id)
    assert "session_not_dropped" in log.getvalue()
    assert await sessions(chat) == {chat.id}
    await chat.context.forgetting.reconcile()
    assert await sessions(chat) == set()


async def test_what_a_dead_process_did_not_get_to_forget_is_forgotten_at_the_next_start(
    tmp_path: Path, database_url: str
) -> None:
    """The rows are gone, the files are not: killed right after the commit."""
    engine = FakeEngine()
    async with open_chat(tmp_path, database_url, engine=engine) as chat:
        await chat.turn("a secret")
        kept = Chat(chat.running, chat.http, (await chat.post("conversations", {})).json()["id"])
        await kept.turn("not a secret")
        async with chat.context.database.write() as session:
            await session.execute(delete(Conversation).where(Conversation.id == chat.id))
        assert await sessions(chat) == {chat.id, kept.id}
    again = FakeEngine(memory=engine.memory, ready=False)
    async with open_chat(tmp_path, database_url, engine=again, is_new=False) as later:
        assert later.id != chat.id
        again.become_ready()
        await eventually_equal(lambda: sessions(later), {kept.id})


async def test_whose_account_is_gone_leaves_nothing(chat: Chat) -> None:
    await chat.turn("a secret")
    user_id = (await chat.http.get("/api/v1/me")).json()["id"]
    part = Namespace.user(user_id, "customer 7")
    await chat.engine.submit(
        GenerationRequest(RequestId("r"), (Turn(Role.USER, "hi"),), namespace=part, session="theirs")
    )
    chat.engine.advance_to_end()
    async with chat.running.signed_in("bob") as bob:
        theirs = Chat(chat.running, bob, (await bob.post("/api/v1/conversations", json={})).json()["id"])
        await theirs.turn("hello")
        async with chat.context.database.write() as session:
            await session.execute(delete(User).where(User.id == user_id))
        await chat.context.forgetting.reconcile()
        assert await sessions(chat) == {theirs.id}


async def test_what_is_no_conversation_is_not_judged(chat: Chat) -> None:
    """Sessions that programs name, in a part of their namespace."""
    user_id = (await chat.http.get("/api/v1/me")).json()["id"]
    part = Namespace.user(user_id, "customer 7")
    await chat.engine.submit(
        GenerationRequest(RequestId("r"), (Turn(Role.USER, "hi"),), namespace=part, session="theirs")
    )
    chat.engine.advance_to_end()
    await chat.context.forgetting.reconcile()
    assert await sessions(chat) == {"theirs"}


async def test_a_thousand_sessions_are_compared_in_a_few_statements(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    user_id = (await chat.http.get("/api/v1/me")).json()["id"]
    await chat.turn("hello")
    reads = 0
    read = chat.context.database.read

    def counted() -> object:
        nonlocal reads
        reads += 1
        return read()

    monkeypatch.setattr(chat.context.database, "read", counted)

    async def compared() -> int:
        nonlocal reads
        for number in range(1200):
            request = GenerationRequest(
                RequestId(f"r{number}"),
                (Turn(Role.USER, "hi"),),
                namespace=Namespace.user(user_id),
                session=f"gone {number}",
            )
            chat.engine.memory.begin(request)
            chat.engine.memory.commit(request, (number,), Usage())
            chat.engine.memory.end(request)
        reads = 0
        await chat.context.forgetting.reconcile()
        return reads

    # The chores of the start compare and read as well, and may not have ended yet.
    for _ in range(20):
        if (statements := await compared()) == 2:
            break
    assert statements == 2
    (status,) = (await chat.engine.snapshot()).sessions
    assert (status.key.name, status.state) == (chat.id, SessionState.DEVICE)


async def test_an_engine_that_never_gets_ready_is_no_reason_to_complain(tmp_path: Path, sqlite_url: str) -> None:
    engine = FakeEngine(ready=False)
    async with open_chat(tmp_path, sqlite_url, engine=engine) as chat:
        engine.fail("the file is damaged")
        await chat.context.forgetting.reconcile()
        await deleted(chat, chat.id)
