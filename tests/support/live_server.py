"""A real uvicorn server on a free loopback port, in the test's own event loop, with the engine the test holds in its hand."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from app.accounts.models import UserRole
from app.context import AppContext
from app.operations.tracing import Tracing
from app.realtime.protocol import TERMINAL_TYPES
from app.server import Server
from app.settings import Settings
from tests.support.applications import application
from tests.support.client import PASSWORD, quick_passwords
from tests.support.described_frames import require_described
from tests.support.fake_engine import FakeEngine

PATIENCE_S = 20
"""How long a test waits for something that must happen. Generous, because tests share their machine."""

Frame = dict[str, Any]


@dataclass
class Socket:
    """A client of `/ws` that notes every frame it gets."""

    connection: ClientConnection
    frames: list[Frame] = field(default_factory=list)
    _ids: Any = field(default_factory=lambda: itertools.count(1))

    async def send(self, kind: str, _id: Any = None, **data: Any) -> Any:
        """Send a frame; the id it went with."""
        frame_id = f"f{next(self._ids)}" if _id is None else _id
        await self.connection.send(json.dumps({"type": kind, "id": frame_id, "data": data}))
        return frame_id

    async def receive(self) -> Frame:
        """The next frame."""
        async with asyncio.timeout(PATIENCE_S):
            text = await self.connection.recv()
        require_described(text)
        frame: Frame = json.loads(text)
        self.frames.append(frame)
        return frame

    async def until(self, wanted: Callable[[Frame], bool]) -> Frame:
        """The next frame that is wanted; those before it are noted."""
        while not wanted(frame := await self.receive()):
            pass
        return frame

    async def reply(self, frame_id: Any) -> Frame:
        """The answer to a frame."""
        return await self.until(lambda frame: frame.get("reply_to") == frame_id)

    async def ask(self, kind: str, **data: Any) -> Frame:
        """Send a frame and return its answer."""
        return await self.reply(await self.send(kind, **data))

    async def hello(self, resume: list[tuple[str, int]] | None = None) -> Frame:
        """Say hello; `resume` are responses with the last seq that is known of them."""
        points = [{"response_id": response_id, "last_seq": seq} for response_id, seq in resume or []]
        ready = await self.ask("session.hello", protocol=1, resume=points)
        assert ready["type"] == "session.ready", ready
        return ready

    async def say(self, conversation_id: str, content: str, **more: Any) -> Frame:
        """Send a message; its acknowledgement's data."""
        created = await self.ask("message.create", conversation_id=conversation_id, content=content, **more)
        assert created["type"] == "message.created", created
        data: Frame = created["data"]
        return data

    async def end_of(self, response_id: str) -> Frame:
        """The terminal frame of a response."""
        for frame in self.log(response_id):
            if frame["type"] in TERMINAL_TYPES:
                return frame
        return await self.until(
            lambda frame: frame.get("response_id") == response_id and frame["type"] in TERMINAL_TYPES
        )

    async def text_arrives(self, response_id: str, count: int = 1) -> None:
        """Wait for so many deltas of a response."""
        while sum(frame["type"] == DELTA for frame in self.log(response_id)) < count:
            await self.receive()

    async def drain(self) -> list[Frame]:
        """Everything that is on its way: a ping is answered behind it."""
        await self.ask("ping")
        return self.frames

    async def close_code(self) -> int | None:
        """Read to the end; the code the server closed with."""
        try:
            while True:
                await self.receive()
        except ConnectionClosed:
            return self.connection.close_code

    def log(self, response_id: str) -> list[Frame]:
        """The frames of a response that came, in the order in which they came."""
        return [frame for frame in self.frames if frame.get("response_id") == response_id and "seq" in frame]


DELTA = "response.output_text.delta"


def text_of(frames: list[Frame]) -> str:
    """The joined deltas."""
    return "".join(frame["data"]["text"] for frame in frames if frame["type"] == DELTA)


def require_whole_log(frames: list[Frame]) -> None:
    """A log from its first frame to its last: 1, 2, 3 …, and nothing behind the terminal frame."""
    assert [frame["seq"] for frame in frames] == list(range(1, len(frames) + 1))
    assert [frame["type"] in TERMINAL_TYPES for frame in frames] == [False] * (len(frames) - 1) + [True]


