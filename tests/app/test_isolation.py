"""Every REST route with an id, tried by somebody else and by nobody.

The routes come from the application itself, so a new one is tested as soon as it exists. Somebody else's id must be answered
exactly like one that does not exist, whatever the method (The-Vibe-Company/quivr#3697, Cinnamon/kotaemon#846).
"""

from __future__ import annotations

import re
from typing import Any

import httpx
from litestar import Litestar
from litestar.routes import HTTPRoute

from app.identifiers import is_id, new_id
from tests.support.client import RunningApp, problem

BODIES: dict[str, dict[str, Any]] = {
    "/api/v1/conversations/{conversation_id:str}": {"title": "mine now"},
    "/api/v1/conversations/{conversation_id:str}/messages": {"content": "hello"},
    "/api/v1/conversations/{conversation_id:str}/responses": {"parent_id": new_id()},
}
"""What is sent by the methods that take a body."""


def routes(app: Litestar) -> list[tuple[str, str]]:
    """Method and path of everything below /api/v1."""
    return sorted(
        (method, route.path)
        for route in app.routes
        if isinstance(route, HTTPRoute) and route.path.startswith("/api/v1")
        for method in route.methods - {"OPTIONS"}
    )


async def asked(client: httpx.AsyncClient, method: str, path: str, ids: dict[str, str]) -> httpx.Response:
    url = re.sub(r"\{(\w+):str\}", lambda found: ids[found[1]], path)
    body = BODIES.get(path, {}) if method in ("POST", "PATCH", "PUT") else None
    return await client.request(method, url, json=body)


async def things_of(client: httpx.AsyncClient) -> dict[str, str]:
    """One of everything that has an id."""
    conversation = (await client.post("/api/v1/conversations", json={"title": "private"})).json()
    said = await client.post(f"/api/v1/conversations/{conversation['id']}/messages", json={"content": "secret"})
    assert said.status_code == 202, said.text
    return {
        "conversation_id": conversation["id"],
        "response_id": said.json()["response"]["id"],
        "session_id": conversation["id"],
    }


async def test_somebody_elses_ids_are_answered_like_ids_that_do_not_exist(running: RunningApp) -> None:
    async with running.signed_in("ann") as ann, running.signed_in("bob") as bob:
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
            bodies = [problem(answer, 404, "not_found") for answer in (foreign_answer, unknown_answer)]
            assert {**bodies[0], "trace_id": ""} == {**bodies[1], "trace_id": ""}, f"{method} {path}"
            assert foreign_answer.headers.keys() == unknown_answer.headers.keys()
            tried += 1
        assert tried >= 9
        kept = (await ann.get(f"/api/v1/conversations/{ids['conversation_id']}")).json()
        assert kept["title"] == "private"
        contents = (await ann.get(f"/api/v1/conversations/{ids['conversation_id']}/messages")).json()["items"]
        assert [item["content"] for item in contents][-1] == "secret"


async def test_nobody_gets_anything_without_signing_in(running: RunningApp) -> None:
    async with running.signed_in("ann") as ann, running.anonymous() as nobody:
        ids = {**await things_of(ann), "persona_name": "terse"}
        for method, path in routes(running.app):
            if path != "/api/v1/auth/login":
                problem(await asked(nobody, method, path, ids), 401, "unauthenticated")


async def test_lists_hold_only_what_is_ones_own(running: RunningApp) -> None:
    async with running.signed_in("ann") as ann, running.signed_in("bob") as bob:
        await things_of(ann)
        assert (await bob.get("/api/v1/conversations")).json() == {"items": [], "next_cursor": None}


async def test_a_cursor_opens_no_list_but_ones_own(running: RunningApp) -> None:
    async with running.signed_in("ann") as ann, running.signed_in("bob") as bob:
        for _ in range(3):
            await things_of(ann)
        cursor = (await ann.get("/api/v1/conversations?limit=1")).json()["next_cursor"]
        assert (await bob.get("/api/v1/conversations", params={"cursor": cursor})).json()["items"] == []


async def test_two_people_behind_one_address_are_two_people(running: RunningApp) -> None:
    """Chainlit/chainlit#1407: users behind one proxy shared a session."""
    forwarded = {"X-Forwarded-For": "198.51.100.7", "User-Agent": "same", "X-User-Id": "ann", "X-Real-IP": "::1"}
    async with running.signed_in("ann") as ann, running.signed_in("bob") as bob:
        names = [(await client.get("/api/v1/me", headers=forwarded)).json()["username"] for client in (ann, bob)]
        assert names == ["ann", "bob"]


def test_ids_cannot_be_guessed() -> None:
    ids = {new_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(is_id(made) and made[14] == "4" for made in ids)
