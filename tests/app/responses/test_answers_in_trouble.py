"""Answers when something is wrong: the engine, the length of the conversation, the queue, the database or the disk."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from app.database import Database, DatabaseAway
from app.realtime import journal_segments
from app.responses import dispatcher, queries
from engine.errors import QueueFull
from engine.types import EngineState, GenerationRequest
from tests.app.responses.chat import Chat, open_chat
from tests.app.responses.test_answers import kinds
from tests.support.client import problem
from tests.support.fake_engine import FakeEngine
from tests.support.scripts import ENDLESS, failing_script, text_script

# --- engines in trouble ----------------------------------------------------------------------------------------------


async def test_while_the_model_loads_messages_are_taken_and_answered_later(tmp_path: Path, sqlite_url: str) -> None:
    async with open_chat(tmp_path, sqlite_url, engine=FakeEngine(ready=False)) as chat:
        body = await chat.say("hello")
        assert (await chat.response(body["response"]["id"]))["status"] == "queued"
        chat.engine.become_ready()
        assert (await chat.ended(body["response"]["id"]))["status"] == "completed"
        assert kinds(await chat.events(body["response"]["id"]))[:2] == ["created", "queued"]


async def test_when_the_model_cannot_be_loaded_what_waited_fails_and_new_messages_are_refused(
    tmp_path: Path, sqlite_url: str
) -> None:
    async with open_chat(tmp_path, sqlite_url, engine=FakeEngine(ready=False)) as chat:
        body = await chat.say("hello")
        chat.engine.fail("the file is damaged")
        state = await chat.ended(body["response"]["id"])
        assert (state["status"], state["error"]["code"]) == ("failed", "engine_not_ready")
        refused = await chat.try_to_say("again")
        problem(refused, 503, "engine_failed")
        assert refused.headers["retry-after"] == "60"
        assert len(await chat.messages()) == 2


async def test_an_engine_that_breaks_leaves_the_text_that_was_shown(chat: Chat) -> None:
    chat.engine.queue_script(ENDLESS)
    body = await chat.say("hello")
    await chat.engine.received(1)
    await chat.shown(body["response"]["id"], " tick")
    chat.engine.fail("out of memory")
    state = await chat.ended(body["response"]["id"])
    assert (state["status"], state["finish_reason"]) == ("failed", "failed")
    assert state["error"] == {"code": "engine_failed", "message": "out of memory"}
    assert (await chat.messages())[-1]["content"] == " tick"
    assert (await chat.events(body["response"]["id"]))[-1]["data"]["error"] == state["error"]


async def test_an_answer_that_fails_can_be_made_again(chat: Chat) -> None:
    chat.engine.queue_script(failing_script("Once", " upon"))
    answer = await chat.turn("hello")
    assert (answer["content"], answer["status"]) == ("Once upon", "failed")
    body = await chat.regenerate(answer["parent_id"])
    assert (await chat.ended(body["response"]["id"]))["status"] == "completed"


async def test_a_conversation_too_long_to_be_answered_is_refused_with_the_numbers(
    tmp_path: Path, database_url: str
) -> None:
    async with open_chat(tmp_path, database_url, engine=FakeEngine(context_tokens=40)) as chat:
        answer = await chat.turn("hello")
        refused = await chat.try_to_say("word " * 40)
        body = problem(refused, 400, "context_length_exceeded")
        assert (body["prompt_tokens"], body["available_tokens"]) == (57, 39)
        assert len(await chat.messages()) == 2
        assert (await chat.turn("short", parent_id=answer["id"]))["status"] == "completed"


async def test_one_that_turns_out_too_long_when_its_turn_comes_fails_with_the_numbers(
    tmp_path: Path, sqlite_url: str
) -> None:
    async with open_chat(tmp_path, sqlite_url, engine=FakeEngine(context_tokens=40)) as chat:
        chat.engine.queue_script(text_script("long " * 12, piece_chars=5))
        first = await chat.say("hello")
        second = await chat.say("word " * 20)
        await chat.ended(first["response"]["id"])
        state = await chat.ended(second["response"]["id"])
        assert (state["status"], state["error"]["code"]) == ("failed", "context_length_exceeded")
        assert state["error"]["available_tokens"] == 39


async def test_when_too_many_wait_the_next_is_refused_and_nothing_of_it_stored(tmp_path: Path, sqlite_url: str) -> None:
    engine = FakeEngine(max_running=1, max_waiting=1)
    async with open_chat(tmp_path, sqlite_url, engine=engine, max_running=1, max_waiting=1) as chat:
        conversations = [(await chat.post("conversations", {})).json()["id"] for _ in range(3)]
        answers = [await chat.post(f"conversations/{conversations[0]}/messages", {"content": "x"})]
        await engine.received(1)
        engine.advance()
        answers.append(await chat.post(f"conversations/{conversations[1]}/messages", {"content": "x"}))
        assert [answer.status_code for answer in answers] == [202, 202]
        refused = await chat.post(f"conversations/{conversations[2]}/messages", {"content": "x"})
        problem(refused, 503, "queue_full")
        assert int(refused.headers["retry-after"]) > 0
        assert (await chat.http.get(f"/api/v1/conversations/{conversations[2]}/messages")).json()["items"] == []
        for answer in answers:
            await chat.ended(answer.json()["response"]["id"])
        again = await chat.post(f"conversations/{conversations[2]}/messages", {"content": "x"})
        assert again.status_code == 202


@pytest.mark.parametrize(("setting", "limit", "taken"), [("max_waiting", 2, 3), ("max_waiting_tokens", 100, 2)])
async def test_of_many_that_come_at_the_same_time_no_more_are_taken_than_one_after_the_other(
    tmp_path: Path, sqlite_url: str, setting: str, limit: int, taken: int
) -> None:
    settings = {"max_running": 1, setting: limit}
    engine = FakeEngine(max_running=1)
    async with open_chat(tmp_path, sqlite_url, engine=engine, **settings) as chat:
        conversations = [(await chat.post("conversations", {})).json()["id"] for _ in range(8)]
        content = {"content": "word " * 40}
        answers = await asyncio.gather(
            *(chat.post(f"conversations/{conversation}/messages", content) for conversation in conversations)
        )
        assert [answer.status_code for answer in answers if answer.status_code != 503] == [202] * taken
        code = "queue_full" if setting == "max_waiting" else "queue_tokens_full"
        for answer in answers:
            if answer.status_code == 503:
                problem(answer, 503, code)
            else:
                await chat.ended(answer.json()["response"]["id"])
        again = await chat.post(f"conversations/{conversations[-1]}/messages", content)
        assert again.status_code == 202, "a place is free again after every refusal"


async def test_when_the_engine_cannot_count_another_prompt_now_nothing_of_it_is_stored(
    tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_chat(tmp_path, sqlite_url) as chat:

        async def check(request: GenerationRequest) -> int:
            raise QueueFull(288, 288, retry_after_s=7)

        with monkeypatch.context() as patched:
            patched.setattr(chat.engine, "check", check)
            refused = await chat.try_to_say("hello")
        problem(refused, 503, "queue_full")
        assert refused.headers["retry-after"] == "7"
        assert await chat.messages() == []
        assert (await chat.turn("hello"))["status"] == "completed"


async def test_a_full_engine_is_asked_again(tmp_path: Path, sqlite_url: str) -> None:
    engine = FakeEngine(max_running=1, max_waiting=1)
    async with open_chat(tmp_path, sqlite_url, engine=engine, max_running=1, max_waiting=10) as chat:
        conversations = [(await chat.post("conversations", {})).json()["id"] for _ in range(3)]
        bodies = [
            (await chat.post(f"conversations/{each}/messages", {"content": "x"})).json() for each in conversations
        ]
        states = [await chat.ended(body["response"]["id"]) for body in bodies]
        assert [state["status"] for state in states] == ["completed"] * 3


async def test_deleting_the_conversation_ends_its_answers_and_stores_nothing(chat: Chat) -> None:
    chat.engine.queue_script(ENDLESS)
    running, waiting = await chat.say("hello"), await chat.say("and?")
    await chat.engine.received(1)
    await chat.shown(running["response"]["id"], " tick")
    await chat.context.responses.dispatcher.write_growth()
    assert (await chat.http.delete(f"/api/v1/conversations/{chat.id}")).status_code == 204
    async with asyncio.timeout(20):
        while chat.context.responses.dispatcher.alive:  # noqa: ASYNC110 - nobody announces it
            await asyncio.sleep(0.005)
    for body in (running, waiting):
        problem(await chat.http.get(f"/api/v1/responses/{body['response']['id']}"), 404, "not_found")
    stats = chat.engine.stats()
    assert (len(chat.engine.requests), stats.running_requests, stats.waiting_requests) == (1, 0, 0)
    assert set(chat.context.responses.sizes().values()) == {0}


# --- databases and disks in trouble ----------------------------------------------------------------------------------


async def test_the_end_is_told_only_when_it_is_stored_and_stored_however_long_that_takes(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is away for a moment just when the answer ends."""
    write, failures = queries.write_ending, iter(range(3))

    async def broken(session: object, ending: object) -> bool:
        for _ in failures:
            raise ConnectionError("the database is restarting")
        return await write(session, ending)  # type: ignore[arg-type]

    monkeypatch.setattr(queries, "write_ending", broken)
    body = await chat.say("hello")
    await chat.engine.received(1)
    chat.engine.advance_to_end()
    await asyncio.sleep(0.05)
    running = await chat.response(body["response"]["id"])
    assert running["status"] == "in_progress"
    assert (await chat.messages())[-1]["content"] == "You said: hello."
    assert (await chat.ended(body["response"]["id"]))["status"] == "completed"
    assert kinds(await chat.events(body["response"]["id"]))[-1] == "completed"


