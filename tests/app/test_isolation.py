"""Every REST route and every frame with an id, tried by somebody else, by an agent, with a key and by nobody.

The routes come from the application and the frames from the protocol, so a new one is tested as soon as it exists. Somebody
else's id must be answered exactly like one that does not exist (The-Vibe-Company/quivr#3697, Cinnamon/kotaemon#846, case C36).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import httpx
import msgspec
import pytest
from litestar import Litestar
from litestar.routes import HTTPRoute

from app.accounts.models import UserRole
from app.identifiers import is_id, new_id
from app.realtime import protocol
from tests.support.client import RunningApp, problem
from tests.support.live_server import Frame, Socket, live_server

ADMIN = "/api/v1/admin/"
WIDGET = "/api/v1/widgets/{widget_id:str}"
WIDGET_ADMIN = {WIDGET, f"{WIDGET}/secret"}
"""Administrators' too; what is below a widget otherwise is for its visitors, and nothing to anybody else."""

WEBHOOKS = "/api/v1/webhooks"
"""Administrators' as a whole."""

AGENTS = ("/api/v1/inbox", "/api/v1/canned-answers")
"""What agents may do. To them somebody's conversation with the model is nothing, and canned answers are theirs together."""

CANARY = "the-parrot-is-called-Ferdinand"
BODIES: dict[str, dict[str, Any]] = {
    "/api/v1/conversations/{conversation_id:str}": {"title": "mine now"},
    "/api/v1/conversations/{conversation_id:str}/messages": {"content": "hello"},
    "/api/v1/conversations/{conversation_id:str}/responses": {"parent_id": new_id()},
    "/api/v1/inbox/{conversation_id:str}/messages": {"content": "hello"},
    "/api/v1/messages/{message_id:str}/feedback": {"rating": 1},
    "/api/v1/admin/users/{user_id:str}": {"role": "admin"},
    "/api/v1/admin/users/{user_id:str}/password": {"new_password": "mine from now on"},
    "/api/v1/admin/users/{user_id:str}/retention": {"days": 1},
}
"""What is sent by the methods that take a body."""

STRANGERS = ["another user", "an agent", "a key"]
"""Administrators are strangers to what is said, too: `tests/app/admin/test_reading.py`."""


def routes(app: Litestar) -> list[tuple[str, str]]:
    """Method and path of everything below /api/v1 that is not for everybody."""
    return sorted(
        (method, route.path)
        for route in app.routes
        if isinstance(route, HTTPRoute) and route.path.startswith("/api/v1")
        for method in route.methods - {"OPTIONS"}
        if not any(method in handler.http_methods and handler.opt.get("public") for handler in route.route_handlers)
    )


async def asked(client: httpx.AsyncClient, method: str, path: str, ids: dict[str, str]) -> httpx.Response:
    url = re.sub(r"\{(\w+):str\}", lambda found: ids[found[1]], path)
    body = BODIES.get(path, {}) if method in ("POST", "PATCH", "PUT") else None
    return await client.request(method, url, json=body)


async def things_of(client: httpx.AsyncClient, words: str = CANARY) -> dict[str, str]:
    """One of everything that has an id, made of these words."""
    conversation = (await client.post("/api/v1/conversations", json={"title": words})).json()
    said = await client.post(f"/api/v1/conversations/{conversation['id']}/messages", json={"content": words})
    assert said.status_code == 202, said.text
    key = await client.post("/api/v1/keys", json={"name": words})
    assert key.status_code == 201, key.text
    return {
        "conversation_id": conversation["id"],
        "response_id": said.json()["response"]["id"],
        "message_id": said.json()["message"]["id"],
        "session_id": conversation["id"],
        "key_id": key.json()["id"],
        "sign_in_id": (await client.get("/api/v1/auth/sign-ins")).json()["items"][0]["id"],
        "user_id": (await client.get("/api/v1/me")).json()["id"],
        "persona_name": "terse",
        "widget_id": new_id(),
        "canned_answer_id": new_id(),
        "webhook_id": new_id(),
        "delivery_id": new_id(),
    }


