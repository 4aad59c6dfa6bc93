"""Customer service over real sockets and event streams: everybody who watches sees it at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from app.accounts.models import UserRole
from tests.app.service.desk import Agent
from tests.support.fake_engine import FakeEngine
from tests.support.live_server import Person, eventually, live_server, require_whole_log, text_of
from tests.support.scripts import ENDLESS

Events = asyncio.Queue[tuple[str, dict[str, Any]]]


@asynccontextmanager
async def inbox_events(person: Person) -> AsyncIterator[Events]:
    """The inbox's events, from `ready` on."""
    events: Events = asyncio.Queue()

    async def read() -> None:
        async with person.http.stream("GET", "/api/v1/inbox/events") as answer:
            kind = ""
            async for line in answer.aiter_lines():
                if line.startswith("event: "):
                    kind = line[7:]
                elif line.startswith("data: "):
                    events.put_nowait((kind, json.loads(line[6:])))

    reading = asyncio.create_task(read())
    async with asyncio.timeout(30):
        assert (await events.get())[0] == "ready"
    try:
        yield events
    finally:
        reading.cancel()
        await asyncio.wait([reading])


async def next_of(events: Events, kind: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            found, data = await events.get()
            if found == kind:
                return data


async def test_a_take_over_in_mid_answer_is_seen_by_everybody_and_the_answer_stops(tmp_path: Path) -> None:
    engine = FakeEngine(delay_s=0.001, answer=lambda request: ENDLESS)
    async with (
        live_server(tmp_path, engine=engine) as live,
        live.person("ann") as ann,
        live.person("agnes", UserRole.AGENT) as agent,
        ann.socket() as socket,
        inbox_events(agent) as events,
    ):
        agnes = Agent(agent.http, "agnes")
        conversation_id = await ann.conversation()
        await socket.ask("conversation.subscribe", conversation_id=conversation_id)
        said = await socket.say(conversation_id, "hello")
        await socket.text_arrives(said["response_id"], 3)
        asked = await socket.ask("handoff.request", conversation_id=conversation_id, reason="my invoice")
        assert (asked["type"], asked["data"]["state"]) == ("conversation.status_changed", "queued")
        waiting = await next_of(events, "conversation.status_changed")
        assert (waiting["conversation_id"], waiting["state"]) == (conversation_id, "queued")
        await agnes.does("take", conversation_id)
        await agnes.says(conversation_id, "I am here.")
        end = await socket.end_of(said["response_id"])
        assert end["type"] == "response.cancelled"
        log = socket.log(said["response_id"])
        require_whole_log(log)
        changed = await next_of(events, "conversation.status_changed")
        assert (changed["state"], changed["agent"]["name"]) == ("human", "agnes")
        # What she wrote is there for the person, and no word of it in the inbox's events.
        seen = [frame for frame in socket.frames if frame["type"] == "message.created" and "reply_to" not in frame]
        if not seen:
            seen = [await socket.until(lambda frame: frame["type"] == "message.created")]
        assert seen[0]["data"]["message"]["content"] == "I am here."
        assert seen[0]["data"]["response"] is None
        notice = await next_of(events, "message.created")
        assert set(notice) == {"conversation_id", "message_id", "role"}
        messages = await ann.messages(conversation_id)
        assert messages[1]["content"] == text_of(log)
        assert (messages[1]["status"], messages[2]["content"]) == ("cancelled", "I am here.")
        silent = await socket.say(conversation_id, "thank you")
        assert (silent["response"], silent["response_id"]) == (None, None)
        assert len(engine.requests) == 1


async def test_both_see_that_the_other_one_writes(tmp_path: Path) -> None:
    async with (
        live_server(tmp_path) as live,
        live.person("ann") as ann,
        live.person("agnes", UserRole.AGENT) as agent,
        ann.socket() as socket,
        ann.socket() as phone,
        inbox_events(agent) as events,
    ):
        agnes = Agent(agent.http, "agnes")
        conversation_id = await ann.conversation()
        for device in (socket, phone):
            await device.ask("conversation.subscribe", conversation_id=conversation_id)
        await socket.ask("handoff.request", conversation_id=conversation_id)
        await socket.send("typing", conversation_id=conversation_id)
        assert await next_of(events, "typing") == {"conversation_id": conversation_id, "author": None}
        assert (await phone.until(lambda frame: frame["type"] == "typing"))["data"] == {"author": None}
        await agnes.does("take", conversation_id)
        await agnes.does("typing", conversation_id)
        shown = await socket.until(lambda frame: frame["type"] == "typing")
        assert shown["data"]["author"]["name"] == "agnes"


async def test_the_inbox_ends_with_the_sign_in_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with live_server(tmp_path) as live, live.person("agnes", UserRole.AGENT) as agent:
        async with inbox_events(agent):
            assert (len(live.context.inbox_feed), live.context.hub.sizes()["event_streams"]) == (1, 1)
            await agent.http.post("/api/v1/auth/logout")
            await eventually(lambda: len(live.context.inbox_feed) == 0)
        await eventually(lambda: live.context.hub.sizes()["event_streams"] == 0)
