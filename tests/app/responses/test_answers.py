"""Answers: one at a time per conversation, in order, each with one end and its place in the context of the next."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.realtime.event_log import EventLog
from app.realtime.recorder import Recorder
from app.responses.queries import Ending
from app.responses.storage import AnswerStorage
from engine.errors import EngineNotReady
from engine.types import GenerationRequest
from tests.app.responses.chat import Chat, open_chat, said
from tests.support.fake_engine import FakeEngine
from tests.support.scripts import ENDLESS, Script, failing_script, numbered_script


def kinds(events: list[dict[str, object]]) -> list[str]:
    return [str(event["type"]).removeprefix("response.") for event in events]


# --- order -----------------------------------------------------------------------------------------------------------


async def test_messages_that_come_in_a_heap_are_answered_one_by_one_in_their_order(chat: Chat) -> None:
    """open-webui/open-webui#23181: several messages sent during an answer were merged, reordered or dropped."""
    texts = [f"message {number}" for number in range(1, 6)]
    bodies = [await chat.say(text) for text in texts]
    for number, body in enumerate(bodies, 1):
        await chat.engine.received(number)
        await asyncio.sleep(0.01)
        assert len(chat.engine.requests) == number
        await chat.ended(body["response"]["id"])
    messages = await chat.messages()
    assert [message["content"] for message in messages[::2]] == texts
    assert [message["content"] for message in messages[1::2]] == [f"You said: {text}." for text in texts]
    assert [len(request.turns) for request in chat.engine.requests] == [1, 3, 5, 7, 9]


async def test_messages_sent_at_once_stand_in_line_as_they_were_stored(chat: Chat) -> None:
    answers = await asyncio.gather(*[chat.try_to_say(f"message {number}") for number in range(6)])
    assert {answer.status_code for answer in answers} == {202}
    for body in sorted((answer.json() for answer in answers), key=lambda body: body["message"]["created_at"]):
        await chat.ended(body["response"]["id"])
    messages = await chat.messages()
    asked = [request.turns[-1].text for request in chat.engine.requests]
    assert [message["content"] for message in messages[::2]] == asked
    assert len(messages) == 12


async def test_who_waits_is_told_its_place_whenever_that_changes(chat: Chat) -> None:
    first, second, third = [await chat.say(text) for text in ("one", "two", "three")]
    for body in (first, second, third):
        await chat.ended(body["response"]["id"])
    positions = [
        [event["data"]["position"] for event in await chat.events(body["response"]["id"]) if "queued" in event["type"]]
        for body in (first, second, third)
    ]
    assert positions == [[], [1], [2, 1]]


async def test_two_conversations_do_not_wait_for_each_other(chat: Chat) -> None:
    await chat.say("one")
    other = (await chat.post("conversations", {})).json()["id"]
    await chat.post(f"conversations/{other}/messages", {"content": "two"})
    assert len(await chat.engine.received(2)) == 2


async def test_regenerating_while_an_answer_runs_waits_for_it(chat: Chat) -> None:
    first = await chat.say("hello")
    again = await chat.regenerate(first["message"]["id"])
    await chat.engine.received(1)
    assert (await chat.response(again["response"]["id"]))["status"] == "queued"
    await chat.ended(first["response"]["id"])
    assert (await chat.ended(again["response"]["id"]))["status"] == "completed"


# --- the log ---------------------------------------------------------------------------------------------------------


async def test_a_log_has_its_frames_in_the_order_of_the_contract(chat: Chat) -> None:
    body = await chat.say("hello")
    state = await chat.ended(body["response"]["id"])
    events = await chat.events(body["response"]["id"])
    assert kinds(events) == ["created", "in_progress", *["output_text.delta"] * 5, "completed"]
    assert [event["seq"] for event in events] == list(range(1, 9))
    assert events[1]["data"] == {"phase": "decode", "done": 6, "total": 6, "cached_tokens": 0}
    assert events[-1]["data"] == {
        "usage": state["usage"],
        "finish_reason": "stop",
        "message_id": body["response"]["message_id"],
        "status": "completed",
    }
    assert (state["status"], state["finish_reason"], state["last_seq"], state["error"]) == (
        "completed",
        "stop",
        8,
        None,
    )
    assert state["started_at"] is not None
    assert state["ended_at"] is not None


async def test_a_long_prompt_shows_how_far_it_has_been_read(tmp_path: Path, sqlite_url: str) -> None:
    engine = FakeEngine(prefill_step_tokens=4)
    async with open_chat(tmp_path, sqlite_url, engine=engine) as chat:
        body = await chat.say("one two three four five six seven")
        await chat.ended(body["response"]["id"])
        events = await chat.events(body["response"]["id"])
    progress = [event["data"] for event in events if event["type"] == "response.in_progress"]
    assert [(each["phase"], each["done"], each["total"]) for each in progress] == [
        ("prefill", 4, 12),
        ("prefill", 8, 12),
        ("decode", 12, 12),
    ]


