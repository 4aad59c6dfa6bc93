"""An account that is deleted is gone with everything that was said in it, and nobody else's is."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select, update

from app.accounts.models import User, UserRole
from engine.types import Namespace
from tests.app.responses.chat import Chat, open_chat
from tests.support.client import PASSWORD, RunningApp, problem
from tests.support.live_server import eventually
from tests.support.scripts import ENDLESS

USERS = "/api/v1/admin/users"
SAID = "the blue heron of Katzenellenbogen stands on one leg"


async def everything_of(chat: Chat) -> list[bytes]:
    """What any file of the server holds, as far as it might say what was said."""
    await chat.context.database.checkpoint()
    folder = chat.context.settings.data
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


async def own_id(chat: Chat) -> str:
    return str((await chat.http.get("/api/v1/me")).json()["id"])


async def names(app: RunningApp) -> set[str]:
    async with app.context.database.read() as session:
        return set((await session.scalars(select(User.username))).all())


async def test_an_administrator_deletes_an_account_with_everything_in_it(tmp_path: Path, database_url: str) -> None:
    async with open_chat(tmp_path, database_url) as chat, chat.running.signed_in("root", UserRole.ADMIN) as root:
        await chat.turn(SAID)
        key = (await chat.http.post("/api/v1/keys", json={"name": "bot"})).json()
        chat.engine.queue_script(ENDLESS)
        await chat.say(f"again: {SAID}")
        await chat.engine.received(2)
        user_id, engine = await own_id(chat), chat.engine
        problem(await chat.http.delete(f"{USERS}/{user_id}"), 403, "forbidden")

        assert (await root.delete(f"{USERS}/{user_id}")).status_code == 204
        await eventually(lambda: not chat.context.deletion)
        problem(await root.get(f"{USERS}/{user_id}"), 404, "not_found")
        problem(await root.delete(f"{USERS}/{user_id}"), 404, "not_found")
        problem(await chat.http.get("/api/v1/me"), 401, "unauthenticated")
        bot = {"Authorization": f"Bearer {key['key']}"}
        problem(await root.get("/api/v1/me", headers=bot), 401, "unauthenticated")
        engine.advance(2)
        snapshot = await engine.snapshot()
        assert [status for status in snapshot.sessions if status.key.namespace == Namespace.user(user_id)] == []
        (act, *_) = (await root.get("/api/v1/admin/audit")).json()["items"]
        assert (act["action"], act["target_id"]) == ("user.delete", user_id)
        usage = (await root.get("/api/v1/admin/usage", params={"group_by": "user"})).json()
        assert user_id in [item["user_id"] for item in usage["items"]]
        assert not any(SAID.encode() in content for content in await everything_of(chat))


async def test_somebody_deletes_their_own_account_with_their_password(tmp_path: Path, sqlite_url: str) -> None:
    async with open_chat(tmp_path, sqlite_url) as chat, chat.running.signed_in("bob") as bob:
        await chat.turn(SAID)
        wrong = await chat.http.post("/api/v1/me/deletion", json={"password": "not this one"})
        problem(wrong, 403, "wrong_password")
        key = (await chat.http.post("/api/v1/keys", json={"name": "bot"})).json()["key"]
        by_key = await bob.post(
            "/api/v1/me/deletion", json={"password": PASSWORD}, headers={"Authorization": f"Bearer {key}"}
        )
        problem(by_key, 403, "sign_in_required")
        before = await names(chat.running)
        assert (await chat.http.post("/api/v1/me/deletion", json={"password": PASSWORD})).status_code == 204
        await eventually(lambda: not chat.context.deletion)
        assert len(before - await names(chat.running)) == 1
        assert (await bob.get("/api/v1/me")).status_code == 200
        assert not any(SAID.encode() in content for content in await everything_of(chat))


async def test_somebody_who_can_administer_is_always_left(tmp_path: Path, sqlite_url: str) -> None:
    async with open_chat(tmp_path, sqlite_url) as chat, chat.running.signed_in("root", UserRole.ADMIN) as root:
        me = (await root.get("/api/v1/me")).json()["id"]
        problem(await root.delete(f"{USERS}/{me}"), 409, "last_administrator")
        problem(await root.post("/api/v1/me/deletion", json={"password": PASSWORD}), 409, "last_administrator")
        admin = await chat.context.accounts.ensure_admin()
        problem(await root.delete(f"{USERS}/{admin.id}"), 409, "fixed_role")
        assert (await root.post("/api/v1/me/deletion", json={"password": PASSWORD})).status_code == 204


@pytest.mark.parametrize("is_begun", [True, False])
async def test_a_deletion_that_a_server_has_begun_is_gone_on_with(
    tmp_path: Path, sqlite_url: str, is_begun: bool
) -> None:
    async with open_chat(tmp_path, sqlite_url) as chat:
        await chat.turn(SAID)
        user_id, now = await own_id(chat), chat.running.clock.now()
        async with chat.context.database.write() as session:
            mark = {"disabled_at": now, "deletion_began_at": now if is_begun else None}
            await session.execute(update(User).where(User.id == user_id).values(mark))
        await chat.context.deletion.finish()
        async with chat.context.database.read() as session:
            left = await session.scalar(select(User.id).where(User.id == user_id))
        assert (left is None) is is_begun
