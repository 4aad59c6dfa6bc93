"""Conversations over REST: making, listing, changing and deleting them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from app.identifiers import new_id
from tests.support.client import RunningApp, problem

PATH = "/api/v1/conversations"


async def created(client: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    answer = await client.post(PATH, json=fields)
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def listed(client: httpx.AsyncClient, **query: Any) -> list[str]:
    """The titles of every page."""
    titles: list[str] = []
    cursor: str | None = None
    while True:
        page = (await client.get(PATH, params={**query, **({"cursor": cursor} if cursor else {})})).json()
        titles += [item["title"] for item in page["items"]]
        if (cursor := page["next_cursor"]) is None:
            return titles


async def test_a_new_conversation_has_what_was_given_and_sensible_rest(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        answer = await client.post(
            PATH,
            json={
                "title": "  Été  \n 😀 ",
                "tags": ["a", "b", "a"],
                "metadata": {"order": 7, "deep": [{"x": None}]},
                "external_id": "crm-1",
            },
        )
        body = answer.json()
        assert answer.headers["location"] == f"{PATH}/{body['id']}"
        assert answer.headers["etag"] == '"1"'
        assert body == {
            "id": body["id"],
            "title": "Été 😀",
            "state": "bot",
            "state_since": None,
            "agent": None,
            "archived": False,
            "tags": ["a", "b"],
            "metadata": {"order": 7, "deep": [{"x": None}]},
            "external_id": "crm-1",
            "persona": None,
            "leaf_id": None,
            "version": 1,
            "created_at": "2026-12-01T12:00:00Z",
            "updated_at": "2026-12-01T12:00:00Z",
            "temporary": False,
            "expires_at": None,
        }
        read = await client.get(f"{PATH}/{body['id']}")
        assert read.json() == body
        assert read.headers["etag"] == '"1"'
        empty = await created(client)
        assert (empty["title"], empty["tags"], empty["metadata"], empty["external_id"]) == ("", [], {}, None)


async def test_the_list_is_newest_first_and_whole_however_it_is_paged(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        for number in range(7):
            await created(client, title=f"t{number}")
            # Every second pair shares its moment, so that the id has to decide.
            running.clock.advance(number % 2)
        whole = await listed(client)
        assert sorted(whole) == [f"t{number}" for number in range(7)]
        assert whole[0] == "t6"
        for limit in (1, 2, 3, 7, 200):
            assert await listed(client, limit=limit) == whole


async def test_pages_stay_in_step_while_new_conversations_come(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        for number in range(4):
            await created(client, title=f"t{number}")
            running.clock.advance(1)
        first = (await client.get(PATH, params={"limit": 2})).json()
        await created(client, title="new")
        second = (await client.get(PATH, params={"limit": 2, "cursor": first["next_cursor"]})).json()
        assert [item["title"] for item in first["items"] + second["items"]] == ["t3", "t2", "t1", "t0"]


async def test_the_list_can_be_narrowed_by_tag_and_archive(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        one = await created(client, title="one", tags=["red", "it's", "é%_"])
        await created(client, title="two", tags=["blue"])
        await client.patch(f"{PATH}/{one['id']}", json={"archived": True})
        assert await listed(client, tag="red") == ["one"]
        assert await listed(client, tag="it's") == ["one"]
        assert await listed(client, tag="é%_") == ["one"]
        for tag in ("re", "%", '"red"', "RED", "", "' OR 1=1 --"):
            assert await listed(client, tag=tag) == []
        assert await listed(client, archived="true") == ["one"]
        assert await listed(client, archived="false") == ["two"]
        assert await listed(client, archived="false", tag="red") == []


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "201"},
        {"limit": "-1"},
        {"limit": "many"},
        {"limit": "1e99"},
        {"limit": ""},
        {"archived": "perhaps"},
        {"tag": "a\x00b"},
        {"cursor": ""},
        {"q": "a\x00b"},
        {"q": "x" * 501},
        {"state": "asleep"},
        {"external_id": "a\x00b"},
    ],
    ids=str,
)
async def test_a_query_that_is_not_understood_is_refused(running_on_sqlite: RunningApp, query: dict[str, str]) -> None:
    async with running_on_sqlite.signed_in("ann") as client:
        answer = await client.get(PATH, params=query)
        assert answer.status_code == 400, answer.text
        assert next(iter(query)) in answer.json()["detail"]


BAD_BODIES: list[dict[str, Any]] = [
    {"title": ""},
    {"title": " \n\t"},
    {"title": "x" * 201},
    {"title": 7},
    {"title": "a\x00b"},
    {"tags": ["x"] * 33},
    {"tags": [""]},
    {"tags": ["x" * 65]},
    {"tags": "x"},
    {"tags": ["a\x00"]},
    {"metadata": []},
    {"metadata": {"a": "\x00"}},
    {"metadata": {"\x00": 1}},
    {"metadata": {"x": "y" * (16 * 1024)}},
    {"external_id": ""},
    {"external_id": "x" * 256},
    {"external_id": "\x00"},
    {"persona": "A Pirate"},
    {"temporary": 1},
    {"unknown": 1},
]


async def test_a_body_that_is_not_understood_is_refused_and_says_where(running_on_sqlite: RunningApp) -> None:
    async with running_on_sqlite.signed_in("ann") as client:
        for body in BAD_BODIES:
            answer = await client.post(PATH, json=body)
            detail = problem(answer, 400, "invalid_input")["detail"]
            assert next(iter(body)) in detail
        assert await listed(client) == []


async def test_metadata_is_bounded_in_depth_and_number(running_on_sqlite: RunningApp) -> None:
    headers = {"Content-Type": "application/json"}

    def nested(depth: int) -> bytes:
        return b'{"metadata":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"

    async with running_on_sqlite.signed_in("ann") as client:
        assert (await client.post(PATH, content=nested(16), headers=headers)).status_code == 201
        for content in (
            nested(17),
            nested(20_000),
            b'{"metadata":{"a":1e999}}',
            b'{"metadata":{"a":NaN}}',
            b'{"metadata":{"a":' + b"9" * 5000 + b"}}",
            b'{"metadata":{"a":"\\ud800"}}',
            b'{"metadata":{"\\udfff":1}}',
        ):
            problem(await client.post(PATH, content=content, headers=headers), 400, "invalid_input")


async def test_text_of_any_script_comes_back_as_it_was(running: RunningApp) -> None:
    texts = ["ليلى", "日本語", "🏳️‍🌈", "a\u202eb", "\u007f\u0001", "\ufffe\uffff", "𝔘𝔫𝔦"]
    async with running.signed_in("ann") as client:
        body = await created(client, tags=texts, metadata={text: text for text in texts}, external_id="".join(texts))
        read = (await client.get(f"{PATH}/{body['id']}")).json()
        assert read["tags"] == texts
        assert read["metadata"] == {text: text for text in texts}
        assert read["external_id"] == "".join(texts)


async def test_a_change_touches_only_what_it_names(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        body = await created(client, title="old", tags=["a"], metadata={"k": 1})
        running.clock.advance(60)
        changed = await client.patch(f"{PATH}/{body['id']}", json={"archived": True})
        assert changed.headers["etag"] == '"2"'
        assert changed.json() == {**body, "archived": True, "version": 2, "updated_at": "2026-12-01T12:01:00Z"}
        replaced = await client.patch(f"{PATH}/{body['id']}", json={"title": "new", "tags": [], "metadata": {"x": [1]}})
        assert [replaced.json()[field] for field in ("title", "tags", "metadata")] == ["new", [], {"x": [1]}]


async def test_a_change_that_changes_nothing_is_no_new_version(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        body = await created(client, title="same")
        running.clock.advance(60)
        for patch in ({}, {"title": "same"}, {"archived": False, "tags": []}):
            assert (await client.patch(f"{PATH}/{body['id']}", json=patch)).json() == body


@pytest.mark.parametrize(
    ("before", "after"), [(1, True), (0, False), (1, 1.0), ([1], [True]), ({"a": 0}, {"a": False})]
)
async def test_a_change_that_only_python_takes_for_none_is_one(running: RunningApp, before: Any, after: Any) -> None:
    async with running.signed_in("ann") as client:
        made = (await client.post(PATH, json={"metadata": {"it": before}})).json()
        changed = (await client.patch(f"{PATH}/{made['id']}", json={"metadata": {"it": after}})).json()
        assert changed["version"] == 2
        read = await client.get(f"{PATH}/{made['id']}")
        assert json.dumps(read.json()["metadata"]) == json.dumps({"it": after})


async def test_a_change_based_on_an_old_version_is_refused_with_the_current_one(running: RunningApp) -> None:
    """open-webui/open-webui#19064: an old copy overwrote a newer chat."""
    async with running.signed_in("ann") as client:
        body = await created(client, title="one")
        path = f"{PATH}/{body['id']}"
        assert (await client.patch(path, json={"title": "two"}, headers={"If-Match": '"1"'})).status_code == 200
        for header in ('"1"', 'W/"2"', "2", '"x"', '"1", "3"', "", "\u00e4"):
            answer = await client.patch(path, json={"title": "three"}, headers={"If-Match": header.encode("latin-1")})  # type: ignore[dict-item]
            assert problem(answer, 412, "precondition_failed")["current_version"] == 2
            assert answer.headers["etag"] == '"2"'
        for header in ('"2"', "*", '"1", "4"'):
            assert (await client.patch(path, json={"title": header}, headers={"If-Match": header})).status_code == 200


