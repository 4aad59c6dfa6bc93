"""An answer on its way to sockets: order, resume, several tabs, and nobody else's frames."""

from __future__ import annotations

import pytest

from tests.support.live_server import LiveServer, Person, require_whole_log, text_of
from tests.support.scripts import ENDLESS, numbered_script, text_script


async def test_a_message_is_acknowledged_and_then_answered(live: LiveServer, ann: Person) -> None:
    conversation = await ann.conversation()
    async with ann.socket() as socket:
        frame_id = await socket.send(
            "message.create", conversation_id=conversation, content="hello", client_message_id="m1"
        )
        created = await socket.receive()
        assert (created["type"], created["reply_to"], created["conversation_id"]) == (
            "message.created",
            frame_id,
            conversation,
        )
        data = created["data"]
        assert data["client_message_id"] == "m1"
        assert data["message"]["content"] == "hello"
        response_id = data["response_id"]
        end = await socket.end_of(response_id)
    log = socket.log(response_id)
    require_whole_log(log)
    assert [frame["type"] for frame in log][:2] == ["response.created", "response.in_progress"]
    assert log[0]["data"]["message_id"] == data["response"]["message_id"] == data["message"]["children"][0]
    assert log[0]["data"]["params"]["max_tokens"] == 1024
    assert log[1]["data"]["phase"] == "decode"
    assert text_of(log) == "You said: hello."
    assert (end["type"], end["data"]["finish_reason"], end["data"]["status"]) == (
        "response.completed",
        "stop",
        "completed",
    )
    assert end["data"]["usage"]["output_tokens"] == 5


async def test_the_stored_message_is_the_joined_deltas_when_the_terminal_frame_comes(
    live: LiveServer, ann: Person
) -> None:
    live.engine.queue_script(text_script("Grüße 🎈 und 漢字 " * 30, piece_chars=3))
    conversation = await ann.conversation()
    async with ann.socket() as socket:
        response_id = (await socket.say(conversation, "hello"))["response_id"]
        end = await socket.end_of(response_id)
        answer = (await ann.messages(conversation))[-1]
    assert answer["content"] == text_of(socket.log(response_id)) == "Grüße 🎈 und 漢字 " * 30
    assert (answer["status"], answer["last_seq"]) == ("completed", end["seq"])


async def test_reloading_in_the_middle_again_and_again_loses_and_repeats_nothing(live: LiveServer, ann: Person) -> None:
    """open-webui/open-webui#29596: after a reload only what came later was shown."""
    live.engine.queue_script(numbered_script(300))
    conversation = await ann.conversation()
    async with ann.socket() as first:
        response_id = (await first.say(conversation, "hello"))["response_id"]
        await first.text_arrives(response_id)
    for _ in range(4):
        answer = (await ann.messages(conversation))[-1]
        async with ann.socket(hello=False) as socket:
            await socket.hello([(response_id, answer["last_seq"])])
            await socket.drain()
            log = socket.log(response_id)
            whole = await ann.events(response_id)
            joined = answer["content"] + text_of(log)
            assert text_of(whole).startswith(joined)
            assert [frame["seq"] for frame in log] == list(
                range(answer["last_seq"] + 1, answer["last_seq"] + 1 + len(log))
            )
    require_whole_log(whole)
    assert text_of(whole) == (await ann.messages(conversation))[-1]["content"]


@pytest.mark.parametrize("missing", [1, 2, 3, None])
async def test_resuming_after_the_end_replays_the_tail_and_the_terminal_frame(
    live: LiveServer, ann: Person, missing: int | None
) -> None:
    """theexperiencecompany/gaia#851: whoever came back after the end got only "done"."""
    conversation = await ann.conversation()
    body = await ann.say(conversation, "one two three four")
    response_id = body["response"]["id"]
    whole = await ann.events(response_id)
    last_seq = len(whole) - (len(whole) if missing is None else missing)
    async with ann.socket(hello=False) as socket:
        await socket.hello([(response_id, last_seq)])
        await socket.end_of(response_id)
        await socket.drain()
    assert socket.log(response_id) == whole[last_seq:]


async def test_resuming_behind_the_last_frame_sends_nothing(live: LiveServer, ann: Person) -> None:
    conversation = await ann.conversation()
    response_id = (await ann.say(conversation, "hello"))["response"]["id"]
    whole = await ann.events(response_id)
    async with ann.socket(hello=False) as socket:
        await socket.hello([(response_id, len(whole))])
        await socket.drain()
    assert socket.log(response_id) == []
    assert [frame["type"] for frame in socket.frames] == ["session.ready", "pong"]