async def test_progress_comes_at_most_once_per_window_and_the_last_always(tmp_path: Path, sqlite_url: str) -> None:
    engine = FakeEngine(prefill_step_tokens=1)
    async with open_chat(tmp_path, sqlite_url, engine=engine, delta_window_ms=1000) as chat:
        body = await chat.say("one two three four five six seven")
        await chat.engine.received(1)
        engine.advance_to_end()
        await chat.ended(body["response"]["id"])
        events = await chat.events(body["response"]["id"])
    progress = [event["data"]["done"] for event in events if event["type"] == "response.in_progress"]
    assert progress == [1, 12]
    # Time stood still, so all text but the first was one frame.
    assert [event["data"]["text"] for event in events if "delta" in event["type"]] == [
        "You",
        " said: one two three four five six seven.",
    ]


async def test_an_answer_cut_by_its_limit_is_incomplete(chat: Chat) -> None:
    answer = await chat.turn("one two three four", params={"max_tokens": 4})
    assert (answer["content"], answer["status"]) == ("You said: one", "incomplete")
    assert (await chat.response(answer["response_id"]))["finish_reason"] == "length"


async def test_usage_is_kept_with_the_message_and_the_response(chat: Chat) -> None:
    answer = await chat.turn("hello")
    assert answer["usage"] == (await chat.response(answer["response_id"]))["usage"]
    assert (answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]) == (6, 5)
    assert answer["usage"]["cached_from"] == {"device": 0, "host": 0, "disk": 0, "prefix": 0}


async def test_a_running_answer_is_shown_with_the_event_up_to_which_its_text_goes(chat: Chat) -> None:
    chat.engine.queue_script(numbered_script(5))
    body = await chat.say("hello")
    response_id = body["response"]["id"]
    await chat.engine.received(1)
    await chat.shown(response_id, " word1 word2")
    message = (await chat.messages())[-1]
    state = await chat.response(response_id)
    assert (message["content"], message["last_seq"]) == (" word1 word2", state["last_seq"])
    assert state["status"] == "in_progress"
    await chat.ended(response_id)
    tail = await chat.events(response_id, after=message["last_seq"])
    assert "".join(event["data"].get("text", "") for event in tail) == " word3 word4 word5"


# --- the context of the next turn ------------------------------------------------------------------------------------


async def test_the_ids_of_an_answer_go_into_the_next_prompt_as_they_are(chat: Chat) -> None:
    await chat.turn("hello")
    await chat.turn("and?")
    ids = chat.engine.requests[1].turns[1].token_ids
    assert ids is not None
    assert chat.engine.decode(ids) == "You said: hello."


async def test_stop_and_then_send_at_once_keeps_both_turns_in_the_context(chat: Chat) -> None:
    """danny-avila/LibreChat#1507: after a stop the next answer knew nothing."""
    chat.engine.queue_script(ENDLESS)
    body = await chat.say("hello")
    await chat.engine.received(1)
    await chat.shown(body["response"]["id"], " tick tock")
    cancelled = await chat.cancel(body["response"]["id"])
    await chat.say("go on")
    await chat.engine.received(2)
    assert (cancelled["status"], cancelled["usage"]["output_tokens"]) == ("cancelled", 2)
    assert said(chat.engine.requests[1].turns) == [("user", "hello"), ("assistant", " tick tock"), ("user", "go on")]


async def test_an_answer_without_a_word_is_no_part_of_the_context(chat: Chat) -> None:
    chat.engine.queue_script(failing_script())
    await chat.turn("hello")
    await chat.turn("again")
    assert said(chat.engine.requests[1].turns) == [("user", "hello"), ("user", "again")]


async def test_what_no_database_can_store_in_an_answer_is_replaced_before_anybody_sees_it(chat: Chat) -> None:
    chat.engine.queue_script(Script(("a\x00", "b")))
    answer = await chat.turn("hello")
    assert answer["content"] == "a\N{REPLACEMENT CHARACTER}b"
    await chat.turn("and?")
    # The ids stand for the text as it was, which is not what people have read.
    assert chat.engine.requests[1].turns[1].token_ids is None


# --- stopping --------------------------------------------------------------------------------------------------------


async def test_stopping_keeps_what_was_shown_and_says_how_much_that_is(chat: Chat) -> None:
    chat.engine.queue_script(ENDLESS)
    body = await chat.say("hello")
    response_id = body["response"]["id"]
    await chat.engine.received(1)
    await chat.shown(response_id, " tick tock tick")
    state = await chat.cancel(response_id)
    assert (state["status"], state["finish_reason"], state["usage"]["output_tokens"]) == ("cancelled", "cancelled", 3)
    assert (await chat.messages())[-1]["content"] == " tick tock tick"
    assert kinds(await chat.events(response_id))[-1] == "cancelled"


