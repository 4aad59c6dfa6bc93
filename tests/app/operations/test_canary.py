"""A secret text goes into a real server by every way there is, at the most talkative level; it must be in no line of its log."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
from websockets.sync.client import connect

from tests.support.client import PASSWORD
from tests.support.server_process import FAKE, server_process

CANARY = "the-parrot-is-called-Ferdinand"


def test_no_log_line_holds_what_people_say_or_sign_in_with(tmp_path: Path) -> None:
    options = ("--data", str(tmp_path), "--delay-ms", "1", "--set", "log_level=debug", "--set", "log_format=json")
    with server_process(*FAKE, *options) as server:
        ticket = server.sign_in_link.partition("ticket=")[2]
        secrets = [CANARY, ticket, PASSWORD]
        with httpx.Client(base_url=server.url, trust_env=False, follow_redirects=True) as client:
            client.get(f"/?ticket={ticket}")
            secrets.append(client.cookies["kvasir_session"])
            client.cookies.clear()
            wrong = {"username": CANARY, "password": CANARY}
            assert client.post("/api/v1/auth/login", json=wrong).status_code == 401
            login = {"username": "admin", "password": PASSWORD}
            token = client.post("/api/v1/auth/login", json=login).json()["token"]
            secrets.append(token)
            client.cookies.clear()
            client.headers["Authorization"] = f"Bearer {token}"
            client.headers["X-Note"] = CANARY
            made = client.post("/api/v1/conversations", json={"title": CANARY, "metadata": {"note": CANARY}})
            conversation = made.json()["id"]
            said = client.post(f"/api/v1/conversations/{conversation}/messages", json={"content": CANARY})
            response = said.json()["response"]["id"]
            assert CANARY in client.get(f"/api/v1/responses/{response}/events?after=0").text
            assert CANARY in client.get(f"/api/v1/conversations/{conversation}/export?format=markdown").text
            client.get(f"/api/v1/conversations?limit={CANARY}")
            client.post("/api/v1/conversations", content=f'{{"title": "{CANARY}", ')
            client.post("/api/v1/conversations", json={CANARY: CANARY})
            key = client.post("/api/v1/keys", json={"name": CANARY}).json()["key"]
            secrets += [key, PASSWORD[::-1]]
            assert client.get("/api/v1/me", headers={"Authorization": f"Bearer {key}"}).status_code == 200
            account = {"username": "bea", "password": PASSWORD[::-1]}
            user = client.post("/api/v1/admin/users", json=account).json()["id"]
            client.post(f"/api/v1/admin/users/{user}/password", json={"new_password": PASSWORD[::-1]})
            client.post("/api/v1/auth/password", json={"current_password": CANARY, "new_password": CANARY})
            client.get(f"/api/v1/admin/conversations/{conversation}/messages")
            client.get(f"/oidc/callback?code={CANARY}&state={CANARY}")
            socket_ticket = client.post("/api/v1/auth/tickets").json()["ticket"]
            secrets.append(socket_ticket)
        address = f"{server.url.replace('http', 'ws')}/ws?ticket={socket_ticket}"
        with connect(address, additional_headers={"X-Note": CANARY}, proxy=None) as socket:
            for frame in (
                {"type": "session.hello", "data": {}},
                {"type": CANARY, "data": {}},
                {"type": "message.create", "data": {"content": CANARY, CANARY: CANARY}},
                {"type": "message.create", "data": {"conversation_id": conversation, "content": CANARY}},
            ):
                socket.send(json.dumps(frame))
            socket.send("{" + CANARY)
            for text in socket:
                if json.loads(text)["type"] == "response.completed":
                    break
        assert server.stop() == 0
        events = [json.loads(line)["event"] for line in server.errors]
        assert events.count("request") >= 12
        assert "socket" in events
        lines = server.errors + [line for line in server.output if not line.startswith("Sign in: ")]
        assert [line for line in lines for secret in secrets if secret in line] == []
