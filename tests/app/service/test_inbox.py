"""Agents: who waits, taking over, answering, giving back, and what they may see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.accounts.models import UserRole
from tests.app.responses.chat import Chat, said
from tests.app.service.desk import UNKNOWN, Agent, conversation, handoff
from tests.support.client import problem
from tests.support.clock import SteppedClock
from tests.support.scripts import ENDLESS


@pytest.fixture
async def agnes(chat: Chat) -> AsyncIterator[Agent]:
    async with chat.running.signed_in("agnes", UserRole.AGENT) as http:
        yield Agent(http, "agnes")


@pytest.fixture
async def otto(chat: Chat) -> AsyncIterator[Agent]:
    async with chat.running.signed_in("otto", UserRole.AGENT) as http:
        yield Agent(http, "otto")


async def test_an_agent_takes_answers_and_gives_back_and_the_model_knows_it(chat: Chat, agnes: Agent) -> None:
    await chat.turn("hello")
    await handoff(chat, "my invoice")
    assert await agnes.sees() == [chat.id]
    taken = await agnes.does("take", chat.id)
    assert (taken["state"], taken["agent"]["name"]) == ("human", "agnes")
    assert (await agnes.sees(), await agnes.sees("human"), await agnes.sees("human", mine=True)) == (
        [],
        [chat.id],
        [chat.id],
    )
    answer = await agnes.says(chat.id, "It is paid.")
    assert answer["message"]["author"] == taken["agent"]
    assert (answer["message"]["role"], answer["message"]["status"]) == ("assistant", "completed")
    assert (await chat.say("thank you"))["response"] is None
    assert (await agnes.does("return", chat.id))["agent"] is None
    await chat.turn("what was that?")
    assert said(chat.engine.requests[-1].turns) == [
        ("user", "hello"),
        ("assistant", "You said: hello."),
        ("assistant", "It is paid."),
        ("user", "thank you"),
        ("user", "what was that?"),
    ]
    assert [message["author"] and message["author"]["name"] for message in await chat.messages()] == [
        None,
        None,
        "agnes",
        None,
        None,
        None,
    ]


async def test_a_take_over_in_mid_answer_stops_it_and_the_next_context_has_both(chat: Chat, agnes: Agent) -> None:
    """The answer stops, what was shown of it stays, and the person's text is in the next context (case C42)."""
    chat.engine.queue_script(ENDLESS)
    running = await chat.say("hello")
    await chat.engine.received(1)
    await chat.shown(running["response"]["id"], " tick tock")
    waiting = await chat.say("and?")
    await handoff(chat)
    await agnes.does("take", chat.id)
    await agnes.says(chat.id, "I am here.")
    ended = [await chat.ended(body["response"]["id"]) for body in (running, waiting)]
    assert [body["status"] for body in ended] == ["cancelled", "cancelled"]
    assert len(chat.engine.requests) == 1
    await agnes.does("return", chat.id)
    await chat.turn("go on")
    assert said(chat.engine.requests[-1].turns) == [
        ("user", "hello"),
        ("assistant", " tick tock"),
        ("user", "and?"),
        ("assistant", "I am here."),
        ("user", "go on"),
    ]


async def test_of_two_agents_who_take_at_once_one_gets_it(chat: Chat, agnes: Agent, otto: Agent) -> None:
    await handoff(chat)
    answers = await asyncio.gather(agnes.tries("take", chat.id), otto.tries("take", chat.id))
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    winner, loser = (agnes, otto) if answers[0].status_code == 200 else (otto, agnes)
    for act, body in (
        ("take", None),
        ("messages", {"content": "mine"}),
        ("return", None),
        ("resolve", None),
        ("typing", None),
    ):
        refused = problem(await loser.tries(act, chat.id, body), 409, "taken")
        assert (refused["agent"]["name"], refused["state"]) == (winner.name, "human")
    assert (await winner.does("take", chat.id))["agent"]["name"] == winner.name
    assert await chat.messages() == []
    # For the others again, by whoever has it.
    released = await winner.http.post(f"/api/v1/conversations/{chat.id}/handoff", json={"reason": "not my trade"})
    assert released.json()["state"] == "queued"
    assert (await loser.does("take", chat.id))["agent"]["name"] == loser.name