@asynccontextmanager
async def stranger(running: RunningApp, kind: str) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody who has nothing to do with Ann."""
    role = UserRole.AGENT if kind == "an agent" else UserRole.USER
    async with running.signed_in("bob", role) as bob:
        if kind == "a key":
            key = (await bob.post("/api/v1/keys", json={"name": "bot"})).json()["key"]
            bob.headers["Authorization"] = f"Bearer {key}"
        yield bob


@pytest.mark.parametrize("kind", STRANGERS)
async def test_somebody_elses_ids_are_answered_like_ids_that_do_not_exist(running: RunningApp, kind: str) -> None:
    async with running.signed_in("ann") as ann, stranger(running, kind) as bob:
        ids = await things_of(ann)
        tried = 0
        for method, path in routes(running.app):
            names = re.findall(r"\{(\w+):str\}", path)
            if not names or "persona_name" in names:
                # Personas are everybody's to read and the administrators' to write; they have tests of their own.
                continue
            assert set(names) <= ids.keys(), f"{path} has an id that this test does not know"
            unknown = {name: new_id() for name in ids}
            foreign_answer = await asked(bob, method, path, ids)
            unknown_answer = await asked(bob, method, path, unknown)
            is_closed = path.startswith((ADMIN, WEBHOOKS)) or path in WIDGET_ADMIN
            is_closed = is_closed or (path.startswith(AGENTS) and kind != "an agent")
            refusal = (403, "forbidden") if is_closed else (404, "not_found")
            bodies = [problem(answer, *refusal) for answer in (foreign_answer, unknown_answer)]
            assert {**bodies[0], "trace_id": ""} == {**bodies[1], "trace_id": ""}, f"{method} {path}"
            assert foreign_answer.headers.keys() == unknown_answer.headers.keys()
            tried += 1
        assert tried >= 16
        kept = (await ann.get(f"/api/v1/conversations/{ids['conversation_id']}")).json()
        assert kept["title"] == CANARY
        contents = (await ann.get(f"/api/v1/conversations/{ids['conversation_id']}/messages")).json()["items"]
        assert [item["content"] for item in contents][-1] == CANARY
        assert len((await ann.get("/api/v1/keys")).json()["items"]) == 1


@pytest.mark.parametrize("kind", STRANGERS)
async def test_no_list_and_no_export_holds_anything_of_somebody_else(running: RunningApp, kind: str) -> None:
    """Chainlit/chainlit#1407, vllm-project/vllm#53347: not in a list, not as a number, not as a name."""
    async with running.signed_in("ann") as ann, stranger(running, kind) as bob:
        theirs, mine = await things_of(ann), await things_of(bob, "mine")
        secrets = {CANARY, *theirs.values()} - {theirs["persona_name"]}
        for method, path in routes(running.app):
            if method == "GET" and not path.startswith(ADMIN) and not path.endswith("/events"):
                answer = await asked(bob, method, path, mine)
                assert {secret for secret in secrets if secret in answer.text} == set(), path
        assert len((await ann.get("/api/v1/conversations", params={"q": "Ferdinand"})).json()["items"]) == 1
        assert (await bob.get("/api/v1/conversations", params={"q": "Ferdinand"})).json()["items"] == []


async def test_a_branch_or_a_cursor_of_somebody_else_opens_nothing(running: RunningApp) -> None:
    async with running.signed_in("ann") as ann, running.signed_in("bob") as bob:
        theirs, mine = await things_of(ann), await things_of(bob)
        messages = f"/api/v1/conversations/{mine['conversation_id']}/messages"
        problem(await bob.get(messages, params={"leaf": theirs["message_id"]}), 404, "not_found")
        said = await bob.post(messages, json={"content": "hello", "parent_id": theirs["message_id"]})
        problem(said, 404, "not_found")
        for path in ("conversations", "keys", "auth/sign-ins"):
            await things_of(ann)
            await ann.post("/api/v1/auth/login", json={"username": "ann", "password": "correct horse"})
            ann.cookies.clear()
            cursor = (await ann.get(f"/api/v1/{path}?limit=1")).json()["next_cursor"]
            assert cursor is not None
            found = (await bob.get(f"/api/v1/{path}", params={"cursor": cursor})).text
            assert [value for value in theirs.values() if value in found and value != "terse"] == []


