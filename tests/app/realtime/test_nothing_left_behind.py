"""After any mix of coming and going every registry is as empty as it was at the start."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.support.live_server import LiveServer, Person, eventually, live_server
from tests.support.scripts import ENDLESS, failing_script, numbered_script

ROUNDS = 60


def is_empty(live: LiveServer) -> bool:
    return set(live.context.responses.sizes().values()) == {0}


async def one_visit(ann: Person, conversation: str, chance: random.Random) -> None:
    """Somebody comes, does something of everything, and leaves in one of many ways."""
    async with ann.socket() as socket:
        if chance.random() < 0.5:
            await socket.ask("conversation.subscribe", conversation_id=conversation)
        response_id = (await socket.say(conversation, "hello there"))["response_id"]
        way = chance.choice(["finish", "cancel", "drop", "unsubscribe", "leave"])
        if way == "finish":
            await socket.end_of(response_id)
        elif way == "cancel":
            await socket.ask("response.cancel", response_id=response_id)
        elif way == "drop":
            socket.connection.transport.abort()
        elif way == "unsubscribe":
            await socket.ask("conversation.unsubscribe", conversation_id=conversation)


@pytest.mark.parametrize("seed", [1, 2])
async def test_sockets_that_come_and_go_leave_nothing(tmp_path: Path, sqlite_url: str, seed: int) -> None:
    """Chainlit/chainlit#1622: records of sessions were never removed, and memory ran out after days."""
    chance = random.Random(seed)
    async with (
        live_server(tmp_path, sqlite_url, on_disconnect=chance.choice(["continue", "cancel"])) as live,
        live.person("ann") as ann,
    ):
        conversations = [await ann.conversation() for _ in range(5)]
        tasks_before = len(asyncio.all_tasks())
        for _ in range(ROUNDS // 6):
            visits = [one_visit(ann, chance.choice(conversations), chance) for _ in range(6)]
            await asyncio.gather(*visits)
        await eventually(lambda: live.context.hub.open_sockets == 0)
        await eventually(lambda: live.context.responses.dispatcher.alive == 0)
        await eventually(lambda: is_empty(live))
        await eventually(lambda: len(asyncio.all_tasks()) <= tasks_before)
        journal = list((tmp_path / "journal").rglob("*.journal"))
        # Emptying it is its own thread's work.
        await eventually(lambda: sum(file.stat().st_size for file in journal) < 100)


async def test_event_streams_that_are_abandoned_leave_nothing(live: LiveServer, ann: Person) -> None:
    """danny-avila/LibreChat#13391: listeners stayed after the stream had ended."""
    live.engine.queue_script(*[ENDLESS, failing_script("a", "b"), numbered_script(3)] * 10)
    conversations = [await ann.conversation() for _ in range(30)]
    responses = [(await ann.say(conversation, "hi"))["response"]["id"] for conversation in conversations]
    before = len(asyncio.all_tasks())

    async def peek(response_id: str) -> None:
        async with ann.http.stream("GET", f"/api/v1/responses/{response_id}/events") as stream:
            async for _ in stream.aiter_lines():
                return

    for _ in range(3):
        await asyncio.gather(*[peek(response_id) for response_id in responses])
    await eventually(lambda: live.context.hub.sizes()["cursors"] == 0)
    for response_id in responses:
        await ann.http.post(f"/api/v1/responses/{response_id}/cancel")
    await eventually(lambda: is_empty(live))
    await eventually(lambda: len(asyncio.all_tasks()) <= before)


async def test_deleting_a_conversation_ends_its_answers_and_tells_who_watches(live: LiveServer, ann: Person) -> None:
    live.engine.queue_script(ENDLESS)
    conversation = await ann.conversation()
    async with ann.socket() as socket, ann.socket() as watcher:
        await watcher.ask("conversation.subscribe", conversation_id=conversation)
        response_id = (await socket.say(conversation, "hello"))["response_id"]
        waiting = (await socket.say(conversation, "and then?"))["response_id"]
        await socket.text_arrives(response_id)
        assert (await ann.http.delete(f"/api/v1/conversations/{conversation}")).status_code == 204
        for gone in (response_id, waiting):
            assert (await socket.end_of(gone))["type"] == "response.cancelled"
            assert (await watcher.end_of(gone))["type"] == "response.cancelled"
        told = [frame for frame in watcher.frames if frame["type"] == "conversation.updated"]
        assert told[-1] == {
            "type": "conversation.updated",
            "conversation_id": conversation,
            "data": {"deleted": True, "reason": "deleted"},
        }
        assert (await ann.http.get(f"/api/v1/responses/{response_id}")).status_code == 404
        assert (await ann.http.get(f"/api/v1/responses/{response_id}/events")).status_code == 404
    await eventually(lambda: is_empty(live))