@dataclass
class Person:
    """Somebody who is signed in."""

    server: LiveServer
    http: httpx.AsyncClient
    token: str

    @asynccontextmanager
    async def socket(self, *, hello: bool = True, **options: Any) -> AsyncIterator[Socket]:
        """An open socket; it has greeted unless the test wants to do that itself."""
        headers = {"Authorization": f"Bearer {self.token}"}
        async with self.server.connect(additional_headers=headers, **options) as socket:
            if hello:
                await socket.hello()
            yield socket

    async def conversation(self, **fields: Any) -> str:
        """A new conversation's id."""
        answer = await self.http.post("/api/v1/conversations", json=fields)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def say(self, conversation_id: str, content: str, **more: Any) -> dict[str, Any]:
        """Send a message over REST; the 202 body."""
        answer = await self.http.post(
            f"/api/v1/conversations/{conversation_id}/messages", json={"content": content, **more}
        )
        assert answer.status_code == 202, answer.text
        body: dict[str, Any] = answer.json()
        return body

    async def messages(self, conversation_id: str, **query: Any) -> list[dict[str, Any]]:
        """The newest branch, oldest first."""
        answer = await self.http.get(f"/api/v1/conversations/{conversation_id}/messages", params=query)
        assert answer.status_code == 200, answer.text
        return list(reversed(answer.json()["items"]))

    async def response(self, response_id: str) -> dict[str, Any]:
        """The state of a response."""
        answer = await self.http.get(f"/api/v1/responses/{response_id}")
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body

    async def events(self, response_id: str, after: int = 0) -> list[Frame]:
        """The SSE log of a response, to its end."""
        answer = await self.http.get(f"/api/v1/responses/{response_id}/events", params={"after": after})
        assert answer.status_code in (200, 204), answer.text
        lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
        for line in lines:
            require_described(line)
        return [json.loads(line) for line in lines]


@dataclass
class LiveServer:
    """A server that takes connections."""

    server: Server
    context: AppContext
    engine: FakeEngine
    url: str

    @property
    def socket_url(self) -> str:
        return self.url.replace("http", "ws") + "/ws"

    @asynccontextmanager
    async def connect(self, query: str = "", **options: Any) -> AsyncIterator[Socket]:
        """An open socket of nobody in particular."""
        options = {"proxy": None, "compression": None, **options}
        async with connect(self.socket_url + query, **options) as connection:
            yield Socket(connection)

    @asynccontextmanager
    async def person(self, username: str, role: UserRole = UserRole.USER) -> AsyncIterator[Person]:
        """An account, signed in."""
        await self.context.accounts.create_user(username, PASSWORD, role)
        async with httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=PATIENCE_S) as client:
            answer = await client.post("/api/v1/auth/login", json={"username": username, "password": PASSWORD})
            assert answer.status_code == 200, answer.text
            client.cookies.clear()
            token = answer.json()["token"]
            client.headers["Authorization"] = f"Bearer {token}"
            yield Person(self, client, token)


@asynccontextmanager
async def live_server(
    data: Path,
    database_url: str = "",
    *,
    engine: FakeEngine | None = None,
    tracing: Tracing | None = None,
    **settings: Any,
) -> AsyncIterator[LiveServer]:
    """A server whose engine answers by itself, a piece every millisecond, unless the test brings another."""
    engine = engine or FakeEngine(delay_s=0.001)
    passwords = quick_passwords()
    chosen = Settings(data=data, database_url=database_url, port=0, **{"titles": "message", **settings})
    try:
        with application(chosen, engine, passwords=passwords, tracing=tracing) as app:
            server = Server(app, chosen)
            serving = asyncio.create_task(server.serve())
            try:
                await eventually(lambda: server.started or serving.done())
                if serving.done():
                    serving.result()
                port = server.servers[0].sockets[0].getsockname()[1]
                yield LiveServer(server, app.state.context, engine, f"http://127.0.0.1:{port}")
            finally:
                server.should_exit = True
                await serving
    finally:
        passwords.close()


async def eventually(happened: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    """Wait until something is so that nobody announces."""
    async with asyncio.timeout(timeout_s):
        while not happened():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)


async def eventually_equal(read: Callable[[], Awaitable[Any]], wanted: Any) -> None:
    """Wait until something that is asked for has a value."""
    async with asyncio.timeout(PATIENCE_S):
        while await read() != wanted:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.005)
