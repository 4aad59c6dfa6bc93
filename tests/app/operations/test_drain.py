"""The drain switch: no new answers, running ones finish, and back."""

from __future__ import annotations

from pathlib import Path

from app.accounts.models import UserRole
from tests.app.responses.chat import open_chat
from tests.support.client import problem

PATH = "/api/v1/admin/drain"


async def test_a_drained_server_finishes_what_runs_takes_nothing_new_and_comes_back(
    tmp_path: Path, sqlite_url: str
) -> None:
    async with open_chat(tmp_path, sqlite_url) as chat, chat.running.signed_in("root", UserRole.ADMIN) as admin:
        conversation = (await chat.http.post("/api/v1/conversations", json={})).json()
        messages = f"/api/v1/conversations/{conversation['id']}/messages"
        begun = await chat.http.post(messages, json={"content": "said before"})
        await chat.engine.received(1)

        drained = (await admin.post(PATH)).json()
        assert (drained["is_drained"], drained["is_ending"], drained["by"], drained["answers"]) == (
            True,
            False,
            "root",
            1,
        )
        assert (await admin.post(PATH)).json() == drained, "asked twice it is the same"
        assert (await admin.get("/api/v1/admin/stats")).json()["is_drained"] is True
        ready = await chat.http.get("/readyz")
        assert problem(ready, 503, "unavailable")["reasons"] == ["an administrator has drained this server"]
        refused = await chat.http.post(messages, json={"content": "said while drained"})
        problem(refused, 503, "draining")
        assert refused.headers["retry-after"] == "30"
        assert (await chat.http.get(messages)).status_code == 200, "what is stored can be read"

        chat.engine.advance_to_end()
        await chat.context.responses.dispatcher.drain(30)
        ended = (await chat.http.get(f"/api/v1/responses/{begun.json()['response']['id']}")).json()
        assert ended["status"] == "completed"
        assert (await admin.get(PATH)).json()["answers"] == 0

        # Acts of one moment have no order.
        chat.running.clock.advance(1)
        back = (await admin.delete(PATH)).json()
        assert (back["is_drained"], back["since"], back["by"]) == (False, None, None)
        assert (await admin.delete(PATH)).json() == back
        assert (await chat.http.get("/readyz")).status_code == 200
        assert (await chat.http.post(messages, json={"content": "said after"})).status_code == 202
        acts = [entry["action"] for entry in (await admin.get("/api/v1/admin/audit")).json()["items"]]
        assert acts == ["server.undrain", "server.drain"]


async def test_only_administrators_drain(tmp_path: Path, sqlite_url: str) -> None:
    async with open_chat(tmp_path, sqlite_url) as chat, chat.running.signed_in("helper", UserRole.AGENT) as agent:
        for client in (chat.http, agent):
            for method in ("GET", "POST", "DELETE"):
                problem(await client.request(method, PATH), 403, "forbidden")
        assert (await chat.http.get("/readyz")).status_code == 200
