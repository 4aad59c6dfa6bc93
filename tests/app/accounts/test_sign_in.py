"""Signing in and out over REST."""

from __future__ import annotations

import asyncio

import pytest

from app.accounts.models import UserRole
from app.accounts.service import canonical_username
from app.accounts.throttle import MAX_FAILURES, WINDOW_S
from app.errors import Conflict, InvalidInput
from tests.support.client import BASE_URL, PASSWORD, RunningApp, problem

LOGIN = "/api/v1/auth/login"
LOGOUT = "/api/v1/auth/logout"
ME = "/api/v1/me"


def credentials(username: str = "ann", password: str = PASSWORD) -> dict[str, str]:
    return {"username": username, "password": password}


async def test_the_right_password_gives_a_token_and_a_cookie(running: RunningApp) -> None:
    await running.context.accounts.create_user("ann", PASSWORD, UserRole.USER)
    async with running.anonymous() as client:
        answer = await client.post(LOGIN, json=credentials())
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-store"
        body = answer.json()
        assert body["user"]["username"] == "ann"
        assert body["expires_at"] == "2026-12-31T12:00:00Z"
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert "Path=/" in cookie
        assert "Secure" not in cookie
        by_cookie = await client.get(ME)
        client.cookies.clear()
        by_token = await client.get(ME, headers={"Authorization": f"bearer {body['token']}"})
        assert by_cookie.json() == by_token.json() == body["user"]


async def test_an_unknown_name_and_a_wrong_password_are_answered_alike(running: RunningApp) -> None:
    await running.context.accounts.create_user("ann", PASSWORD, UserRole.USER)
    await running.context.accounts.create_user("link-only", None, UserRole.USER)
    async with running.anonymous() as client:
        answers = [await client.post(LOGIN, json=credentials(name, "wrong")) for name in ("ann", "nobody", "link-only")]
    bodies = [problem(answer, 401, "wrong_credentials") for answer in answers]
    assert len({body.pop("trace_id") for body in bodies}) == 3
    assert bodies[0] == bodies[1] == bodies[2]
    assert [answer.headers["www-authenticate"] for answer in answers] == ["Bearer"] * 3


async def test_names_are_the_same_however_they_are_written(running: RunningApp) -> None:
    await running.context.accounts.create_user("Ann", PASSWORD, UserRole.USER)
    async with running.anonymous() as client:
        for name in ("ann", "ANN", "Ａnn"):
            assert (await client.post(LOGIN, json=credentials(name))).status_code == 200
    with pytest.raises(Conflict):
        await running.context.accounts.create_user("ANN", PASSWORD, UserRole.USER)


async def test_a_token_ends_when_its_time_is_over(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        running.clock.advance(30 * 86400 - 1)
        assert (await client.get(ME)).status_code == 200
        running.clock.advance(1)
        problem(await client.get(ME), 401, "unauthenticated")


async def test_signing_out_ends_this_sign_in_and_no_other(running: RunningApp) -> None:
    revoked: list[str] = []
    running.context.accounts.on_revoked(revoked.append)
    async with running.signed_in("ann") as client:
        other = (await client.post(LOGIN, json=credentials())).json()["token"]
        client.cookies.clear()
        answer = await client.post(LOGOUT)
        assert answer.status_code == 204
        assert "Max-Age=0" in answer.headers["set-cookie"]
        problem(await client.get(ME), 401, "unauthenticated")
        client.headers["Authorization"] = f"Bearer {other}"
        assert (await client.get(ME)).status_code == 200
    assert len(revoked) == 1


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Basic YW5uOnB3", "Bearer not-a-token", "Bearer \u00e4", "Token x", "Bearer a b"],
)
async def test_a_wrong_authorization_header_is_refused_and_the_cookie_does_not_help(
    running_on_sqlite: RunningApp, header: str
) -> None:
    await running_on_sqlite.context.accounts.create_user("ann", PASSWORD, UserRole.USER)
    async with running_on_sqlite.anonymous() as client:
        await client.post(LOGIN, json=credentials())
        problem(await client.get(ME, headers={"Authorization": header.encode("latin-1")}), 401, "unauthenticated")  # type: ignore[dict-item]


async def test_a_stale_cookie_is_like_none(running: RunningApp) -> None:
    async with running.anonymous(Cookie="kvasir_session=left-over") as client:
        problem(await client.get(ME), 401, "unauthenticated")


@pytest.mark.parametrize("origin", [BASE_URL, "https://kvasir.test", "HTTP://KVASIR.TEST", "http://kvasir.test:80"])
async def test_a_page_of_this_server_may_act_with_the_cookie(running_on_sqlite: RunningApp, origin: str) -> None:
    await running_on_sqlite.context.accounts.create_user("ann", PASSWORD, UserRole.USER)
    async with running_on_sqlite.anonymous() as client:
        await client.post(LOGIN, json=credentials())
        answer = await client.post("/api/v1/conversations", json={}, headers={"Origin": origin})
        assert answer.status_code == 201


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "null",
        "",
        "http://evil.test",
        "http://kvasir.test.evil.test",
        "http://kvasir.test:8080",
        "kvasir.test",
        "file://",
    ],
)
async def test_a_foreign_page_cannot_act_with_the_cookie(running_on_sqlite: RunningApp, origin: str | None) -> None:
    """open-webui/open-webui#18410: no check of the page's origin."""
    await running_on_sqlite.context.accounts.create_user("ann", PASSWORD, UserRole.USER)
    async with running_on_sqlite.anonymous() as client:
        await client.post(LOGIN, json=credentials())
        headers = {} if origin is None else {"Origin": origin}
        problem(await client.post("/api/v1/conversations", json={}, headers=headers), 403, "origin_refused")
        assert (await client.get("/api/v1/conversations", headers=headers)).json()["items"] == []