async def test_of_two_changes_of_the_same_version_one_wins(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        body = await created(client, title="one")
        changes = [
            client.patch(f"{PATH}/{body['id']}", json={"title": f"by {number}"}, headers={"If-Match": '"1"'})
            for number in range(6)
        ]
        statuses = [answer.status_code for answer in await asyncio.gather(*changes)]
        assert sorted(statuses) == [200] + [412] * 5


@pytest.mark.parametrize(
    "body", [{"title": None}, {"title": ""}, {"archived": "true"}, {"archived": 1}, {"state": "human"}]
)
async def test_a_change_that_is_not_understood_is_refused(running_on_sqlite: RunningApp, body: dict[str, Any]) -> None:
    async with running_on_sqlite.signed_in("ann") as client:
        conversation = await created(client, title="one")
        problem(await client.patch(f"{PATH}/{conversation['id']}", json=body), 400, "invalid_input")
        assert (await client.get(f"{PATH}/{conversation['id']}")).json() == conversation


async def test_a_deleted_conversation_is_gone_and_said_to_be(running: RunningApp) -> None:
    gone: list[tuple[str, str]] = []
    running.context.conversations.on_deleted(lambda conversation_id, reason: gone.append((conversation_id, reason)))
    async with running.signed_in("ann") as client:
        body = await created(client, title="one")
        await created(client, title="two")
        assert (await client.delete(f"{PATH}/{body['id']}")).status_code == 204
        problem(await client.get(f"{PATH}/{body['id']}"), 404, "not_found")
        problem(await client.delete(f"{PATH}/{body['id']}"), 404, "not_found")
        assert await listed(client) == ["two"]
    assert gone == [(body["id"], "deleted")]


async def test_watchers_are_told_of_changes_after_they_are_durable(running: RunningApp) -> None:
    told: list[tuple[str, int]] = []
    running.context.conversations.on_updated(lambda body: told.append((body.title, body.version)))
    async with running.signed_in("ann") as client:
        body = await created(client, title="one")
        await client.patch(f"{PATH}/{body['id']}", json={"title": "two"})
        await client.patch(f"{PATH}/{body['id']}", json={"title": "two"})
        await client.patch(f"{PATH}/{body['id']}", json={"title": "three"}, headers={"If-Match": '"1"'})
    assert told == [("two", 2)]


@pytest.mark.parametrize(
    "conversation_id",
    ["x", "1", "%00", "null", "A" * 5000, "018F7A9E-0000-7000-8000-0123456789AB", "%F0%9F%98%80", "%FF", "a'b\"c"],
)
async def test_an_id_that_cannot_be_one_is_like_one_that_does_not_exist(
    running_on_sqlite: RunningApp, conversation_id: str
) -> None:
    async with running_on_sqlite.signed_in("ann") as client:
        unknown = problem(await client.get(f"{PATH}/{new_id()}"), 404, "not_found")
        answer = await client.get(
            httpx.URL(f"http://kvasir.test{PATH}/").copy_with(raw_path=f"{PATH}/{conversation_id}".encode())
        )
        body = problem(answer, 404, "not_found")
        assert {**body, "trace_id": ""} == {**unknown, "trace_id": ""}