async def test_an_administrator_ends_what_an_agent_has_left(chat: Chat, agnes: Agent) -> None:
    await handoff(chat)
    await agnes.does("take", chat.id)
    async with chat.running.signed_in("root", UserRole.ADMIN) as http:
        root = Agent(http, "root")
        problem(await root.tries("take", chat.id), 409, "taken")
        assert (await root.does("return", chat.id))["state"] == "bot"


async def test_who_answers_without_taking_has_taken(chat: Chat, agnes: Agent) -> None:
    """A staff reply in state bot switches to human by itself (case C42)."""
    await handoff(chat)
    assert (await agnes.says(chat.id, "hello"))["conversation"]["state"] == "human"
    await agnes.does("return", chat.id)
    chat.engine.queue_script(ENDLESS)
    running = await chat.say("hello")
    assert (await agnes.says(chat.id, "once more"))["conversation"]["agent"]["name"] == "agnes"
    assert (await chat.ended(running["response"]["id"]))["status"] == "cancelled"


async def test_an_answer_sent_twice_under_one_key_is_one(chat: Chat, agnes: Agent) -> None:
    await handoff(chat)
    key = {"Idempotency-Key": "k1"}
    answers = [await agnes.tries("messages", chat.id, {"content": "hello"}, **key) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].content == answers[1].content
    assert answers[1].headers["idempotent-replayed"] == "true"
    assert len(await chat.messages()) == 1
    problem(await agnes.tries("messages", chat.id, {"content": " "}), 400, "content_empty")


async def test_what_is_resolved_begins_anew_with_the_model(chat: Chat, agnes: Agent) -> None:
    await handoff(chat)
    await agnes.says(chat.id, "Done.")
    resolved = await agnes.does("resolve", chat.id)
    assert (resolved["state"], resolved["agent"]["name"]) == ("resolved", "agnes")
    assert await agnes.does("resolve", chat.id) == resolved
    problem(await chat.http.delete(f"/api/v1/conversations/{chat.id}/handoff"), 409, "illegal_move")
    assert (await chat.turn("one more thing"))["content"] == "You said: one more thing."
    assert (await conversation(chat))["state"] == "bot"


async def test_whoever_waits_longest_comes_first_and_is_counted(chat: Chat, agnes: Agent, clock: SteppedClock) -> None:
    ids = []
    for _ in range(3):
        chat.id = (await chat.post("conversations", {})).json()["id"]
        await handoff(chat)
        ids.append(chat.id)
        clock.advance(60)
    assert await agnes.sees() == ids
    pages, cursor = [], None
    while True:
        query = {"limit": 1} | ({} if cursor is None else {"cursor": cursor})
        body = (await agnes.http.get("/api/v1/inbox", params=query)).json()
        pages += [item["conversation"]["id"] for item in body["items"]]
        if (cursor := body["next_cursor"]) is None:
            break
    assert pages == ids
    await agnes.does("take", ids[0])
    counters = (await agnes.http.get("/api/v1/inbox/counters")).json()
    assert counters == {"waiting": 2, "longest_wait_s": 120.0, "answered": 1, "mine": 1}


# --- what they may see -----------------------------------------------------------------------------------------------


async def test_an_agent_sees_only_what_waits_for_a_person_or_was_theirs(chat: Chat, agnes: Agent, otto: Agent) -> None:
    """The-Vibe-Company/quivr#3697: everybody who was signed in read everything (case C36)."""
    await chat.turn("a secret")
    paths = ("", "/messages", "/export")
    acts = (("take", None), ("messages", {"content": "hi"}), ("return", None), ("resolve", None), ("typing", None))

    async def require_nothing(agent: Agent) -> None:
        for unseen in (chat.id, UNKNOWN, "nonsense"):
            for path in paths:
                problem(await agent.http.get(f"/api/v1/inbox/{unseen}{path}"), 404, "not_found")
            for act, body in acts:
                problem(await agent.tries(act, unseen, body), 404, "not_found")
            refused = await agent.http.post(f"/api/v1/conversations/{unseen}/handoff", json={})
            problem(refused, 404, "not_found")
            for path in ("", "/messages", "/export"):
                problem(await agent.http.get(f"/api/v1/conversations/{unseen}{path}"), 404, "not_found")

    await require_nothing(agnes)
    await handoff(chat)
    for agent in (agnes, otto):
        assert await agent.reads(chat.id) == ["a secret", "You said: a secret."]
    await agnes.does("take", chat.id)
    assert (await otto.reads(chat.id))[0] == "a secret"
    await agnes.does("return", chat.id)
    # It was handed to her, and not to him.
    assert (await agnes.reads(chat.id))[0] == "a secret"
    await require_nothing(otto)
    await chat.http.delete(f"/api/v1/conversations/{chat.id}")
    await require_nothing(agnes)