async def test_what_cannot_be_resumed_is_said_and_the_rest_goes_on(live: LiveServer, ann: Person, bob: Person) -> None:
    conversation = await ann.conversation()
    good = (await ann.say(conversation, "hello"))["response"]["id"]
    whole = await ann.events(good)
    foreign = (await bob.say(await bob.conversation(), "secret"))["response"]["id"]
    await bob.events(foreign)
    unknown = "00000000-0000-4000-8000-000000000000"
    async with ann.socket(hello=False) as socket:
        await socket.hello([(foreign, 0), (unknown, 0), ("not an id", 0), (good, len(whole) + 1), (good, 0)])
        await socket.end_of(good)
    refused = [frame for frame in socket.frames if frame["type"] == "resync_required"]
    assert [(frame["data"]["response_id"], frame["data"]["reason"]) for frame in refused] == [
        (foreign, "unknown"),
        (unknown, "unknown"),
        ("not an id", "unknown"),
        (good, "ahead"),
    ]
    assert socket.log(good) == whole


async def test_an_answer_that_is_resumed_twice_at_once_comes_once(live: LiveServer, ann: Person) -> None:
    ended = (await ann.say(await ann.conversation(), "hello"))["response"]["id"]
    whole = await ann.events(ended)
    live.engine.queue_script(ENDLESS)
    running = (await ann.say(await ann.conversation(), "hello"))["response"]["id"]
    async with ann.socket(hello=False) as socket:
        await socket.hello([(ended, 1), (running, 0), (ended, 1), (ended, 0), (running, 2)])
        await socket.end_of(ended)
        await socket.ask("response.cancel", response_id=running)
        await socket.end_of(running)
        await socket.drain()
    assert socket.log(ended) == whole[1:]
    require_whole_log(socket.log(running))


