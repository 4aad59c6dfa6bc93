"""Limits: who reaches one is told when to come back, and nobody gets past it by asking often or at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.accounts.models import UserRole
from tests.app.responses.chat import Chat, open_chat
from tests.support.client import RunningApp, problem, running_app
from tests.support.fake_engine import FakeEngine
from tests.support.live_server import live_server
from tests.support.scripts import ENDLESS, numbered_script


@asynccontextmanager
async def conversations(running: RunningApp, client: httpx.AsyncClient, count: int) -> AsyncIterator[list[Chat]]:
    made = [(await client.post("/api/v1/conversations", json={})).json()["id"] for _ in range(count)]
    yield [Chat(running, client, conversation) for conversation in made]


async def test_fifty_at_once_get_no_further_than_the_limit(tmp_path: Path, database_url: str) -> None:
    """C38, open-webui/open-webui#6692: limits that did not hold."""
    options: dict[str, Any] = {"quota_requests_per_minute": 7}
    async with (
        running_app(tmp_path, database_url, **options) as running,
        running.signed_in("ann") as client,
        conversations(running, client, 50) as chats,
    ):
        answers = await asyncio.gather(*(chat.try_to_say("hello") for chat in chats))
        statuses = [answer.status_code for answer in answers]
        assert (statuses.count(202), statuses.count(429)) == (7, 43)
        refused = next(answer for answer in answers if answer.status_code == 429)
        body = problem(refused, 429, "quota_exceeded")
        assert (body["limit_name"], body["limit"], body["used"], body["subject"]) == (
            "requests_per_minute",
            7,
            7,
            "user",
        )
        assert body["resets_at"] == "2026-12-01T12:01:00+00:00"
        assert refused.headers["retry-after"] == "60"
        running.clock.advance(45)
        assert (await chats[0].try_to_say("again")).headers["retry-after"] == "15"
        running.clock.advance(15)
        assert (await chats[0].try_to_say("again")).status_code == 202


async def test_tokens_are_exceeded_by_no_more_than_the_answers_that_run(tmp_path: Path, database_url: str) -> None:
    engine = FakeEngine(answer=lambda request: numbered_script(50))
    async with (
        running_app(tmp_path, database_url, engine=engine, quota_tokens_per_day=100) as running,
        running.signed_in("ann") as client,
        conversations(running, client, 50) as chats,
    ):
        said = " ".join(["word"] * 30)
        answers = await asyncio.gather(*(chat.try_to_say(said) for chat in chats))
        accepted = [answer.json()["response"]["id"] for answer in answers if answer.status_code == 202]
        # The prompts alone, each of some thirty tokens, stop the fifth at the latest.
        assert 1 <= len(accepted) <= 4
        for response_id in accepted:
            await chats[0].ended(response_id)
        body = problem(await chats[0].try_to_say("more"), 429, "quota_exceeded")
        usage = (await client.get("/api/v1/me/usage")).json()["totals"]
        assert body["used"] == usage["input_tokens"] + usage["output_tokens"]
        assert body["limit_name"] == "tokens_per_day"
        assert body["resets_at"] == "2026-12-02T00:00:00+00:00"


async def test_a_days_count_survives_a_restart(tmp_path: Path, database_url: str) -> None:
    limits: dict[str, Any] = {"quota_requests_per_day": 2}
    async with open_chat(tmp_path, database_url, **limits) as chat:
        await chat.turn("one")
    async with open_chat(tmp_path, database_url, is_new=False, **limits) as chat:
        await chat.turn("two")
        problem(await chat.try_to_say("three"), 429, "quota_exceeded")


async def test_what_is_refused_or_repeated_is_not_counted(tmp_path: Path, sqlite_url: str) -> None:
    async with open_chat(tmp_path, sqlite_url, quota_requests_per_minute=2) as chat:
        first = await chat.try_to_say("hello", client_message_id="m")
        for _ in range(3):
            assert (await chat.try_to_say("hello", client_message_id="m")).content == first.content
            problem(await chat.try_to_say("hi", parent_id="00000000-0000-4000-8000-000000000000"), 404, "not_found")
        await chat.say("the second")
        problem(await chat.try_to_say("the third"), 429, "quota_exceeded")
        # And one that was accepted before is answered over the limit too.
        assert (await chat.try_to_say("hello", client_message_id="m")).content == first.content


async def test_answers_at_once_are_limited_until_one_ends(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        running_app(tmp_path, sqlite_url, quota_concurrent_answers=2) as running,
        running.signed_in("ann") as client,
        running.signed_in("bob") as other,
        conversations(running, client, 10) as chats,
        conversations(running, other, 1) as others,
    ):
        assert isinstance(running.engine, FakeEngine)
        running.engine.queue_script(ENDLESS, ENDLESS)
        answers = await asyncio.gather(*(chat.try_to_say("hello") for chat in chats))
        accepted = [answer.json()["response"]["id"] for answer in answers if answer.status_code == 202]
        assert len(accepted) == 2
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert problem(refused, 429, "too_many_answers")["limit"] == 2
        assert int(refused.headers["retry-after"]) > 0
        await others[0].say("somebody else is not held up")
        await chats[0].cancel(accepted[0])
        await chats[0].say("now there is room")
        assert running.context.quotas.sizes()["charges"] == 3


