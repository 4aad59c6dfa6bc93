"""After a crash: nobody loses what they have seen, nothing spins for ever, and the conversation goes on.

A crash is played by a database that takes no ends any more while the application goes down; `tests/e2e/test_kill.py` kills real
processes.
"""

from __future__ import annotations

import asyncio
import fcntl
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.responses import dispatcher, queries
from tests.app.responses.chat import Chat, open_chat, said
from tests.support.scripts import ENDLESS


@asynccontextmanager
async def crashing_chat(data: Path, url: str, monkeypatch: pytest.MonkeyPatch, **options: Any) -> AsyncIterator[Chat]:
    """An application that dies at the end of the block."""

    async def nothing_is_written(session: object, ending: object) -> bool:
        raise ConnectionError("the process is dying")

    with monkeypatch.context() as patch:
        patch.setattr(dispatcher, "LAST_WRITES_S", 0.05)
        async with open_chat(data, url, **options) as chat:
            yield chat
            patch.setattr(queries, "write_ending", nothing_is_written)


async def test_a_running_answer_is_interrupted_with_everything_that_was_shown(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bayesimpact/bayes-platform#673, open-webui/open-webui#23736: the row said "streaming" for ever, without a word."""
    async with crashing_chat(tmp_path, database_url, monkeypatch) as chat:
        chat.engine.queue_script(ENDLESS)
        conversation, body = chat.id, await chat.say("hello")
        response_id = body["response"]["id"]
        await chat.engine.received(1)
        await chat.shown(response_id, " tick tock tick")
        seen = chat.context.hub.log(response_id)
        assert seen is not None
        frames_seen = seen.frames_after(0, 1000)
    async with open_chat(tmp_path, database_url, is_new=False) as chat:
        chat.id = conversation
        message = (await chat.messages())[-1]
        assert (message["status"], message["content"]) == ("interrupted", " tick tock tick")
        state = await chat.response(response_id)
        assert (state["status"], state["finish_reason"]) == ("interrupted", "interrupted")
        log = await chat.events(response_id)
        assert [event["seq"] for event in log] == list(range(1, len(frames_seen) + 2))
        assert log[-1]["type"] == "response.interrupted"
        stored = await chat.context.reader.stored_log(conversation, response_id)
        assert stored.frames_after(0, len(frames_seen)) == frames_seen
        # Life goes on: with what was said so far, or with another try.
        await chat.say("go on")
        await chat.engine.received(1)
        assert said(chat.engine.requests[0].turns)[1] == ("assistant", " tick tock tick")
        again = await chat.regenerate(body["message"]["id"])
        assert (await chat.ended(again["response"]["id"]))["status"] == "completed"


async def test_an_answer_that_never_began_is_interrupted_too(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with crashing_chat(tmp_path, database_url, monkeypatch) as chat:
        conversation = chat.id
        running, waiting = await chat.say("one"), await chat.say("two")
        await chat.engine.received(1)
    async with open_chat(tmp_path, database_url, is_new=False) as chat:
        chat.id = conversation
        for body in (running, waiting):
            log = await chat.events(body["response"]["id"])
            assert (log[0]["type"], log[-1]["type"]) == ("response.created", "response.interrupted")
            assert log[0]["data"]["message_id"] == body["response"]["message_id"]
        assert [message["status"] for message in await chat.messages()] == [
            "completed",
            "interrupted",
            "completed",
            "interrupted",
        ]
        assert (await chat.turn("three"))["status"] == "completed"


async def test_recovering_happens_once_and_leaves_no_journal(
    tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with crashing_chat(tmp_path, sqlite_url, monkeypatch) as chat:
        body = await chat.say("hello")
    assert list((tmp_path / "journal").rglob("*.journal"))
    logs = []
    for _ in range(2):
        async with open_chat(tmp_path, sqlite_url, is_new=False) as chat:
            logs.append(await chat.events(body["response"]["id"]))
        assert list((tmp_path / "journal").iterdir()) == []
    assert logs[0] == logs[1]


async def test_a_start_that_dies_while_it_recovers_leaves_everything_to_the_next_one(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law L6: what was shown was in the first journal, and the answer was looked for in that of the start that died."""
    async with crashing_chat(tmp_path, database_url, monkeypatch) as chat:
        chat.engine.queue_script(ENDLESS)
        conversation, body = chat.id, await chat.say("hello")
        response_id = body["response"]["id"]
        await chat.engine.received(1)
        await chat.shown(response_id, " tick tock tick")
        await chat.context.responses.dispatcher.write_growth()
        seen = chat.context.hub.log(response_id)
        assert seen is not None
        frames_seen = seen.frames_after(0, 1000)

    async def dies(session: object, ending: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as dying:
        dying.setattr(queries, "write_ending", dies)
        for _ in range(2):
            with pytest.raises(asyncio.CancelledError):
                await open_chat(tmp_path, database_url, is_new=False).__aenter__()
    async with open_chat(tmp_path, database_url, is_new=False) as chat:
        chat.id = conversation
        stored = await chat.context.reader.stored_log(conversation, response_id)
        assert stored.frames_after(0, len(frames_seen)) == frames_seen
        assert stored.last_seq == len(frames_seen) + 1
        assert (await chat.messages())[-1]["content"] == " tick tock tick"


async def test_without_a_journal_the_text_in_the_database_is_kept(
    tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with crashing_chat(tmp_path, sqlite_url, monkeypatch) as chat:
        chat.engine.queue_script(ENDLESS)
        conversation, body = chat.id, await chat.say("hello")
        await chat.engine.received(1)
        await chat.shown(body["response"]["id"], " tick tock")
        await chat.context.responses.dispatcher.write_growth()
    shutil.rmtree(tmp_path / "journal")
    async with open_chat(tmp_path, sqlite_url, is_new=False) as chat:
        chat.id = conversation
        message = (await chat.messages())[-1]
        assert (message["status"], message["content"]) == ("interrupted", " tick tock")
        log = await chat.events(body["response"]["id"])
        assert "".join(event["data"].get("text", "") for event in log) == " tick tock"


async def test_the_answers_of_a_process_that_lives_are_left_alone(
    tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with crashing_chat(tmp_path, sqlite_url, monkeypatch) as chat:
        conversation, body = chat.id, await chat.say("hello")
    (folder,) = (tmp_path / "journal").iterdir()
    with (folder / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        async with open_chat(tmp_path, sqlite_url, is_new=False) as chat:
            assert (await chat.response(body["response"]["id"]))["status"] == "queued"
            refused = await chat.http.get(f"/api/v1/responses/{body['response']['id']}/events")
            assert (refused.status_code, refused.json()["code"]) == (409, "made_elsewhere")
    async with open_chat(tmp_path, sqlite_url, is_new=False) as chat:
        chat.id = conversation
        assert (await chat.messages())[-1]["status"] == "interrupted"


async def test_what_lies_in_the_journal_folder_and_is_no_journal_does_not_stop_a_start(
    tmp_path: Path, sqlite_url: str
) -> None:
    strange = tmp_path / "journal" / "somebody"
    strange.mkdir(parents=True)
    (strange / "000001.journal").write_bytes(b"not a journal")
    (tmp_path / "journal" / "notes.txt").write_text("hello")
    async with open_chat(tmp_path, sqlite_url) as chat:
        assert (await chat.turn("hello"))["status"] == "completed"
    assert (strange / "000001.journal").read_bytes() == b"not a journal"


async def test_an_end_in_good_order_interrupts_what_runs_and_needs_no_recovery(tmp_path: Path, sqlite_url: str) -> None:
    async with open_chat(tmp_path, sqlite_url) as chat:
        chat.engine.queue_script(ENDLESS)
        conversation, body = chat.id, await chat.say("hello")
        await chat.engine.received(1)
        await chat.shown(body["response"]["id"], " tick")
    assert list((tmp_path / "journal").iterdir()) == []
    async with open_chat(tmp_path, sqlite_url, is_new=False) as chat:
        chat.id = conversation
        message = (await chat.messages())[-1]
        assert (message["status"], message["content"]) == ("interrupted", " tick")
        assert message["usage"]["output_tokens"] == 1
