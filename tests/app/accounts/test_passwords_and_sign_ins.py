"""Making an account, changing a password, and the places where one is signed in."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from app.accounts.models import UserRole
from app.accounts.throttle import MAX_FAILURES, MAX_SIGN_UPS
from app.identifiers import UserId
from tests.support.client import PASSWORD, RunningApp, problem, running_app

CHANGE = "/api/v1/auth/password"
LOGIN = "/api/v1/auth/login"
SIGN_INS = "/api/v1/auth/sign-ins"
SIGN_UP = "/api/v1/auth/signup"
NEW = "battery staple"


async def signed_in_again(client: httpx.AsyncClient, password: str = PASSWORD, browser: str = "other") -> str:
    login = {"username": "ann", "password": password}
    answer = await client.post(LOGIN, json=login, headers={"User-Agent": browser})
    client.cookies.clear()
    assert answer.status_code == 200, answer.text
    return str(answer.json()["token"])


async def test_another_password_ends_every_other_sign_in(running: RunningApp) -> None:
    revoked: list[str] = []
    running.context.accounts.on_revoked(revoked.append)
    async with running.signed_in("ann") as ann:
        other = await signed_in_again(ann)
        key = (await ann.post("/api/v1/keys", json={"name": "bot"})).json()["key"]
        answer = await ann.post(CHANGE, json={"current_password": PASSWORD, "new_password": NEW})
        assert answer.status_code == 204, answer.text
        assert (await ann.get("/api/v1/me")).status_code == 200
        statuses = [
            (await ann.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})).status_code
            for token in (other, key)
        ]
        assert statuses == [401, 200]
        assert len(revoked) == 1
        problem(await ann.post(LOGIN, json={"username": "ann", "password": PASSWORD}), 401, "wrong_credentials")
        await signed_in_again(ann, NEW)


async def test_a_wrong_current_password_changes_nothing_and_is_counted(running: RunningApp) -> None:
    async with running.signed_in("ann") as ann:
        for _ in range(MAX_FAILURES):
            wrong = {"current_password": "guess", "new_password": NEW}
            problem(await ann.post(CHANGE, json=wrong), 403, "wrong_password")
        right = {"current_password": PASSWORD, "new_password": NEW}
        problem(await ann.post(CHANGE, json=right), 429, "too_many_requests")


async def test_an_account_without_a_password_gets_one(running: RunningApp) -> None:
    accounts = running.context.accounts
    user = await accounts.create_user("ann", None, UserRole.USER)
    sign_in = await accounts.redeem_sign_in_ticket(await accounts.make_sign_in_ticket(UserId(user.id)))
    async with running.anonymous(Authorization=f"Bearer {sign_in.token}") as ann:
        assert (await ann.post(CHANGE, json={"new_password": NEW})).status_code == 204
        problem(await ann.post(CHANGE, json={"new_password": "something else"}), 403, "wrong_password")
        await signed_in_again(ann, NEW)


@pytest.mark.parametrize("password", ["", "1234567", "x" * 1025, "ä" * 513, "\x00" * 9])
async def test_a_new_password_has_a_length(running_on_sqlite: RunningApp, password: str) -> None:
    async with running_on_sqlite.signed_in("ann") as ann:
        change = {"current_password": PASSWORD, "new_password": password}
        problem(await ann.post(CHANGE, json=change), 400, "invalid_input")


async def test_one_sees_where_one_is_signed_in_and_ends_it_from_elsewhere(running: RunningApp) -> None:
    async with running.signed_in("ann") as ann:
        running.clock.advance(60)
        token = await signed_in_again(ann, browser="Phone\x1b[31m 7")
        elsewhere, here = (await ann.get(SIGN_INS)).json()["items"]
        assert (elsewhere["label"], elsewhere["is_current"], here["is_current"]) == ("Phone[31m 7", False, True)
        assert (elsewhere["last_used_at"], here["last_used_at"]) == (None, "2026-12-01T12:01:00Z")
        assert token not in (await ann.get(SIGN_INS)).text
        assert (await ann.delete(f"{SIGN_INS}/{elsewhere['id']}")).status_code == 204
        problem(await ann.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"}), 401, "unauthenticated")
        assert (await ann.delete(f"{SIGN_INS}/{here['id']}")).status_code == 204
        problem(await ann.get("/api/v1/me"), 401, "unauthenticated")


async def test_people_make_accounts_where_the_settings_say_so(tmp_path: Path, database_url: str) -> None:
    body = {"username": "Ann", "password": NEW}
    async with running_app(tmp_path, database_url, signup="open") as running, running.anonymous() as client:
        assert (await client.get("/api/v1/auth/ways")).json()["signup"] == "open"
        made = await client.post(SIGN_UP, json=body)
        assert (made.status_code, made.json()["user"]["username"], made.json()["user"]["role"]) == (201, "ann", "user")
        assert (await client.get("/api/v1/me")).json()["rights"] == []
        problem(await client.post(SIGN_UP, json=body), 409, "username_taken")
        problem(await client.post(SIGN_UP, json={**body, "username": "admin"}), 400, "invalid_input")
        problem(await client.post(SIGN_UP, json={**body, "password": "short"}), 400, "invalid_input")
        problem(await client.post(SIGN_UP, json={**body, "role": "admin"}), 400, "invalid_input")
        foreign = {"Origin": "http://evil.test"}
        problem(await client.post(SIGN_UP, json=body, headers=foreign), 403, "origin_refused")
        problem(
            await client.post(SIGN_UP, json=body, headers={"Idempotency-Key": "k"}), 400, "idempotency_not_supported"
        )


async def test_a_machine_cannot_make_accounts_without_end(tmp_path: Path, sqlite_url: str) -> None:
    async with running_app(tmp_path, sqlite_url, signup="open") as running, running.anonymous() as client:
        for number in range(MAX_SIGN_UPS):
            answer = await client.post(SIGN_UP, json={"username": f"bot{number}", "password": NEW})
            assert answer.status_code == 201
        problem(await client.post(SIGN_UP, json={"username": "one-more", "password": NEW}), 429, "too_many_requests")


async def test_nobody_makes_an_account_where_they_do_not(running: RunningApp) -> None:
    async with running.anonymous() as client:
        assert (await client.get("/api/v1/auth/ways")).json()["signup"] == "closed"
        problem(await client.post(SIGN_UP, json={"username": "ann", "password": NEW}), 403, "signup_closed")
        problem(await client.post(LOGIN, json={"username": "ann", "password": NEW}), 401, "wrong_credentials")