async def test_nobody_gets_anything_without_signing_in(running: RunningApp) -> None:
    async with running.signed_in("ann") as ann, running.anonymous() as nobody:
        ids = await things_of(ann)
        for method, path in routes(running.app):
            problem(await asked(nobody, method, path, ids), 401, "unauthenticated")


async def test_two_people_behind_one_address_are_two_people(running: RunningApp) -> None:
    """Chainlit/chainlit#1407: users behind one proxy shared a session (case C34)."""
    forwarded = {"X-Forwarded-For": "198.51.100.7", "User-Agent": "same", "X-User-Id": "ann", "X-Real-IP": "::1"}
    async with running.signed_in("ann") as ann, running.signed_in("bob") as bob:
        names = [(await client.get("/api/v1/me", headers=forwarded)).json()["username"] for client in (ann, bob)]
        assert names == ["ann", "bob"]


def frames_with_ids(ids: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The data of each frame of a client that names something: by its type."""
    values: dict[str, Any] = {
        **ids,
        "parent_id": ids["message_id"],
        "content": "hello",
        "rating": 1,
        "resume": [{"response_id": ids["response_id"], "last_seq": 0}],
    }
    found = {}
    for kind in get_args(protocol.AnyClientFrame):
        data = msgspec.structs.fields(next(f.type for f in msgspec.structs.fields(kind) if f.name == "data"))
        names = {field.name for field in data}
        if names & {"conversation_id", "response_id", "message_id", "parent_id", "resume"}:
            tag = str(kind.__struct_config__.tag)
            # A message that follows somebody else's is another test: here the conversation is theirs.
            wanted = names - ({"parent_id"} if tag == "message.create" else set())
            found[tag] = {name: values[name] for name in wanted if name in values}
    return found


def without_ids(frames: list[Frame], ids: dict[str, str]) -> str:
    """The frames as text, in which every id that was asked for reads alike."""
    text = str([{**frame, "reply_to": ""} for frame in frames])
    for name, value in ids.items():
        if name != "session_id":
            text = text.replace(value, f"<{name}>")
    return text


@pytest.mark.parametrize("kind", STRANGERS)
async def test_a_frame_about_somebody_else_is_answered_like_one_about_nothing(tmp_path: Path, kind: str) -> None:
    role = UserRole.AGENT if kind == "an agent" else UserRole.USER
    async with live_server(tmp_path) as live, live.person("ann") as ann, live.person("bob", role) as bob:
        ids = await things_of(ann.http)
        unknown = {name: new_id() for name in ids}
        if kind == "a key":
            bob.token = (await bob.http.post("/api/v1/keys", json={"name": "bot"})).json()["key"]

        async def answers(socket: Socket, tag: str, data: dict[str, Any]) -> list[Frame]:
            socket.frames.clear()
            await socket.send(tag, **data)
            return list(await socket.drain())[:-1]

        tags = sorted(frames_with_ids(ids))
        assert {"session.hello", "message.create", "response.cancel", "conversation.subscribe"} <= set(tags)
        for tag in tags:
            said: list[str] = []
            for asked_for in (ids, unknown):
                async with bob.socket(hello=tag != "session.hello") as socket:
                    frames = await answers(socket, tag, frames_with_ids(asked_for)[tag])
                    said.append(without_ids(frames, asked_for))
                    assert frames, tag
                    assert CANARY not in str(frames), tag
            assert said[0] == said[1], tag
            assert "error" in said[0] or "resync_required" in said[0] or tag.endswith("unsubscribe"), said[0]


def test_ids_cannot_be_guessed() -> None:
    ids = {new_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(is_id(made) and made[14] == "4" for made in ids)
