"""What people think of answers: once per answer, by whom it was made for, summed up without a word of anybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.accounts.models import UserRole
from app.identifiers import new_id
from tests.app.responses.chat import Chat
from tests.app.service.desk import Agent, handoff
from tests.support.client import problem
from tests.support.clock import SteppedClock
from tests.support.live_server import live_server


async def rates(chat: Chat, message_id: str, rating: int, **more: Any) -> dict[str, Any]:
    answer = await chat.http.put(f"/api/v1/messages/{message_id}/feedback", json={"rating": rating, **more})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def sums(chat: Chat, **query: Any) -> list[dict[str, Any]]:
    async with chat.running.signed_in(f"root{new_id()[:4]}", UserRole.ADMIN) as root:
        answer = await root.get("/api/v1/admin/feedback", params=query)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def test_the_last_word_on_an_answer_counts_and_is_shown_with_it(chat: Chat) -> None:
    message = await chat.turn("hello")
    await rates(chat, message["id"], 1)
    body = await rates(chat, message["id"], -1, comment="Too short.")
    assert (body["rating"], body["comment"], body["message_id"]) == (-1, "Too short.", message["id"])
    shown = [each["feedback"] for each in await chat.messages()]
    assert shown == [None, {"rating": -1, "scale": "thumbs", "comment": "Too short."}]
    (item,) = await sums(chat)
    assert (item["thumbs_up"], item["thumbs_down"], item["satisfied"]) == (0, 1, 0.0)
    for _ in range(2):
        taken_back = await chat.http.delete(f"/api/v1/messages/{message['id']}/feedback")
        assert taken_back.status_code == 204
    assert (await chat.messages())[-1]["feedback"] is None
    assert await sums(chat) == []


async def test_stars_and_thumbs_are_summed_up_by_day_and_persona(chat: Chat, clock: SteppedClock) -> None:
    async with chat.running.signed_in("boss", UserRole.ADMIN) as boss:
        await boss.post("/api/v1/personas", json={"name": "shop", "system_prompt": "Sell."})
    for rating, scale in ((1, "thumbs"), (1, "stars"), (4, "stars")):
        await rates(chat, (await chat.turn("hello"))["id"], rating, scale=scale)
    clock.advance(86_400)
    chat.id = (await chat.post("conversations", {"persona": "shop"})).json()["id"]
    await rates(chat, (await chat.turn("hello"))["id"], 5, scale="stars", comment="a canary sings")
    found = await sums(chat)
    assert [(item["day"], item["persona"]) for item in found] == [("2026-12-02", "shop"), ("2026-12-01", None)]
    assert [(item["stars"], item["stars_average"], item["satisfied"]) for item in found] == [
        (1, 5.0, 1.0),
        (2, 2.5, 0.667),
    ]
    assert [item["thumbs_up"] for item in found] == [0, 1]
    assert "canary" not in str(found)
    assert await sums(chat, since="2026-12-02", until="2026-12-02") == found[:1]
    async with chat.running.signed_in("pager", UserRole.ADMIN) as pager:
        first = (await pager.get("/api/v1/admin/feedback", params={"limit": 1})).json()
        rest = (await pager.get("/api/v1/admin/feedback", params={"cursor": first["next_cursor"]})).json()
    assert first["items"] + rest["items"] == found


async def test_an_answer_of_a_person_is_rated_like_any_other(chat: Chat) -> None:
    async with chat.running.signed_in("agnes", UserRole.AGENT) as http:
        await handoff(chat)
        answer = await Agent(http, "agnes").says(chat.id, "It is paid.")
        await rates(chat, answer["message"]["id"], 5, scale="stars")
        # What is not theirs to say.
        refused = await http.put(f"/api/v1/messages/{answer['message']['id']}/feedback", json={"rating": 1})
        problem(refused, 404, "not_found")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"rating": 0},
        {"rating": 2},
        {"rating": -1, "scale": "stars"},
        {"rating": 6, "scale": "stars"},
        {"rating": 1.5},
    ],
)
async def test_a_rating_is_one_of_its_scale(chat_on_sqlite: Chat, body: dict[str, Any]) -> None:
    message = await chat_on_sqlite.turn("hello")
    answer = await chat_on_sqlite.http.put(f"/api/v1/messages/{message['id']}/feedback", json=body)
    problem(answer, 400, "invalid_input")


async def test_what_is_no_answer_or_not_ones_own_is_not_rated(chat_on_sqlite: Chat) -> None:
    chat = chat_on_sqlite
    await chat.turn("hello")
    question, answer = await chat.messages()
    refused = await chat.http.put(f"/api/v1/messages/{question['id']}/feedback", json={"rating": 1})
    problem(refused, 400, "not_an_answer")
    async with chat.running.signed_in("bob") as bob:
        for message_id in (answer["id"], new_id(), "nonsense"):
            for method in ("PUT", "DELETE"):
                body = {"rating": 1} if method == "PUT" else None
                problem(
                    await bob.request(method, f"/api/v1/messages/{message_id}/feedback", json=body), 404, "not_found"
                )


async def test_a_rating_goes_over_the_socket_too(tmp_path: Path) -> None:
    async with live_server(tmp_path) as live, live.person("ann") as ann, ann.socket() as socket:
        conversation_id = await ann.conversation()
        said = await socket.say(conversation_id, "hello")
        await socket.end_of(said["response_id"])
        (_, answer) = await ann.messages(conversation_id)
        stored = await socket.ask("feedback.create", message_id=answer["id"], rating=4, scale="stars")
        assert (stored["type"], stored["data"]["rating"]) == ("feedback.created", 4)
        refused = await socket.ask("feedback.create", message_id=answer["id"], rating=4)
        assert (refused["type"], refused["data"]["code"]) == ("error", "invalid_input")
        assert (await ann.messages(conversation_id))[1]["feedback"]["rating"] == 4