async def test_while_the_database_is_away_callers_are_told_to_come_back(chat: Chat) -> None:
    nowhere = Database("sqlite:////nowhere/at/all.sqlite3")
    database = chat.context.database
    reader, database.reader = database.reader, nowhere.reader
    refused = await chat.try_to_say("hello", client_message_id="m1")
    assert int(refused.headers["retry-after"]) > 0
    problem(refused, 503, "database_unavailable")
    problem(await chat.http.get("/api/v1/me"), 503, "database_unavailable")
    database.reader = reader
    assert (await chat.try_to_say("hello", client_message_id="m1")).status_code == 202
    await nowhere.close()


async def test_an_answer_whose_turn_comes_while_the_database_is_away_waits_for_it(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, failures = dispatcher.read_prompt, iter(range(3))

    async def broken(*arguments: Any) -> Any:
        for _ in failures:
            raise DatabaseAway("it is restarted")
        return await read(*arguments)

    monkeypatch.setattr(dispatcher, "read_prompt", broken)
    monkeypatch.setattr("app.database.RETRY_AWAY_S", 0.01)
    body = await chat.say("hello")
    assert (await chat.ended(body["response"]["id"]))["status"] == "completed"


@pytest.mark.parametrize("was_stored", [True, False])
async def test_a_commit_whose_confirmation_was_lost_is_looked_up(
    chat: Chat, monkeypatch: pytest.MonkeyPatch, was_stored: bool
) -> None:
    """The connection breaks while a message is committed: nobody can know how that ended, except by asking again."""
    write = Database.write

    @asynccontextmanager
    async def broken(self: Database) -> AsyncIterator[AsyncSession]:
        monkeypatch.setattr(Database, "write", write)
        async with write(self) as session:
            yield session
            if not was_stored:
                raise DatabaseAway("it went away before")
        raise DatabaseAway("it went away right after")

    monkeypatch.setattr(Database, "write", broken)
    answer = await chat.try_to_say("hello", client_message_id="m1")
    if was_stored:
        assert answer.status_code == 202
    else:
        problem(answer, 503, "database_unavailable")
        answer = await chat.try_to_say("hello", client_message_id="m1")
    assert (await chat.ended(answer.json()["response"]["id"]))["status"] == "completed"
    assert [message["content"] for message in await chat.messages()] == ["hello", "You said: hello."]


@pytest.mark.postgres
async def test_a_database_that_throws_everybody_out_costs_no_word(tmp_path: Path, postgres_url: str) -> None:
    """What a restart of PostgreSQL does to the connections that are open."""
    async with open_chat(tmp_path, postgres_url) as chat:
        body = await chat.say("hello")
        await chat.engine.received(1)
        chat.engine.advance_to_end()
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert (await chat.ended(body["response"]["id"]))["status"] == "completed"
        assert (await chat.messages())[-1]["content"] == "You said: hello."


async def test_a_full_disk_ends_the_answers_it_hits_and_the_server_lives_on(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat.engine.queue_script(ENDLESS)
    body = await chat.say("hello")
    response_id = body["response"]["id"]
    await chat.engine.received(1)
    await chat.shown(response_id, " tick")

    def full(descriptor: int, data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(journal_segments.os, "write", full)
        state = await chat.ended(response_id)
    assert (state["status"], state["error"]["code"]) == ("failed", "storage_failed")
    assert "No space left" in state["error"]["message"]
    assert (await chat.messages())[-1]["content"] == " tick"
    assert chat.engine.cancelled == [response_id]
    assert chat.engine.state is EngineState.READY
    assert (await chat.turn("again"))["status"] == "completed"
