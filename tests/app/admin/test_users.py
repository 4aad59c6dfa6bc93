"""Accounts of others: what administrators see and do, and what that ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from app.accounts.models import UserRole
from app.identifiers import new_id
from tests.support.client import PASSWORD, RunningApp, problem

USERS = "/api/v1/admin/users"
ME = "/api/v1/me"
LOGIN = "/api/v1/auth/login"
NEW = "battery staple"


@pytest.fixture
async def root(running: RunningApp) -> AsyncIterator[httpx.AsyncClient]:
    async with running.signed_in("root", UserRole.ADMIN) as client:
        yield client


async def made(root: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    answer = await root.post(USERS, json={"username": "ann", "password": PASSWORD, **fields})
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"{USERS}/{body['id']}"
    return body


async def actions(root: httpx.AsyncClient) -> list[str]:
    return sorted(entry["action"] for entry in (await root.get("/api/v1/admin/audit")).json()["items"])


async def test_an_account_is_made_found_and_noted(running: RunningApp, root: httpx.AsyncClient) -> None:
    body = await made(root, username="Ann", role="agent")
    assert (body["username"], body["role"], body["has_password"], body["disabled_at"]) == ("ann", "agent", True, None)
    assert (await root.get(f"{USERS}/{body['id']}")).json() == body
    problem(await root.post(USERS, json={"username": "ANN"}), 409, "username_taken")
    problem(await root.get(f"{USERS}/{new_id()}"), 404, "not_found")
    problem(await root.get(f"{USERS}/nobody"), 404, "not_found")
    (entry,) = (await root.get("/api/v1/admin/audit")).json()["items"]
    assert (entry["action"], entry["target_id"]) == ("user.create", body["id"])
    assert entry["details"] == {"username": "ann", "role": "agent"}
    async with running.anonymous() as ann:
        signed_in = (await ann.post(LOGIN, json={"username": "ann", "password": PASSWORD})).json()
        assert signed_in["user"]["rights"] == ["answer_people"]


async def test_pages_of_accounts_go_from_the_newest_to_the_oldest(running: RunningApp, root: httpx.AsyncClient) -> None:
    for name in ("a", "b", "c"):
        running.clock.advance(1)
        await made(root, username=name, role="agent" if name == "b" else "user")
    first = (await root.get(f"{USERS}?limit=3")).json()
    second = (await root.get(USERS, params={"limit": 3, "cursor": first["next_cursor"]})).json()
    assert [item["username"] for item in first["items"] + second["items"]] == ["c", "b", "a", "root"]
    assert [item["username"] for item in (await root.get(f"{USERS}?role=agent")).json()["items"]] == ["b"]


@pytest.mark.parametrize("change", [{"role": "agent"}, {"disabled": True}])
async def test_what_takes_something_away_ends_the_sign_ins_at_once(
    running: RunningApp, root: httpx.AsyncClient, change: dict[str, Any]
) -> None:
    """open-webui/open-webui#25764: sockets survived a lost role (case C32)."""
    ended: list[str] = []
    running.context.accounts.on_revoked(ended.append)
    body = await made(root)
    async with running.anonymous() as ann, running.anonymous() as program:
        token = (await ann.post(LOGIN, json={"username": "ann", "password": PASSWORD})).json()["token"]
        ann.cookies.clear()
        ann.headers["Authorization"] = f"Bearer {token}"
        key = (await ann.post("/api/v1/keys", json={"name": "bot"})).json()
        program.headers["Authorization"] = f"Bearer {key['key']}"
        assert (await root.patch(f"{USERS}/{body['id']}", json=change)).status_code == 200
        problem(await ann.get(ME), 401, "unauthenticated")
        assert len(ended) == 2
        assert key["id"] in ended
        assert (await program.get(ME)).status_code == (401 if "disabled" in change else 200)
        # Again, and nothing is left to end.
        ended.clear()
        await root.patch(f"{USERS}/{body['id']}", json=change)
        assert ended == []