async def test_a_conversation_that_is_followed_already_can_be_followed_again_at_the_limit(
    live: LiveServer, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.responses.commands.SUBSCRIPTIONS_MAX", 2)
    first, second, third = [await ann.conversation() for _ in range(3)]
    async with ann.socket() as socket:
        for conversation in (first, second, first):
            answer = await socket.ask("conversation.subscribe", conversation_id=conversation)
            assert answer["type"] == "conversation.updated"
        refused = await socket.ask("conversation.subscribe", conversation_id=third)
        assert refused["data"]["code"] == "too_many_subscriptions"


async def test_two_logs_of_one_conversation_both_count_from_one(live: LiveServer, ann: Person) -> None:
    """danny-avila/LibreChat#13117: the second answer was dropped as a repetition of the first."""
    conversation = await ann.conversation()
    async with ann.socket() as watcher, ann.socket() as sender:
        await watcher.ask("conversation.subscribe", conversation_id=conversation)
        for text in ("first", "second"):
            response_id = (await sender.say(conversation, text))["response_id"]
            await sender.end_of(response_id)
            await watcher.end_of(response_id)
            require_whole_log(watcher.log(response_id))
            assert watcher.log(response_id) == sender.log(response_id)


async def test_replaying_a_log_three_times_gives_the_same_frames_with_the_same_ids(
    live: LiveServer, ann: Person
) -> None:
    """Hy4ri/hermes-mobile#842: the replayed answer became a second message."""
    response_id = (await ann.say(await ann.conversation(), "hello"))["response"]["id"]
    logs = [await ann.events(response_id) for _ in range(2)]
    async with ann.socket(hello=False) as socket:
        await socket.hello([(response_id, 0)])
        await socket.end_of(response_id)
    logs.append(socket.log(response_id))
    assert logs[0] == logs[1] == logs[2]
    assert len({frame["data"]["message_id"] for log in logs for frame in log if "message_id" in frame["data"]}) == 1


async def test_every_tab_that_follows_the_conversation_sees_the_same_frames(live: LiveServer, ann: Person) -> None:
    conversation = await ann.conversation()
    async with ann.socket() as sender, ann.socket() as other:
        for tab in (sender, other):
            await tab.ask("conversation.subscribe", conversation_id=conversation)
        response_id = (await sender.say(conversation, "hello"))["response_id"]
        for tab in (sender, other):
            await tab.end_of(response_id)
            await tab.drain()
    assert sender.log(response_id) == other.log(response_id)
    for tab in (sender, other):
        kinds = [frame["type"] for frame in tab.frames if "seq" not in frame]
        assert kinds.count("message.created") == 1
        assert kinds.count("conversation.updated") == 2
        created = next(frame for frame in tab.frames if frame["type"] == "message.created")
        first = tab.log(response_id)[0]
        assert tab.frames.index(created) < tab.frames.index(first)
    assert "reply_to" not in next(frame for frame in other.frames if frame["type"] == "message.created")


async def test_a_new_subscriber_gets_the_running_answers_from_their_beginning(live: LiveServer, ann: Person) -> None:
    live.engine.queue_script(ENDLESS)
    conversation = await ann.conversation()
    async with ann.socket() as sender, ann.socket() as late:
        response_id = (await sender.say(conversation, "hello"))["response_id"]
        await sender.text_arrives(response_id, 3)
        reply = await late.ask("conversation.subscribe", conversation_id=conversation)
        (running,) = reply["data"]["responses"]
        assert (running["response_id"], running["status"]) == (response_id, "in_progress")
        assert reply["data"]["conversation"]["id"] == conversation
        await late.text_arrives(response_id, 3)
        await sender.ask("response.cancel", response_id=response_id)
        for tab in (sender, late):
            await tab.end_of(response_id)
            require_whole_log(tab.log(response_id))


async def test_a_socket_of_another_conversation_gets_nothing_of_this_one(live: LiveServer, ann: Person) -> None:
    """open-webui/open-webui#6172: the answer ran into the chat that was opened meanwhile."""
    here, elsewhere = await ann.conversation(), await ann.conversation()
    async with ann.socket() as sender, ann.socket() as watcher:
        await watcher.ask("conversation.subscribe", conversation_id=elsewhere)
        one = (await sender.say(here, "a"))["response_id"]
        two = (await sender.say(elsewhere, "b"))["response_id"]
        for response_id in (one, two):
            await sender.end_of(response_id)
        await watcher.end_of(two)
        await watcher.drain()
    assert [frame for frame in watcher.frames if frame.get("conversation_id") == here] == []
    for response_id, conversation in ((one, here), (two, elsewhere)):
        require_whole_log(sender.log(response_id))
        assert {frame["conversation_id"] for frame in sender.log(response_id)} == {conversation}


async def test_unsubscribing_ends_every_stream_of_the_conversation(live: LiveServer, ann: Person) -> None:
    live.engine.queue_script(ENDLESS)
    conversation = await ann.conversation()
    async with ann.socket() as socket:
        await socket.ask("conversation.subscribe", conversation_id=conversation)
        response_id = (await socket.say(conversation, "hello"))["response_id"]
        await socket.text_arrives(response_id, 2)
        await socket.ask("conversation.unsubscribe", conversation_id=conversation)
        before = len(socket.log(response_id))
        for _ in range(20):
            await socket.ask("ping")
        assert len(socket.log(response_id)) == before
        # It goes on without us, and we may come back.
        assert (await ann.response(response_id))["status"] == "in_progress"
        await socket.ask("conversation.subscribe", conversation_id=conversation)
        await socket.text_arrives(response_id, before)


async def test_an_answer_goes_on_when_its_socket_drops(live: LiveServer, ann: Person) -> None:
    """ggml-org/llama.cpp#21754: a phone changed its network and the answer was lost."""
    live.engine.queue_script(numbered_script(100))
    conversation = await ann.conversation()
    async with ann.socket() as socket:
        response_id = (await socket.say(conversation, "hello"))["response_id"]
        await socket.text_arrives(response_id)
        socket.connection.transport.abort()
    whole = await ann.events(response_id)
    assert whole[-1]["type"] == "response.completed"
    assert text_of(whole) == "".join(f" word{number}" for number in range(1, 101))


async def test_bytes_grow_with_the_answer_and_not_with_its_square(live: LiveServer, ann: Person) -> None:
    """open-webui/open-webui#23733: every piece carried the whole message."""
    sizes = []
    for words in (1000, 2000):
        live.engine.queue_script(numbered_script(words))
        response_id = (await ann.say(await ann.conversation(), "hello", params={"max_tokens": 5000}))["response"]["id"]
        answer = await ann.http.get(f"/api/v1/responses/{response_id}/events")
        sizes.append(len(answer.content))
    assert sizes[1] <= 2.2 * sizes[0]
