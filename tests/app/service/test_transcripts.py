"""Transcripts: who wrote, how who answers has changed, what its person thinks of it; and back again by an import."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.accounts.models import UserRole
from tests.app.responses.chat import Chat
from tests.app.service.desk import Agent, handoff
from tests.support.client import problem


async def served(chat: Chat) -> None:
    """A conversation with everything that customer service leaves in it."""
    async with chat.running.signed_in("agnes", UserRole.AGENT) as http:
        agnes = Agent(http, "agnes")
        await chat.turn("hello")
        await handoff(chat, "my invoice")
        await chat.say("is anybody there?")
        answer = await agnes.says(chat.id, "It is paid.")
        await agnes.does("resolve", chat.id)
        path = f"/api/v1/messages/{answer['message']['id']}/feedback"
        rated = await chat.http.put(path, json={"rating": 4, "scale": "stars", "comment": "quick"})
        assert rated.status_code == 200


async def exported(chat: Chat, kind: str, conversation_id: str | None = None) -> str:
    path = f"/api/v1/conversations/{conversation_id or chat.id}/export"
    answer = await chat.http.get(path, params={"format": kind})
    assert answer.status_code == 200
    return answer.text


def kept(document: dict[str, Any]) -> list[Any]:
    """What an import has to keep."""
    messages = [
        (each["role"], each["content"], each["author"] and each["author"]["name"], each["feedback"])
        for each in document["messages"]
    ]
    return [messages, document["state_changes"]]


async def test_a_transcript_has_names_changes_and_ratings(chat: Chat) -> None:
    """botpress/botpress#5150: case C44."""
    await served(chat)
    document = json.loads(await exported(chat, "json"))
    changes = [(each["after"], each["was"], each["state"], each["actor"]) for each in document["state_changes"]]
    assert changes == [
        (2, "bot", "queued", "ann"),
        (3, "queued", "human", "agnes"),
        (4, "human", "resolved", "agnes"),
    ]
    assert document["state_changes"][0]["reason"] == "my invoice"
    assert document["messages"][3]["author"]["name"] == "agnes"
    assert document["messages"][3]["feedback"] == {"rating": 4, "scale": "stars", "comment": "quick"}
    lines = (await exported(chat, "ndjson")).splitlines()
    assert json.loads(lines[0])["state_changes"] == document["state_changes"]
    text = await exported(chat, "markdown")
    parts = (
        "bot → queued by ann (my invoice)",
        "assistant (agnes)",
        "It is paid.",
        "Rated ★★★★ quick",
        "human → resolved",
    )
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


@pytest.mark.parametrize("kind", ["json", "ndjson"])
async def test_an_import_keeps_all_of_it_and_gives_nobody_a_right(chat: Chat, kind: str) -> None:
    await served(chat)
    media_type = {"json": "application/json", "ndjson": "application/x-ndjson"}[kind]
    content = (await exported(chat, kind)).encode()
    answer = await chat.http.post("/api/v1/conversations/import", content=content, headers={"Content-Type": media_type})
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert (body["state"], body["agent"]) == ("bot", None)
    original, copy = [json.loads(await exported(chat, "json", each)) for each in (chat.id, body["id"])]
    assert kept(original) == kept(copy)
    async with chat.running.anonymous() as agnes:
        login = {"username": "agnes", "password": "correct horse"}
        token = (await agnes.post("/api/v1/auth/login", json=login)).json()["token"]
        agnes.headers["Authorization"] = f"Bearer {token}"
        agnes.cookies.clear()
        problem(await agnes.get(f"/api/v1/inbox/{body['id']}/messages"), 404, "not_found")
        assert (await agnes.get(f"/api/v1/inbox/{chat.id}/messages")).status_code == 200
