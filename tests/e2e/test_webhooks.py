"""Webhooks of a real server that is killed in between: each event reaches its endpoint, by id exactly once."""

from __future__ import annotations

import json
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from tests.support.client import PASSWORD
from tests.support.server_process import FAKE, ServerProcess, server_process

FAILURES = 3
PATIENCE_S = 120
OPTIONS = ("--delay-ms", "0", "--words", "3", "--set", "webhook_private_networks=127.0.0.1/32")
RETRY = ("--set", "webhook_retry_s=0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1")


class Receiver:
    """An endpoint that verifies, fails at each event so often, and takes it then. While `holds` is set it answers nobody."""

    def __init__(self) -> None:
        self.tries: Counter[str] = Counter()
        self.taken: dict[str, dict[str, Any]] = {}
        self.order: list[str] = []
        self.secret = ""
        self.wrong: list[str] = []
        self.holds = threading.Event()
        self.held = threading.Event()
        self.released = threading.Event()
        self._changed = threading.Condition()

    def status_for(self, headers: dict[str, str], body: bytes) -> int:
        try:
            Webhook(self.secret).verify(body, headers)
        except Exception as problem:
            self.wrong.append(repr(problem))
        event_id = headers["webhook-id"]
        if self.holds.is_set():
            self.held.set()
            self.released.wait(PATIENCE_S)
        with self._changed:
            self.tries[event_id] += 1
            if self.tries[event_id] <= FAILURES:
                return 503
            if event_id not in self.taken:
                self.taken[event_id] = json.loads(body)
                self.order.append(event_id)
            self._changed.notify_all()
            return 204

    def wait_for(self, kinds: Counter[str]) -> None:
        """Until so many of each type were taken."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.kinds() >= kinds, PATIENCE_S), self.kinds()

    def kinds(self) -> Counter[str]:
        return Counter(event["type"] for event in self.taken.values())


@pytest.fixture
def receiver() -> Iterator[tuple[Receiver, str]]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = receiver.status_for({name.lower(): value for name, value in self.headers.items()}, body)
            try:
                self.send_response(status)
                self.end_headers()
            except OSError:
                # Whoever asked was killed meanwhile.
                self.close_connection = True

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing of it is for a terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield receiver, f"http://127.0.0.1:{server.server_address[1]}/hook"
    receiver.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def signed_in(server: ServerProcess) -> Iterator[httpx.Client]:
    server.wait_ready(60)
    with httpx.Client(base_url=f"{server.url}/api/v1", trust_env=False, timeout=60) as client:
        login = client.post("/auth/login", json={"username": "admin", "password": PASSWORD})
        client.cookies.clear()
        client.headers["Authorization"] = f"Bearer {login.json()['token']}"
        yield client


def turn(client: httpx.Client, conversation_id: str, text: str) -> None:
    said = client.post(f"/conversations/{conversation_id}/messages", json={"content": text}).json()
    client.get(f"/responses/{said['response']['id']}/events").raise_for_status()


@pytest.mark.slow
def test_an_endpoint_that_fails_and_a_server_that_is_killed_lose_and_repeat_nothing(
    tmp_path: Path, receiver: tuple[Receiver, str]
) -> None:
    endpoint, url = receiver
    arguments = ("--data", str(tmp_path), *OPTIONS, *RETRY)
    with server_process(*FAKE, *arguments) as server, signed_in(server) as client:
        made = client.post("/webhooks", json={"url": url})
        assert made.status_code == 201, made.text
        endpoint.secret = made.json()["secret"]
        conversation = client.post("/conversations", json={"external_id": "crm-7"}).json()["id"]
        turn(client, conversation, "one")
        endpoint.wait_for(Counter({"conversation.created": 1, "message.created": 1, "response.completed": 1}))
        # From here on it is killed with an event in mid-air, and others behind it.
        endpoint.holds.set()
        turn(client, conversation, "two")
        assert endpoint.held.wait(PATIENCE_S)
        turn(client, conversation, "three")
        server.stop(signal.SIGKILL)
    endpoint.holds.clear()
    with server_process(*FAKE, *arguments) as server, signed_in(server) as client:
        endpoint.released.set()
        client.post(f"/conversations/{conversation}/handoff", json={}).raise_for_status()
        expected = Counter(
            {
                "conversation.created": 1,
                "message.created": 3,
                "response.completed": 3,
                "conversation.status_changed": 1,
                "handoff.requested": 1,
            }
        )
        endpoint.wait_for(expected)
        (hook,) = client.get("/webhooks").json()["items"]
        deliveries = client.get(f"/webhooks/{hook['id']}/deliveries").json()["items"]
    assert endpoint.wrong == []
    assert endpoint.kinds() == expected
    assert len(endpoint.order) == len(set(endpoint.order)) == 9
    said = [
        endpoint.taken[each]["data"]["message"]["content"]
        for each in endpoint.order
        if "message" in endpoint.taken[each]["data"]
    ]
    assert said[::2] == ["one", "two", "three"]
    assert min(endpoint.tries.values()) == FAILURES + 1
    assert {delivery["event_id"] for delivery in deliveries} == set(endpoint.order)
