"""May an administrator read what people say? A setting says, and every reading is noted (case C37)."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from app.accounts.models import UserRole
from app.identifiers import new_id
from tests.app.test_isolation import ADMIN, CANARY, asked, routes, things_of
from tests.support.client import RunningApp, problem, running_app


def paths(ids: dict[str, str]) -> list[str]:
    conversation = f"/api/v1/admin/conversations/{ids['conversation_id']}"
    return [f"/api/v1/admin/users/{ids['user_id']}/conversations", f"{conversation}/messages", f"{conversation}/export"]


async def audited(root: httpx.AsyncClient) -> list[tuple[str, str, str]]:
    entries = (await root.get("/api/v1/admin/audit")).json()["items"]
    return sorted((entry["action"], entry["target_id"], entry["details"]["user_id"]) for entry in entries)


async def test_as_it_comes_no_administrator_reads_what_people_say(running: RunningApp) -> None:
    """Every route that there is, asked by an administrator about Ann's things, and the metrics."""
    async with running.signed_in("ann") as ann, running.signed_in("root", UserRole.ADMIN) as root:
        ids = await things_of(ann)
        # What a key is called is no message, and administrators have to see it.
        await ann.delete(f"/api/v1/keys/{ids['key_id']}")
        asked_for = 0
        for method, path in routes(running.app):
            if method == "GET" and not path.endswith("/events"):
                answer = await asked(root, method, path, ids)
                names = re.findall(r"\{(\w+):str\}", path)
                if names and not path.startswith(ADMIN) and "persona_name" not in names:
                    problem(answer, 404, "not_found")
                said = answer.text if path != "/api/v1/admin/keys" else ""
                assert CANARY not in said, path
                asked_for += 1
        assert asked_for > 12
        assert CANARY not in (await root.get("/metrics")).text
        for path in paths(ids):
            problem(await root.get(path), 403, "admin_reading_off")
            problem(await root.get(re.sub(r"[0-9a-f-]{36}", new_id(), path)), 403, "admin_reading_off")


async def test_where_it_is_allowed_every_reading_is_noted(tmp_path: Path, database_url: str) -> None:
    async with (
        running_app(tmp_path, database_url, admin_reads_messages=True) as running,
        running.signed_in("ann") as ann,
        running.signed_in("root", UserRole.ADMIN) as root,
    ):
        ids = await things_of(ann)
        for path in paths(ids):
            assert CANARY in (await root.get(path)).text
        assert await audited(root) == [
            ("conversation.export", ids["conversation_id"], ids["user_id"]),
            ("conversation.list", ids["user_id"], ids["user_id"]),
            ("conversation.read", ids["conversation_id"], ids["user_id"]),
        ]
        await root.get(paths(ids)[1])
        assert len(await audited(root)) == 4
        assert CANARY not in (await root.get("/api/v1/admin/audit")).text
        for path in paths({name: new_id() for name in ids}) + paths(dict.fromkeys(ids, "nobody")):
            problem(await root.get(path), 404, "not_found")
        assert len(await audited(root)) == 4, "what is not there was not read"


@pytest.mark.parametrize("role", [UserRole.USER, UserRole.AGENT])
async def test_nobody_else_reads_even_then(tmp_path: Path, sqlite_url: str, role: UserRole) -> None:
    async with (
        running_app(tmp_path, sqlite_url, admin_reads_messages=True) as running,
        running.signed_in("ann") as ann,
        running.signed_in("bob", role) as bob,
    ):
        for path in paths(await things_of(ann)):
            problem(await bob.get(path), 403, "forbidden")


async def test_a_reading_that_cannot_be_noted_does_not_happen(
    tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        running_app(tmp_path, sqlite_url, admin_reads_messages=True) as running,
        running.signed_in("ann") as ann,
        running.signed_in("root", UserRole.ADMIN) as root,
    ):
        ids = await things_of(ann)

        def full(*arguments: object, **details: object) -> None:
            raise OSError("the disk is full")

        monkeypatch.setattr(running.context.audit, "record", full)
        for path in paths(ids):
            answer = await root.get(path)
            problem(answer, 500, "internal_error")
            assert CANARY not in answer.text