async def test_a_disabled_account_comes_back_with_its_keys(running: RunningApp, root: httpx.AsyncClient) -> None:
    body = await made(root)
    async with running.anonymous() as ann:
        login = {"username": "ann", "password": PASSWORD}
        token = (await ann.post(LOGIN, json=login)).json()["token"]
        ann.cookies.clear()
        ann.headers["Authorization"] = f"Bearer {token}"
        ann.headers["Authorization"] = f"Bearer {(await ann.post('/api/v1/keys', json={'name': 'bot'})).json()['key']}"
        disabled = await root.patch(f"{USERS}/{body['id']}", json={"disabled": True})
        assert disabled.json()["disabled_at"] == "2026-12-01T12:00:00Z"
        problem(await ann.get(ME), 401, "unauthenticated")
        problem(await ann.post(LOGIN, json=login), 401, "wrong_credentials")
        await root.patch(f"{USERS}/{body['id']}", json={"disabled": False})
        assert (await ann.get(ME)).status_code == 200
    assert await actions(root) == ["user.create", "user.disable", "user.enable"]


async def test_a_reset_password_ends_the_sign_ins_and_is_not_written_down(
    running: RunningApp, root: httpx.AsyncClient
) -> None:
    body = await made(root)
    async with running.anonymous() as ann:
        await ann.post(LOGIN, json={"username": "ann", "password": PASSWORD})
        assert (await root.post(f"{USERS}/{body['id']}/password", json={"new_password": NEW})).status_code == 204
        problem(await ann.get(ME), 401, "unauthenticated")
        problem(await ann.post(LOGIN, json={"username": "ann", "password": PASSWORD}), 401, "wrong_credentials")
        assert (await ann.post(LOGIN, json={"username": "ann", "password": NEW})).status_code == 200
    assert await actions(root) == ["user.create", "user.reset_password"]
    assert NEW not in (await root.get("/api/v1/admin/audit")).text


async def test_somebody_can_always_administer(running: RunningApp, root: httpx.AsyncClient) -> None:
    root_id = (await root.get(ME)).json()["id"]
    for change in ({"role": "user"}, {"disabled": True}):
        problem(await root.patch(f"{USERS}/{root_id}", json=change), 409, "last_administrator")
    async with running.signed_in("vice", UserRole.ADMIN) as vice:
        vice_id = (await vice.get(ME)).json()["id"]
        # Each takes it from the other at the same time.
        answers = await asyncio.gather(
            root.patch(f"{USERS}/{vice_id}", json={"role": "user"}),
            vice.patch(f"{USERS}/{root_id}", json={"role": "user"}),
        )
        assert sorted(answer.status_code for answer in answers)[0] == 200
        page = await running.context.administration.page(limit=10, cursor=None, role=UserRole.ADMIN)
        assert len(page.items) == 1


async def test_the_account_that_every_start_prints_a_link_for_keeps_its_role(
    running: RunningApp, root: httpx.AsyncClient
) -> None:
    admin = await running.context.accounts.ensure_admin()
    problem(await root.patch(f"{USERS}/{admin.id}", json={"role": "user"}), 409, "fixed_role")


async def test_a_sign_in_that_is_verified_while_the_password_changes_does_not_hold(
    running: RunningApp, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = await made(root)
    passwords = running.context.accounts._passwords
    verify = passwords.verify

    async def slow(password_hash: str | None, password: str) -> bool:
        right = await verify(password_hash, password)
        await root.post(f"{USERS}/{body['id']}/password", json={"new_password": NEW})
        return right

    monkeypatch.setattr(passwords, "verify", slow)
    async with running.anonymous() as ann:
        problem(await ann.post(LOGIN, json={"username": "ann", "password": PASSWORD}), 401, "wrong_credentials")


@pytest.mark.parametrize("role", [UserRole.USER, UserRole.AGENT])
async def test_only_administrators_come_in(running_on_sqlite: RunningApp, role: UserRole) -> None:
    async with running_on_sqlite.signed_in("ann", role) as ann:
        problem(await ann.get(USERS), 403, "forbidden")
        problem(await ann.post(USERS, json={"username": "bob", "role": "admin"}), 403, "forbidden")
        problem(await ann.patch(f"{USERS}/{new_id()}", json={"role": "admin"}), 403, "forbidden")