async def test_a_program_with_a_token_needs_no_origin(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        for headers in ({}, {"Origin": "http://evil.test"}):
            assert (await client.post("/api/v1/conversations", json={}, headers=headers)).status_code == 201


async def test_a_foreign_page_cannot_sign_its_reader_in(running: RunningApp) -> None:
    await running.context.accounts.create_user("ann", PASSWORD, UserRole.USER)
    async with running.anonymous() as client:
        answer = await client.post(LOGIN, json=credentials(), headers={"Origin": "http://evil.test"})
        problem(answer, 403, "origin_refused")
        assert "set-cookie" not in answer.headers


MALFORMED = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b'{"username":"ann"}',
    b'{"username":"ann","password":1}',
    b'{"username":"","password":"x"}',
    b'{"username":"ann","password":"x","extra":1}',
    b'{"username":"a\\u0000b","password":"x"}',
    b'{"username":"\\ud800","password":"x"}',
    b'{"username":"' + b"a" * 65 + b'","password":"x"}',
    b'{"username":"ann","password":"' + b"x" * 1025 + b'"}',
    b'{"username":"ann","password":"' + "ä".encode() * 513 + b'"}',
    b'{"username":"ann","password":' + b"[" * 100_000,
    b"\xff\xfe",
]


async def test_a_malformed_sign_in_is_a_400(running_on_sqlite: RunningApp) -> None:
    async with running_on_sqlite.anonymous() as client:
        for body in MALFORMED:
            answer = await client.post(LOGIN, content=body, headers={"Content-Type": "application/json"})
            problem(answer, 400, "invalid_input")


@pytest.mark.parametrize("password", ["", "x" * 1024, "ä" * 512, "\u0000", "a\u0000b", "😀" * 256])
async def test_any_password_up_to_its_length_is_only_wrong(running_on_sqlite: RunningApp, password: str) -> None:
    await running_on_sqlite.context.accounts.create_user("ann", PASSWORD, UserRole.USER)
    async with running_on_sqlite.anonymous() as client:
        problem(await client.post(LOGIN, json=credentials(password=password)), 401, "wrong_credentials")


async def test_a_form_of_a_foreign_page_is_no_sign_in(running_on_sqlite: RunningApp) -> None:
    async with running_on_sqlite.anonymous() as client:
        answer = await client.post(
            LOGIN, content=b'{"username":"a","password":"b"}', headers={"Content-Type": "text/plain"}
        )
        problem(answer, 415, "unsupported_media_type")


async def test_guessing_is_slowed_down_and_forgotten_after_a_while(running: RunningApp) -> None:
    await running.context.accounts.create_user("ann", PASSWORD, UserRole.USER)
    async with running.anonymous() as client:
        tries = [client.post(LOGIN, json=credentials(password="wrong")) for _ in range(MAX_FAILURES + 3)]
        statuses = [answer.status_code for answer in await asyncio.gather(*tries)]
        assert sorted(statuses) == [401] * MAX_FAILURES + [429] * 3
        refused = await client.post(LOGIN, json=credentials())
        problem(refused, 429, "too_many_requests")
        assert refused.headers["retry-after"] == str(int(WINDOW_S))
        assert (await client.post(LOGIN, json=credentials("bob"))).status_code == 401
        running.clock.advance(WINDOW_S)
        assert (await client.post(LOGIN, json=credentials())).status_code == 200


async def test_the_right_password_clears_the_count(running: RunningApp) -> None:
    await running.context.accounts.create_user("ann", PASSWORD, UserRole.USER)
    async with running.anonymous() as client:
        for _ in range(3):
            for _ in range(MAX_FAILURES - 1):
                await client.post(LOGIN, json=credentials(password="wrong"))
            assert (await client.post(LOGIN, json=credentials())).status_code == 200


@pytest.mark.parametrize("name", ["", "a b", "a\u0000", "a" * 65, "<script>", "a\nb", "ß" * 33])
async def test_a_name_that_cannot_be_one_is_refused(running_on_sqlite: RunningApp, name: str) -> None:
    with pytest.raises(InvalidInput, match="username"):
        await running_on_sqlite.context.accounts.create_user(name, PASSWORD, UserRole.USER)


@pytest.mark.parametrize("password", ["", "x" * 1025])
async def test_a_password_that_nobody_could_use_is_refused(running_on_sqlite: RunningApp, password: str) -> None:
    with pytest.raises(InvalidInput, match="password"):
        await running_on_sqlite.context.accounts.create_user("ann", password, UserRole.USER)


def test_a_canonical_name_stays_as_it_is() -> None:
    assert canonical_username(canonical_username("ÅnnǅStraße")) == canonical_username("ÅnnǅStraße")


async def test_the_admin_is_made_once_however_many_start_at_once(running: RunningApp) -> None:
    admins = await asyncio.gather(*(running.context.accounts.ensure_admin() for _ in range(6)))
    assert {admin.id for admin in admins} == {admins[0].id}
    assert admins[0].role == UserRole.ADMIN
    async with running.anonymous() as client:
        problem(await client.post(LOGIN, json=credentials("admin", "")), 401, "wrong_credentials")
