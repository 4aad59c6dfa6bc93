"""Searching one's own conversations over REST, on both databases."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.conversations import listing, ways
from tests.app.conversations.test_conversations import created, listed
from tests.app.conversations.test_messages import PATH, begun
from tests.app.responses.chat import Chat
from tests.support.client import RunningApp


async def found(client: httpx.AsyncClient, q: str, **query: Any) -> list[dict[str, Any]]:
    answer = await client.get(PATH, params={"q": q, **query})
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def test_messages_and_titles_are_found_and_shown_with_marks(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        conversation = await begun(running, client)
        question, answer = await conversation.grow("What is the capital of France?", "It is <b>Paris</b>, of course.")
        running.clock.advance(1)
        titled = await created(client, title="Trip to Paris")
        (by_answer,) = await found(client, "PARIS course")
        assert by_answer["id"] == conversation.id
        assert by_answer["hit"] == {
            "message_id": answer.id,
            "role": "assistant",
            "snippet": [
                {"text": "It is <b>", "marked": False},
                {"text": "Paris", "marked": True},
                {"text": "</b>, of ", "marked": False},
                {"text": "course", "marked": True},
                {"text": ".", "marked": False},
            ],
        }
        (by_title,) = await found(client, "trip")
        assert by_title["hit"]["message_id"] is by_title["hit"]["role"] is None
        assert [item["id"] for item in await found(client, "paris")] == [titled["id"], conversation.id]
        assert (await found(client, "capital"))[0]["hit"]["message_id"] == question.id
        # The words of a search are in one message, and not here and there.
        assert await found(client, "capital course") == []
        assert "hit" not in (await client.get(PATH)).json()["items"][0]


async def test_of_several_messages_the_newest_is_shown(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        conversation = await begun(running, client)
        *_, last = await conversation.grow("a river", "no", "the river again", "a long river")
        (item,) = await found(client, "river")
        assert item["hit"]["message_id"] == last.id


@pytest.mark.parametrize("query", ["北京", "天安门", "我爱", "门", "🎉", "über", "UBER"])
async def test_any_script_is_found(running: RunningApp, query: str) -> None:
    async with running.signed_in("ann") as client:
        conversation = await begun(running, client)
        await conversation.grow("我爱北京天安门 🎉 Über")
        other = await begun(running, client)
        await other.grow("北大荒的南京 und Uhr")
        assert [item["id"] for item in await found(client, query)] == [conversation.id]


@pytest.mark.parametrize("many", [0, 3000])
async def test_nothing_of_somebody_else_is_found(
    running: RunningApp, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    # By the list, and by the index: with the owner's word and without.
    monkeypatch.setattr(ways, "MANY", many)
    monkeypatch.setattr(listing, "FIRST_LOOK", 1)
    monkeypatch.setattr(listing, "FITTING_SHARE", 2.0)
    async with running.signed_in("ann") as ann, running.signed_in("bob") as bob:
        conversation = await begun(running, ann)
        await conversation.grow("the secret canary")
        user_id = conversation.user_id.replace("-", "")
        for query in ("canary", "the secret canary", user_id, f"@{user_id}", conversation.id):
            assert await found(bob, query) == []
        assert len(await found(ann, "canary")) == 1
        # Not even by the mark that says whose it is.
        assert await found(ann, f"@{user_id}") == []


async def test_what_is_deleted_renamed_or_temporary_is_not_found(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        conversation = await begun(running, client)
        await conversation.grow("first words")
        await client.patch(f"{PATH}/{conversation.id}", json={"title": "another name"})
        assert [item["hit"]["message_id"] is None for item in await found(client, "name")] == [True]
        await client.patch(f"{PATH}/{conversation.id}", json={"title": "renamed"})
        assert await found(client, "name") == []
        await client.delete(f"{PATH}/{conversation.id}")
        assert await found(client, "first") == await found(client, "renamed") == []
        secret = await created(client, title="fleeting thought", temporary=True)
        assert await found(client, "fleeting") == []
        await client.patch(f"{PATH}/{secret['id']}", json={"temporary": False})
        assert [item["id"] for item in await found(client, "fleeting")] == [secret["id"]]


async def test_an_answer_is_found_once_it_has_ended(chat: Chat) -> None:
    body = await chat.say("say walnut")
    await chat.ended(body["response"]["id"])
    (item,) = await found(chat.http, "walnut")
    assert item["hit"]["role"] == "assistant"
    assert item["hit"]["message_id"] == body["response"]["message_id"]


async def test_a_search_is_narrowed_and_paged_like_the_list(
    running: RunningApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By the list only, in looks of one or more, while enough fits; then by the index: met in the list, met only in part of it,
    # and read one by one; with the owner's word and without.
    for look, share, many, rare, within in (
        (1, 0.0, 3000, 0, 8),
        (3, 0.0, 3000, 0, 8),
        (1, 2.0, 0, 0, 8),
        (3, 2.0, 0, 0, 8),
        (1, 2.0, 3, 0, 8),
        (1, 2.0, 3000, 0, 8),
        (1, 2.0, 3000, 0, 1),
        (1, 2.0, 3000, 0, 0),
        (1, 2.0, 3000, 800, 8),
        (100, 0.1, 3000, 800, 8),
    ):
        monkeypatch.setattr(listing, "FIRST_LOOK", look)
        monkeypatch.setattr(listing, "FITTING_SHARE", share)
        monkeypatch.setattr(listing, "WORTHWHILE_SHARE", share / 2)
        monkeypatch.setattr(listing, "MANY", many)
        monkeypatch.setattr(ways, "MANY", many)
        monkeypatch.setattr(listing, "RARE", rare)
        monkeypatch.setattr(listing, "MET_WITHIN", within)
        monkeypatch.setattr(listing, "FURTHER", look)
        async with running.signed_in(f"ann{look}-{share}-{many}-{rare}-{within}") as client:
            for number in range(9):
                word = "rare" if number == 0 else "common"
                body = await created(client, title=f"{word} t{number}", tags=["odd"] if number % 2 else ["even"])
                running.clock.advance(number % 3)
                if number == 4:
                    await client.patch(f"{PATH}/{body['id']}", json={"archived": True})
            whole = await listed(client)
            for query, wanted in {
                "common": [title for title in whole if title.startswith("common")],
                "rare": ["rare t0"],
                "common t4": ["common t4"],
                "nothing": [],
                "!": [],
            }.items():
                for limit in (1, 2, 50):
                    assert await listed(client, q=query, limit=limit) == wanted
            assert await listed(client, q="common", tag="odd", limit=2) == [
                title for title in whole if title[-1] in "1357"
            ]
            assert await listed(client, q="common", archived="true") == ["common t4"]
            assert await listed(client, tag="even", archived="false", limit=1) == [
                title for title in whole if title[-1] in "0268"
            ]
            assert await listed(client, state="bot", q="rare") == ["rare t0"]


async def test_no_query_is_an_error_or_an_operator(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        await created(client, title="plain words")
        for query in (
            '"', "'", "plain OR nothing", "NOT plain", "pla*", "plain NEAR words", "words:plain", "^plain", "plain & !words",
            "plain | x", "-plain", "(plain", "{plain}", "\\", "%", "_", "'; DROP TABLE conversations; --", "\u202e", "\ud83c",
        ):  # fmt: skip
            raw = httpx.QueryParams({"q": query.encode("utf-8", "surrogatepass").decode("utf-8", "replace")})
            assert (await client.get(PATH, params=raw)).status_code == 200, query
        assert len(await found(client, "plain")) == 1
        assert await found(client, "plain OR nothing") == []
        assert await found(client, "pla*") == []

        @settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=60))
        def holds(query: str) -> None:
            queries.append(query)

        queries: list[str] = []
        holds()
        for query in queries:
            assert (await client.get(PATH, params={"q": query})).status_code == 200, query