async def test_an_administrator_gives_an_account_limits_of_its_own(tmp_path: Path, database_url: str) -> None:
    async with (
        open_chat(tmp_path, database_url, quota_requests_per_day=1, quota_concurrent_answers=5) as chat,
        chat.running.signed_in("root", UserRole.ADMIN) as admin,
    ):
        me = (await chat.http.get("/api/v1/me")).json()["id"]
        path = f"/api/v1/admin/users/{me}/quota"
        problem(await chat.http.put(path, json={}), 403, "forbidden")
        problem(await admin.put(f"/api/v1/admin/users/{chat.id}/quota", json={}), 404, "not_found")
        await chat.turn("one")
        problem(await chat.try_to_say("two"), 429, "quota_exceeded")
        wanted = {"requests_per_day": 3, "tokens_per_day": 0}
        assert (await admin.put(path, json=wanted)).status_code == 200
        assert {**(await admin.get(path)).json(), **wanted} == (await admin.get(path)).json()
        limits = (await chat.http.get("/api/v1/me/limits")).json()["items"]
        assert limits == [
            {
                "subject": "user",
                "unit": "requests",
                "per": "day",
                "limit": 3,
                "used": 1,
                "resets_at": "2026-12-02T00:00:00Z",
            },
            {"subject": "user", "unit": "answers", "per": None, "limit": 5, "used": 0, "resets_at": None},
        ]
        await chat.turn("two")
        await chat.turn("three")
        problem(await chat.try_to_say("four"), 429, "quota_exceeded")
        assert (await admin.put(path, json={"requests_per_day": 0})).status_code == 200
        await chat.turn("without a limit")
        entries = (await admin.get("/api/v1/admin/audit?action=user.set_quota")).json()["items"]
        assert [entry["target_id"] for entry in entries] == [me, me]
        assert {entry["details"]["requests_per_day"] for entry in entries} == {3, 0}


async def test_a_key_has_limits_of_its_own_beside_those_of_its_account(tmp_path: Path, database_url: str) -> None:
    async with (
        open_chat(tmp_path, database_url, quota_requests_per_day=3) as chat,
        chat.running.signed_in("root", UserRole.ADMIN) as admin,
        chat.running.anonymous() as bot,
    ):
        made = (await chat.http.post("/api/v1/keys", json={"name": "bot"})).json()
        path = f"/api/v1/admin/keys/{made['id']}/quota"
        assert (await admin.put(path, json={"requests_per_day": 2, "concurrent_answers": 1})).status_code == 200
        assert (await admin.get(path)).json()["requests_per_day"] == 2
        problem(await admin.put(f"/api/v1/admin/keys/{chat.id}/quota", json={}), 404, "not_found")
        bot.headers["Authorization"] = f"Bearer {made['key']}"
        program = Chat(chat.running, bot, (await bot.post("/api/v1/conversations", json={})).json()["id"])
        first = await program.say("one")
        problem(await program.try_to_say("two at once"), 429, "too_many_answers")
        await program.ended(first["response"]["id"])
        await program.turn("two")
        body = problem(await program.try_to_say("three"), 429, "quota_exceeded")
        assert (body["subject"], body["limit"]) == ("key", 2)
        await chat.turn("its owner has one left")
        assert problem(await chat.try_to_say("and no more"), 429, "quota_exceeded")["subject"] == "user"
        usage = (await admin.get("/api/v1/admin/usage", params={"group_by": "key"})).json()
        assert {item["key_id"]: item["usage"]["answers"] for item in usage["items"]} == {made["id"]: 2, "": 1}
        found = (await bot.get("/api/v1/me/limits")).json()["items"]
        assert [(item["subject"], item["unit"], item["used"]) for item in found] == [
            ("user", "requests", 3),
            ("key", "requests", 2),
            ("key", "answers", 0),
        ]


async def test_on_a_socket_a_limit_is_an_error_frame_and_the_socket_lives(tmp_path: Path, sqlite_url: str) -> None:
    limits: dict[str, Any] = {"quota_requests_per_day": 1}
    async with live_server(tmp_path, sqlite_url, **limits) as live, live.person("ann") as ann, ann.socket() as socket:
        conversation = await ann.conversation()
        await socket.end_of((await socket.say(conversation, "hello"))["response_id"])
        error = await socket.ask("message.create", conversation_id=conversation, content="again")
        assert (error["type"], error["data"]["code"], error["data"]["limit"]) == ("error", "quota_exceeded", 1)
        assert error["data"]["retry_after_s"] > 0
        assert error["data"]["resets_at"]
        assert (await socket.ask("ping"))["type"] == "pong"


async def test_sockets_beyond_the_limit_are_closed_with_4029(tmp_path: Path, sqlite_url: str) -> None:
    async with live_server(tmp_path, sqlite_url, quota_sockets=2) as live, live.person("ann") as ann:
        headers = {"Authorization": f"Bearer {ann.token}"}
        async with ann.socket() as one, ann.socket():
            async with live.connect(additional_headers=headers) as third:
                assert await third.close_code() == 4029
            await one.ask("ping")
        async with ann.socket() as later:
            await later.ask("ping")
        async with live.person("bob") as bob, bob.socket() as other:
            await other.ask("ping")


@pytest.mark.parametrize("body", [{"requests_per_day": -1}, {"request_per_day": 1}, {"sockets": "many"}, []])
async def test_a_quota_that_cannot_be_one_is_refused(running_on_sqlite: RunningApp, body: Any) -> None:
    async with running_on_sqlite.signed_in("root", UserRole.ADMIN) as admin:
        me = (await admin.get("/api/v1/me")).json()["id"]
        problem(await admin.put(f"/api/v1/admin/users/{me}/quota", json=body), 400, "invalid_input")
