"""What is signed out is not connected any more: sockets close with 4001 and event streams end, within a second.

open-webui/open-webui#25764, open-webui/open-webui#29695 (case C32).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from app.accounts.models import UserRole
from tests.support.client import PASSWORD
from tests.support.fake_engine import FakeEngine
from tests.support.live_server import LiveServer, Person, eventually, live_server
from tests.support.scripts import ENDLESS

USERS = "/api/v1/admin/users"


@dataclass
class Scene:
    """Ann is signed in twice and has a key; each of the three may be what a socket and a stream were opened with."""

    live: LiveServer
    root: Person
    ann: Person
    ann_id: str
    other_token: str
    key_id: str
    key: str


@asynccontextmanager
async def scene(folder: Path, database_url: str) -> AsyncIterator[Scene]:
    engine = FakeEngine(answer=lambda request: ENDLESS, delay_s=0.01)
    async with (
        live_server(folder, database_url, engine=engine) as live,
        live.person("root", UserRole.ADMIN) as root,
        live.person("ann") as ann,
    ):
        login = {"username": "ann", "password": PASSWORD}
        other = (await ann.http.post("/api/v1/auth/login", json=login)).json()["token"]
        ann.http.cookies.clear()
        key = (await ann.http.post("/api/v1/keys", json={"name": "bot"})).json()
        ann_id = (await ann.http.get("/api/v1/me")).json()["id"]
        yield Scene(live, root, ann, ann_id, other, key["id"], key["key"])
        # The server would let endless answers go on until its drain is over.
        for request in engine.requests:
            engine.cancel(request.request_id)


async def log_out(scene: Scene) -> None:
    await scene.ann.http.post("/api/v1/auth/logout", headers={"Authorization": f"Bearer {scene.other_token}"})


async def end_the_sign_in(scene: Scene) -> None:
    items = (await scene.ann.http.get("/api/v1/auth/sign-ins")).json()["items"]
    other = next(item["id"] for item in items if not item["is_current"])
    assert (await scene.ann.http.delete(f"/api/v1/auth/sign-ins/{other}")).status_code == 204


async def change_the_password(scene: Scene) -> None:
    change = {"current_password": PASSWORD, "new_password": "battery staple"}
    assert (await scene.ann.http.post("/api/v1/auth/password", json=change)).status_code == 204


async def reset_the_password(scene: Scene) -> None:
    reset = {"new_password": "battery staple"}
    assert (await scene.root.http.post(f"{USERS}/{scene.ann_id}/password", json=reset)).status_code == 204


async def disable(scene: Scene) -> None:
    assert (await scene.root.http.patch(f"{USERS}/{scene.ann_id}", json={"disabled": True})).status_code == 200


async def change_the_role(scene: Scene) -> None:
    assert (await scene.root.http.patch(f"{USERS}/{scene.ann_id}", json={"role": "agent"})).status_code == 200


async def revoke_the_key(scene: Scene) -> None:
    assert (await scene.ann.http.delete(f"/api/v1/keys/{scene.key_id}")).status_code == 204


async def revoke_the_key_as_an_administrator(scene: Scene) -> None:
    assert (await scene.root.http.delete(f"/api/v1/admin/keys/{scene.key_id}")).status_code == 204


ACTS: list[tuple[Callable[[Scene], Awaitable[None]], set[str]]] = [
    (log_out, {"other"}),
    (end_the_sign_in, {"other"}),
    (change_the_password, {"other"}),
    (reset_the_password, {"own", "other"}),
    (disable, {"own", "other", "key"}),
    (change_the_role, {"own", "other", "key"}),
    (revoke_the_key, {"key"}),
    (revoke_the_key_as_an_administrator, {"key"}),
]


@pytest.mark.parametrize(("act", "closed"), ACTS, ids=[act.__name__ for act, _ in ACTS])
async def test_what_was_opened_with_it_ends(
    tmp_path: Path, sqlite_url: str, act: Callable[[Scene], Awaitable[None]], closed: set[str]
) -> None:
    async with scene(tmp_path, sqlite_url) as now:
        conversation = await now.ann.conversation()
        response = (await now.ann.say(conversation, "go on for ever"))["response"]["id"]
        tokens = {"own": now.ann.token, "other": now.other_token, "key": now.key}
        people = {name: Person(now.live, now.ann.http, token) for name, token in tokens.items()}
        streams = {name: asyncio.create_task(followed(now.live, response, token)) for name, token in tokens.items()}
        async with people["own"].socket() as own, people["other"].socket() as other, people["key"].socket() as key:
            sockets = {"own": own, "other": other, "key": key}
            await eventually(lambda: now.live.context.hub.sizes()["event_streams"] == 3)
            await act(now)
            began = time.monotonic()
            codes = await asyncio.gather(*(sockets[name].close_code() for name in sorted(closed)))
            ended = await asyncio.gather(*(streams[name] for name in sorted(closed)))
            assert set(codes) == {4001}
            # Without a terminal event, so that no reader takes it for the end of the answer.
            assert all("response.completed" not in text and "response.cancelled" not in text for text in ended)
            assert time.monotonic() - began < 10, "within a second on an idle machine"
            for name in sockets.keys() - closed:
                assert (await sockets[name].ask("ping"))["type"] == "pong"
                assert not streams[name].done()
        for stream in streams.values():
            stream.cancel()
        await asyncio.wait(streams.values())


async def followed(live: LiveServer, response_id: str, token: str) -> str:
    """The event stream of a response, to where it ends."""
    async with httpx.AsyncClient(base_url=live.url, trust_env=False, timeout=60) as client:
        answer = await client.get(
            f"/api/v1/responses/{response_id}/events", headers={"Authorization": f"Bearer {token}"}
        )
        return answer.text


async def test_an_ordinary_refresh_closes_nothing(tmp_path: Path, sqlite_url: str) -> None:
    async with scene(tmp_path, sqlite_url) as now, now.ann.socket() as socket:
        for _ in range(3):
            login = {"username": "ann", "password": PASSWORD}
            assert (await now.ann.http.post("/api/v1/auth/login", json=login)).status_code == 200
            now.ann.http.cookies.clear()
            assert (await now.ann.http.get("/api/v1/me")).status_code == 200
        assert (await socket.ask("ping"))["type"] == "pong"


async def test_what_ends_while_a_socket_is_being_opened_closes_it(
    tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between looking at the token and being told of revocations there is a moment."""
    async with scene(tmp_path, sqlite_url) as now:
        identify = now.live.context.accounts.identify

        async def revoked_right_behind(*arguments: object) -> object:
            identity = await identify(*arguments)  # type: ignore[arg-type]
            if identity.key_id is not None:
                await now.live.context.keys.revoke(identity.user_id, identity.key_id)
            return identity

        monkeypatch.setattr(now.live.context.accounts, "identify", revoked_right_behind)
        async with Person(now.live, now.ann.http, now.key).socket(hello=False) as socket:
            assert await socket.close_code() == 4001
        await eventually(lambda: now.live.context.hub.sizes()["sockets"] == 0)