async def test_who_is_no_agent_may_do_nothing_of_it(chat: Chat) -> None:
    await handoff(chat)
    for path in ("inbox", "inbox/counters", "inbox/events", f"inbox/{chat.id}", f"inbox/{UNKNOWN}", "canned-answers"):
        problem(await chat.http.get(f"/api/v1/{path}"), 403, "forbidden")
    problem(await chat.post(f"inbox/{chat.id}/take", {}), 403, "forbidden")


async def test_every_reading_and_act_of_an_agent_is_in_the_audit_log(chat: Chat, agnes: Agent) -> None:
    """open-webui/open-webui#681: who read what, and when (case C37)."""
    await handoff(chat)
    await agnes.reads(chat.id)
    await agnes.does("take", chat.id)
    await agnes.says(chat.id, "a canary sings")
    await agnes.http.get(f"/api/v1/inbox/{chat.id}/export")
    await agnes.does("resolve", chat.id)
    async with chat.running.signed_in("root", UserRole.ADMIN) as root:
        audit = await root.get("/api/v1/admin/audit", params={"target_id": chat.id})
    entries = sorted((entry["actor"]["username"], entry["action"]) for entry in audit.json()["items"])
    assert entries == [
        ("agnes", "conversation.answer"),
        ("agnes", "conversation.export"),
        ("agnes", "conversation.read"),
        ("agnes", "conversation.resolve"),
        ("agnes", "conversation.take"),
    ]
    assert "canary" not in audit.text


async def test_the_session_is_held_while_a_person_answers(chat: Chat, agnes: Agent) -> None:
    await chat.turn("hello")
    await handoff(chat)
    left = []
    for act in ("take", "return", "take", "resolve"):
        await agnes.does(act, chat.id)
        await asyncio.sleep(0)
        (status,) = (await chat.engine.snapshot()).sessions
        left.append(status.seconds_to_timeout)
    assert left == [None, 300.0, None, 300.0]


async def test_a_new_engine_is_told_whom_a_person_answers(chat: Chat, agnes: Agent) -> None:
    await chat.turn("hello")
    await handoff(chat)
    await agnes.does("take", chat.id)
    (status,) = (await chat.engine.snapshot()).sessions
    await chat.engine.release_session(status.key)
    await chat.context.holding.reconcile()
    assert (await chat.engine.snapshot()).sessions[0].seconds_to_timeout is None


# --- canned answers --------------------------------------------------------------------------------------------------


async def test_canned_answers_are_made_changed_listed_and_deleted(
    chat: Chat, agnes: Agent, clock: SteppedClock
) -> None:
    path = "/api/v1/canned-answers"
    made = []
    for title in ("greeting", "goodbye"):
        answer = await agnes.http.post(path, json={"title": title, "content": f"{title}!"})
        assert answer.status_code == 201, answer.text
        made.append(answer.json())
        clock.advance(1)
    changed = await agnes.http.patch(f"{path}/{made[0]['id']}", json={"content": "Hello!"})
    assert (changed.json()["title"], changed.json()["content"]) == ("greeting", "Hello!")
    first = (await agnes.http.get(path, params={"limit": 1})).json()
    assert [item["title"] for item in first["items"]] == ["goodbye"]
    rest = (await agnes.http.get(path, params={"cursor": first["next_cursor"]})).json()
    assert [item["content"] for item in rest["items"]] == ["Hello!"]
    assert (await agnes.http.delete(f"{path}/{made[0]['id']}")).status_code == 204
    problem(await agnes.http.delete(f"{path}/{made[0]['id']}"), 404, "not_found")
    problem(await agnes.http.patch(f"{path}/{UNKNOWN}", json={}), 404, "not_found")
    problem(await agnes.http.post(path, json={"title": " ", "content": "x"}), 400, "invalid_input")