async def test_stopping_twice_or_after_the_end_changes_nothing(chat: Chat) -> None:
    answer = await chat.turn("hello")
    before = await chat.response(answer["response_id"])
    assert await chat.cancel(answer["response_id"]) == await chat.cancel(answer["response_id"]) == before
    assert before["status"] == "completed"


async def test_stopping_one_that_waits_computes_nothing_for_it(chat: Chat) -> None:
    """ggml-org/llama.cpp#24496: requests that were cancelled in the queue were started anyway."""
    running, waiting, last = [await chat.say(text) for text in ("one", "two", "three")]
    await chat.engine.received(1)
    state = await chat.cancel(waiting["response"]["id"])
    assert (state["status"], state["usage"]["output_tokens"], state["started_at"]) == ("cancelled", 0, None)
    for body in (running, last):
        assert (await chat.ended(body["response"]["id"]))["status"] == "completed"
    assert [request.turns[-1].text for request in chat.engine.requests] == ["one", "three"]
    assert kinds(await chat.events(waiting["response"]["id"])) == ["created", "queued", "cancelled"]


@pytest.mark.parametrize(("owner", "name"), [(Recorder, "settled"), (AnswerStorage, "end")])
async def test_one_that_is_being_stored_is_told_no_new_place(
    chat: Chat, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    """The one in front leaves the line meanwhile. A frame would come behind the terminal one, or take its number."""
    chat.engine.queue_script(ENDLESS)
    running, in_front, stored = [await chat.say(text) for text in ("one", "two", "three")]
    response_id = stored["response"]["id"]
    is_stored, may_go_on = asyncio.Event(), asyncio.Event()
    step = getattr(owner, name)

    async def held(self: object, subject: EventLog | Ending) -> object:
        result = await step(self, subject)
        if subject.response_id == response_id:
            is_stored.set()
            await may_go_on.wait()
        return result

    monkeypatch.setattr(owner, name, held)
    stopping = asyncio.create_task(chat.cancel(response_id))
    await is_stored.wait()
    leaving = chat.context.responses.dispatcher.answer(in_front["response"]["id"])
    await chat.cancel(in_front["response"]["id"])
    assert leaving is not None
    assert leaving.ended.is_set()
    may_go_on.set()
    assert (await stopping)["status"] == "cancelled"
    assert kinds(await chat.events(response_id)) == ["created", "queued", "cancelled"]
    await chat.cancel(running["response"]["id"])
    assert set(chat.context.responses.sizes().values()) == {0}


async def test_a_stop_that_comes_as_the_engine_takes_the_request_reaches_the_engine(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat.engine.queue_script(ENDLESS)
    submit = chat.engine.submit

    async def submit_and_stop(request: GenerationRequest) -> None:
        await submit(request)
        chat.context.responses.dispatcher.cancel(request.request_id)

    monkeypatch.setattr(chat.engine, "submit", submit_and_stop)
    response_id = (await chat.say("hello"))["response"]["id"]
    assert (await chat.ended(response_id))["status"] == "cancelled"
    assert chat.engine.cancelled == [response_id]
    assert chat.engine.stats().running_requests == 0


async def test_a_stop_that_comes_with_an_error_of_the_engine_is_a_stop(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stop_and_fail(request: GenerationRequest) -> None:
        chat.context.responses.dispatcher.cancel(request.request_id)
        raise EngineNotReady("it has just failed")

    monkeypatch.setattr(chat.engine, "submit", stop_and_fail)
    response_id = (await chat.say("hello"))["response"]["id"]
    assert (await chat.ended(response_id))["status"] == "cancelled"


async def test_stopping_while_the_prompt_is_read_ends_after_the_chunk(tmp_path: Path, sqlite_url: str) -> None:
    engine = FakeEngine(prefill_step_tokens=2)
    async with open_chat(tmp_path, sqlite_url, engine=engine) as chat:
        body = await chat.say("one two three four five six seven")
        await engine.received(1)
        engine.advance(2)
        state = await chat.cancel(body["response"]["id"])
        assert (state["status"], state["usage"]["output_tokens"]) == ("cancelled", 0)
        assert engine.stats().prefilled_tokens_total == 4


async def test_stopping_before_the_model_is_loaded_ends_at_once(tmp_path: Path, sqlite_url: str) -> None:
    async with open_chat(tmp_path, sqlite_url, engine=FakeEngine(ready=False)) as chat:
        body = await chat.say("hello")
        assert (await chat.cancel(body["response"]["id"]))["status"] == "cancelled"
        chat.engine.become_ready()
        assert (await chat.turn("again"))["status"] == "completed"
        assert len(chat.engine.requests) == 1
