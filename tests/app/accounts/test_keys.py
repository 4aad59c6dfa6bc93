"""API keys over REST: made, shown once, listed, revoked; and what they may do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import select

from app.accounts import keys
from app.accounts.models import Credential, UserRole
from app.identifiers import new_id
from tests.support.client import RunningApp, problem, running_app

KEYS = "/api/v1/keys"
ME = "/api/v1/me"


async def test_a_key_is_shown_once_and_acts_as_its_owner(running: RunningApp) -> None:
    async with running.signed_in("ann") as ann, running.anonymous() as program:
        made = await ann.post(KEYS, json={"name": "nightly report"})
        assert made.status_code == 201
        assert made.headers["cache-control"] == "no-store"
        body = made.json()
        assert body["key"].startswith("kv_")
        program.headers["Authorization"] = f"Bearer {body['key']}"
        assert (await program.get(ME)).json() == (await ann.get(ME)).json()
        assert (await program.post("/api/v1/conversations", json={"title": "by a key"})).status_code == 201
        (listed,) = (await ann.get(KEYS)).json()["items"]
        assert listed == {**{name: body[name] for name in listed}, "last_used_at": "2026-12-01T12:00:00Z"}
        assert "key" not in listed
        assert body["key"] not in (await ann.get(KEYS)).text
    async with running.context.database.read() as session:
        rows = (await session.scalars(select(Credential))).all()
    stored = {str(getattr(row, column.key)) for row in rows for column in Credential.__mapper__.column_attrs}
    assert body["key"] not in stored


async def test_a_revoked_key_is_known_no_more(running: RunningApp) -> None:
    revoked: list[str] = []
    running.context.accounts.on_revoked(revoked.append)
    async with running.signed_in("ann") as ann, running.anonymous() as program:
        made = (await ann.post(KEYS, json={"name": "bot"})).json()
        program.headers["Authorization"] = f"Bearer {made['key']}"
        assert (await program.delete(f"{KEYS}/{made['id']}")).status_code == 204
        problem(await program.get(ME), 401, "unauthenticated")
        assert revoked == [made["id"]]
        problem(await ann.delete(f"{KEYS}/{made['id']}"), 404, "not_found")
        assert (await ann.get(KEYS)).json()["items"] == []


async def test_a_key_ends_when_its_time_is_over_or_never(running: RunningApp) -> None:
    async with running.signed_in("ann") as ann, running.anonymous() as program:
        for_ever, for_a_day = [
            (await ann.post(KEYS, json={"name": "bot", **more})).json() for more in ({}, {"expires_in_days": 1})
        ]
        assert (for_ever["expires_at"], for_a_day["expires_at"]) == (None, "2026-12-02T12:00:00Z")
        running.clock.advance(86400)
        program.headers["Authorization"] = f"Bearer {for_a_day['key']}"
        problem(await program.get(ME), 401, "unauthenticated")
        running.clock.advance(4000 * 86400)
        await running.context.accounts.purge()
        program.headers["Authorization"] = f"Bearer {for_ever['key']}"
        assert (await program.get(ME)).status_code == 200
        assert [item["id"] for item in (await program.get(KEYS)).json()["items"]] == [for_ever["id"]]


async def test_a_key_gets_tickets_for_sockets_and_they_end_with_it(running: RunningApp) -> None:
    async with running.signed_in("ann") as ann, running.anonymous() as program:
        made = (await ann.post(KEYS, json={"name": "bot"})).json()
        program.headers["Authorization"] = f"Bearer {made['key']}"
        first, second = [(await program.post("/api/v1/auth/tickets")).json()["ticket"] for _ in range(2)]
        identity = await running.context.accounts.redeem_socket_ticket(first)
        assert (identity.key_id, identity.credential_id, identity.expires_at) == (made["id"], made["id"], None)
        await ann.delete(f"{KEYS}/{made['id']}")
        assert not await running.context.accounts.still_holds(identity)
        program.headers.pop("Authorization")
        problem(await program.get(f"/api/v1/me?ticket={second}"), 401, "unauthenticated")


async def test_what_is_about_a_sign_in_is_not_for_a_key(running: RunningApp) -> None:
    async with running.signed_in("ann") as ann, running.anonymous() as program:
        key = (await ann.post(KEYS, json={"name": "bot"})).json()["key"]
        program.headers["Authorization"] = f"Bearer {key}"
        problem(await program.post("/api/v1/auth/logout"), 403, "sign_in_required")
        change = {"current_password": "correct horse", "new_password": "battery staple"}
        problem(await program.post("/api/v1/auth/password", json=change), 403, "sign_in_required")
        assert (await program.get(ME)).status_code == 200


async def test_a_key_is_no_cookie(running: RunningApp) -> None:
    async with running.signed_in("ann") as ann:
        key = (await ann.post(KEYS, json={"name": "bot"})).json()["key"]
    async with running.anonymous(Cookie=f"kvasir_session={key}") as page:
        problem(await page.get(ME), 401, "unauthenticated")


async def test_an_account_has_a_bounded_number_of_keys(running: RunningApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "KEYS_MAX", 3)
    async with running.signed_in("ann") as ann:
        answers = await asyncio.gather(*(ann.post(KEYS, json={"name": f"bot {number}"}) for number in range(5)))
        assert sorted(answer.status_code for answer in answers) == [201] * 3 + [409] * 2
        refused = next(answer for answer in answers if answer.status_code == 409)
        problem(refused, 409, "too_many_keys")
        made = next(answer for answer in answers if answer.status_code == 201)
        await ann.delete(f"{KEYS}/{made.json()['id']}")
        assert (await ann.post(KEYS, json={"name": "another"})).status_code == 201


async def test_pages_of_keys_go_from_the_newest_to_the_oldest(running: RunningApp) -> None:
    async with running.signed_in("ann") as ann:
        for name in "abc":
            running.clock.advance(1)
            await ann.post(KEYS, json={"name": name})
        first = (await ann.get(f"{KEYS}?limit=2")).json()
        second = (await ann.get(KEYS, params={"limit": 2, "cursor": first["next_cursor"]})).json()
        assert [item["name"] for item in first["items"] + second["items"]] == ["c", "b", "a"]
        assert second["next_cursor"] is None


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": " \u200b"},
        {"name": "\x00"},
        {"name": "x" * 101},
        {"name": "bot", "expires_in_days": 0},
        {"name": "bot", "role": "admin"},
    ],
)
async def test_a_key_that_cannot_be_is_refused(running_on_sqlite: RunningApp, body: dict[str, object]) -> None:
    async with running_on_sqlite.signed_in("ann") as ann:
        problem(await ann.post(KEYS, json=body), 400, "invalid_input")


async def test_administrators_see_and_end_everybodys_keys_and_that_is_noted(running: RunningApp) -> None:
    path = "/api/v1/admin/keys"
    async with running.signed_in("ann") as ann, running.signed_in("root", UserRole.ADMIN) as root:
        ann_id = (await ann.get(ME)).json()["id"]
        kept, ended = [(await ann.post(KEYS, json={"name": name})).json() for name in ("kept", "ended")]
        await root.post(KEYS, json={"name": "of root"})
        assert (await root.delete(f"{path}/{ended['id']}")).status_code == 204
        problem(await root.delete(f"{path}/{ended['id']}"), 404, "not_found")
        problem(await root.delete(f"{path}/{new_id()}"), 404, "not_found")
        shown = (await root.get(path, params={"user_id": ann_id})).json()["items"]
        assert {item["name"]: (item["username"], item["revoked_at"]) for item in shown} == {
            "kept": ("ann", None),
            "ended": ("ann", "2026-12-01T12:00:00Z"),
        }
        assert len((await root.get(path)).json()["items"]) == 3
        assert kept["key"] not in (await root.get(path)).text
        (entry,) = (await root.get("/api/v1/admin/audit")).json()["items"]
        assert (entry["action"], entry["target_id"], entry["details"]) == (
            "key.revoke",
            ended["id"],
            {"user_id": ann_id, "name": "ended"},
        )


async def test_when_a_key_was_used_last_outlives_the_process(tmp_path: Path, database_url: str) -> None:
    async with running_app(tmp_path, database_url) as running, running.signed_in("ann") as ann:
        made = (await ann.post(KEYS, json={"name": "bot"})).json()
        ann.headers["Authorization"] = f"Bearer {made['key']}"
        await ann.get(ME)
        used = running.clock.now()
    async with running_app(tmp_path, database_url) as running, running.context.database.read() as session:
        assert (await session.get_one(Credential, made["id"])).last_used_at == used
