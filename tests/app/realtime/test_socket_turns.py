"""Talking over the socket: sent twice it is one message, sent in a heap it is answered in order, and what changes is told."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from app.responses import commands
from tests.support.fake_engine import FakeEngine
from tests.support.live_server import LiveServer, Person, eventually_equal, live_server, require_whole_log, text_of
from tests.support.scripts import ENDLESS


async def test_two_sockets_that_send_the_same_message_both_follow_its_one_answer(live: LiveServer, ann: Person) -> None:
    conversation = await ann.conversation()
    async with ann.socket() as one, ann.socket() as two:
        created = await asyncio.gather(
            *[socket.say(conversation, "hello", client_message_id="m1") for socket in (one, two)]
        )
        assert created[0] == created[1]
        response_id = created[0]["response_id"]
        for socket in (one, two):
            await socket.end_of(response_id)
            require_whole_log(socket.log(response_id))
        assert one.log(response_id) == two.log(response_id)
    assert len(await ann.messages(conversation)) == 2
    assert len(live.engine.requests) == 1


async def test_a_message_sent_again_after_its_answer_has_ended_replays_the_answer(
    live: LiveServer, ann: Person
) -> None:
    conversation = await ann.conversation()
    async with ann.socket() as first:
        created = await first.say(conversation, "hello", client_message_id="m1")
        await first.end_of(created["response_id"])
    async with ann.socket() as again:
        assert await again.say(conversation, "hello", client_message_id="m1") == created
        await again.end_of(created["response_id"])
    assert again.log(created["response_id"]) == first.log(created["response_id"])
    async with ann.socket() as other:
        refused = await other.ask(
            "message.create", conversation_id=conversation, content="changed", client_message_id="m1"
        )
        assert refused["data"]["code"] == "client_message_id_reused"


async def test_what_is_sent_in_a_heap_by_somebody_who_leaves_at_once_is_all_answered(
    live: LiveServer, ann: Person
) -> None:
    """open-webui/open-webui#29070: queued messages were lost when the user changed chats."""
    conversation = await ann.conversation()
    async with ann.socket() as socket:
        for number in range(5):
            data = {"conversation_id": conversation, "content": f"message {number}"}
            await socket.connection.send(json.dumps({"type": "message.create", "data": data}))
        await socket.ask("ping")
        socket.connection.transport.abort()

    async def contents() -> list[str]:
        return [message["content"] for message in await ann.messages(conversation)]

    await eventually_equal(
        contents, [text for number in range(5) for text in (f"message {number}", f"You said: message {number}.")]
    )


async def test_another_answer_can_be_asked_for(live: LiveServer, ann: Person) -> None:
    conversation = await ann.conversation()
    async with ann.socket() as socket, ann.socket() as tab:
        await tab.ask("conversation.subscribe", conversation_id=conversation)
        first = await socket.say(conversation, "hello")
        await socket.end_of(first["response_id"])
        created = await socket.ask("response.regenerate", parent_id=first["message"]["id"], params={"max_tokens": 2})
        assert created["type"] == "message.created"
        assert created["data"]["message"]["parent_id"] == first["message"]["id"]
        assert created["data"]["message"]["role"] == "assistant"
        response_id = created["data"]["response_id"]
        for one in (socket, tab):
            assert (await one.end_of(response_id))["type"] == "response.incomplete"
        assert text_of(socket.log(response_id)) == "You said"
        told = [frame for frame in tab.frames if frame["type"] == "message.created"]
        assert [frame["data"]["response_id"] for frame in told] == [first["response_id"], response_id]


async def test_an_edit_is_a_branch(live: LiveServer, ann: Person) -> None:
    conversation = await ann.conversation()
    async with ann.socket() as socket:
        first = await socket.say(conversation, "one")
        await socket.end_of(first["response_id"])
        edited = await socket.say(conversation, "one, but better", parent_id=None)
        await socket.end_of(edited["response_id"])
    assert edited["message"]["parent_id"] is None
    listing = (await ann.http.get(f"/api/v1/conversations/{conversation}/messages")).json()
    assert listing["roots"] == [first["message"]["id"], edited["message"]["id"]]


async def test_stopping_ends_one_answer_and_says_so_to_every_tab(live: LiveServer, ann: Person) -> None:
    live.engine.queue_script(ENDLESS, ENDLESS)
    conversation = await ann.conversation()
    async with ann.socket() as socket, ann.socket() as tab:
        await tab.ask("conversation.subscribe", conversation_id=conversation)
        first = (await socket.say(conversation, "one"))["response_id"]
        second = (await socket.say(conversation, "two"))["response_id"]
        await socket.text_arrives(first)
        reply = await tab.ask("response.cancel", response_id=first)
        assert reply["type"] == "conversation.updated"
        for one in (socket, tab):
            assert (await one.end_of(first))["type"] == "response.cancelled"
        await socket.text_arrives(second)
        assert (await ann.response(second))["status"] == "in_progress"
        # Again, and after the end: the same, and nothing happens.
        assert (await tab.ask("response.cancel", response_id=first))["type"] == "conversation.updated"
        await tab.ask("response.cancel", response_id=second)
        await tab.end_of(second)


async def test_a_changed_title_is_told_to_who_follows_the_conversation(live: LiveServer, ann: Person) -> None:
    conversation, other = await ann.conversation(), await ann.conversation()
    async with ann.socket() as tab:
        await tab.ask("conversation.subscribe", conversation_id=conversation)
        await ann.http.patch(f"/api/v1/conversations/{other}", json={"title": "Elsewhere"})
        await ann.http.patch(f"/api/v1/conversations/{conversation}", json={"title": "A better title"})
        updated = await tab.until(lambda frame: frame["type"] == "conversation.updated")
        assert updated["data"]["conversation"]["title"] == "A better title"


async def test_a_socket_follows_a_bounded_number_of_conversations(
    live: LiveServer, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "SUBSCRIPTIONS_MAX", 2)
    conversations = [await ann.conversation() for _ in range(3)]
    async with ann.socket() as socket:
        replies = [await socket.ask("conversation.subscribe", conversation_id=each) for each in conversations]
        assert [reply["type"] for reply in replies] == ["conversation.updated", "conversation.updated", "error"]
        assert replies[2]["data"]["code"] == "too_many_subscriptions"


async def test_fifty_sockets_stream_over_a_pool_of_two(tmp_path: Path, sqlite_url: str) -> None:
    """open-webui/open-webui#20569: a database session was held during the whole stream."""
    engine = FakeEngine(delay_s=0.005, max_running=50, answer=lambda request: ENDLESS)
    async with (
        live_server(tmp_path, sqlite_url, engine=engine, database_pool=2) as live,
        live.person("ann") as ann,
    ):
        everybody_streams = asyncio.Barrier(50)

        async def follow() -> None:
            conversation = await ann.conversation()
            async with ann.socket() as socket:
                response_id = (await socket.say(conversation, "hello"))["response_id"]
                await socket.text_arrives(response_id, 3)
                await everybody_streams.wait()
                assert (await ann.messages(conversation))[-1]["status"] == "in_progress"
                await socket.ask("response.cancel", response_id=response_id)
                await socket.end_of(response_id)
                require_whole_log(socket.log(response_id))

        await asyncio.gather(*[follow() for _ in range(50)])
