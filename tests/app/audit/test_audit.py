"""The audit log: written with the act, read by administrators, removed by nobody."""

from __future__ import annotations

from datetime import timedelta

import pytest
from litestar.routes import HTTPRoute

from app.accounts.identity import CredentialSource, Identity
from app.accounts.models import UserRole
from app.audit.service import COMMAND_LINE
from app.identifiers import UserId, new_id
from tests.support.client import RunningApp, problem

PATH = "/api/v1/admin/audit"


def actor(running: RunningApp, username: str = "root", key_id: str | None = None) -> Identity:
    expires_at = running.clock.now() + timedelta(hours=1)
    return Identity(
        UserId(new_id()), username, UserRole.ADMIN, new_id(), expires_at, CredentialSource.BEARER, key_id=key_id
    )


async def written(running: RunningApp, who: Identity | None, action: str, target_id: str | None = None) -> None:
    async with running.context.database.write() as session:
        running.context.audit.record(session, who, action, target_id, reason="because")


async def test_an_entry_says_who_did_what_to_whom_and_when(running: RunningApp) -> None:
    who = actor(running, key_id=new_id())
    await written(running, who, "user.disable", "somebody")
    async with running.signed_in("admin", UserRole.ADMIN) as admin:
        (entry,) = (await admin.get(PATH)).json()["items"]
    assert entry["actor"] == {"id": who.user_id, "username": "root", "key_id": who.key_id}
    assert (entry["action"], entry["target_id"], entry["details"]) == (
        "user.disable",
        "somebody",
        {"reason": "because"},
    )
    assert entry["created_at"] == "2026-12-01T12:00:00Z"


async def test_an_act_that_fails_leaves_no_entry(running: RunningApp) -> None:
    async def fail() -> None:
        async with running.context.database.write() as session:
            running.context.audit.record(session, None, "user.disable", "somebody")
            raise RuntimeError("the act failed")

    with pytest.raises(RuntimeError):
        await fail()
    assert (await running.context.audit.page(limit=10, cursor=None)).items == []


async def test_the_command_line_is_somebody_too(running: RunningApp) -> None:
    await written(running, None, "user.create")
    (entry,) = (await running.context.audit.page(limit=10, cursor=None)).items
    assert (entry.actor.id, entry.actor.username) == (None, COMMAND_LINE)


async def test_pages_go_from_the_newest_to_the_oldest_and_can_be_narrowed(running: RunningApp) -> None:
    ann, bob = actor(running, "ann"), actor(running, "bob")
    for number in range(5):
        running.clock.advance(number % 2)
        await written(running, ann if number % 2 else bob, f"user.act_{'abcde'[number]}", f"target {number // 2}")
    async with running.signed_in("admin", UserRole.ADMIN) as admin:

        async def actions(**query: str) -> list[str]:
            found: list[str] = []
            cursor: str | None = None
            while True:
                page = (
                    await admin.get(PATH, params={"limit": 2, **query, **({"cursor": cursor} if cursor else {})})
                ).json()
                found += [item["action"][-1] for item in page["items"]]
                if (cursor := page["next_cursor"]) is None:
                    return found

        everything = await actions()
        assert sorted(everything) == list("abcde")
        assert everything[-1] == "a"
        assert set(everything[:2]) == {"d", "e"}
        assert sorted(await actions(actor_id=ann.user_id)) == ["b", "d"]
        assert await actions(action="user.act_c") == ["c"]
        assert sorted(await actions(target_id="target 1")) == ["c", "d"]
        assert await actions(actor_id=ann.user_id, target_id="target 0") == ["b"]
        problem(await admin.get(PATH, params={"cursor": "nonsense"}), 400, "invalid_cursor")
        problem(await admin.get(PATH, params={"action": "\x00"}), 400, "invalid_input")


@pytest.mark.parametrize("role", [UserRole.USER, UserRole.AGENT])
async def test_only_administrators_read_it(running_on_sqlite: RunningApp, role: UserRole) -> None:
    async with running_on_sqlite.signed_in("ann", role) as ann:
        problem(await ann.get(PATH), 403, "forbidden")


async def test_no_route_changes_or_removes_an_entry(running_on_sqlite: RunningApp) -> None:
    """open-webui/open-webui#12448: each reading leaves a row that the administrator cannot delete."""
    methods = {
        method
        for route in running_on_sqlite.app.routes
        if isinstance(route, HTTPRoute) and route.path.startswith(PATH)
        for method in route.methods
    }
    assert methods == {"GET", "OPTIONS"}


@pytest.mark.parametrize("action", ["disable", "User.Disable", "user.disable twice", f"user.{'x' * 64}", ""])
async def test_an_action_is_a_noun_and_a_verb(running_on_sqlite: RunningApp, action: str) -> None:
    with pytest.raises(ValueError, match="an action like"):
        await written(running_on_sqlite, None, action)
