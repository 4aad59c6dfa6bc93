"""One person in one conversation, talking to an application without a port. For tests of turns and answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from app.context import AppContext
from tests.support.client import PASSWORD, RunningApp, running_app
from tests.support.fake_engine import FakeEngine

Body = dict[str, Any]


@dataclass
class Chat:
    """A signed-in person, their conversation, and the engine in the test's hand."""

    running: RunningApp
    http: httpx.AsyncClient
    id: str

    @property
    def engine(self) -> FakeEngine:
        assert isinstance(self.running.engine, FakeEngine)
        return self.running.engine

    @property
    def context(self) -> AppContext:
        return self.running.context

    async def post(self, path: str, body: Body, **headers: str) -> httpx.Response:
        return await self.http.post(f"/api/v1/{path}", json=body, headers=headers)

    async def try_to_say(self, content: str, **more: Any) -> httpx.Response:
        return await self.post(f"conversations/{self.id}/messages", {"content": content, **more})

    async def say(self, content: str, **more: Any) -> Body:
        """Send a message; the 202 body."""
        answer = await self.try_to_say(content, **more)
        assert answer.status_code == 202, answer.text
        body: Body = answer.json()
        return body

    async def regenerate(self, parent_id: str, **more: Any) -> Body:
        answer = await self.post(f"conversations/{self.id}/responses", {"parent_id": parent_id, **more})
        assert answer.status_code == 202, answer.text
        body: Body = answer.json()
        return body

    async def response(self, response_id: str) -> Body:
        answer = await self.http.get(f"/api/v1/responses/{response_id}")
        assert answer.status_code == 200, answer.text
        body: Body = answer.json()
        return body

    async def cancel(self, response_id: str) -> Body:
        answer = await self.http.post(f"/api/v1/responses/{response_id}/cancel")
        assert answer.status_code == 200, answer.text
        body: Body = answer.json()
        return body

    async def messages(self, **query: str) -> list[Body]:
        """The newest branch, oldest first."""
        answer = await self.http.get(f"/api/v1/conversations/{self.id}/messages", params=query)
        assert answer.status_code == 200, answer.text
        return list(reversed(answer.json()["items"]))

    async def events(self, response_id: str, after: int = 0) -> list[Body]:
        """The log of an ended response."""
        answer = await self.http.get(f"/api/v1/responses/{response_id}/events", params={"after": after})
        assert answer.status_code in (200, 204), answer.text
        return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]

    async def ended(self, response_id: str) -> Body:
        """Let the engine work until this response has its end; its state then."""
        while (answer := self.context.responses.dispatcher.answer(response_id)) is not None:
            self.engine.advance()
            try:
                async with asyncio.timeout(0.01):
                    await answer.ended.wait()
            except TimeoutError:
                continue
        return await self.response(response_id)

    async def turn(self, content: str, **more: Any) -> Body:
        """Say something and wait for the whole answer; the answer's message."""
        body = await self.say(content, **more)
        await self.ended(body["response"]["id"])
        return (await self.messages(leaf=body["response"]["message_id"]))[-1]

    async def shown(self, response_id: str, text: str) -> None:
        """Let the engine step until this much of a running answer is visible, and no more."""
        log = self.context.hub.log(response_id)
        assert log is not None
        async with asyncio.timeout(20):
            while (seen := log.snapshot().text) != text:
                assert text.startswith(seen), f"expected {text!r} on the way, saw {seen!r}"
                self.engine.advance()
                while log.last_seq < log.staged_seq:  # noqa: ASYNC110 - the journal is a thread
                    await asyncio.sleep(0.001)


@asynccontextmanager
async def open_chat(
    data: Path, database_url: str, *, username: str = "ann", is_new: bool = True, **options: Any
) -> AsyncIterator[Chat]:
    """An application, somebody signed in to it, and a conversation of theirs."""
    options = {"delta_window_ms": 0, **options}
    async with running_app(data, database_url, **options) as running:
        if is_new:
            async with running.signed_in(username) as client:
                yield await _begin(running, client)
        else:
            async with running.anonymous() as client:
                credentials = {"username": username, "password": PASSWORD}
                answer = await client.post("/api/v1/auth/login", json=credentials)
                client.cookies.clear()
                client.headers["Authorization"] = f"Bearer {answer.json()['token']}"
                yield await _begin(running, client)


async def _begin(running: RunningApp, client: httpx.AsyncClient) -> Chat:
    answer = await client.post("/api/v1/conversations", json={})
    assert answer.status_code == 201, answer.text
    return Chat(running, client, answer.json()["id"])


def said(turns: Any) -> list[tuple[str, str]]:
    """What a request to the engine says, as (role, text)."""
    return [(str(turn.role), turn.text) for turn in turns]
