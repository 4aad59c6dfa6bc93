"""The application in the test's own event loop, and clients of it. No server and no port: see `tests/e2e` for those."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from argon2 import PasswordHasher
from litestar import Litestar

from app.accounts.models import UserRole
from app.accounts.passwords import Passwords
from app.context import AppContext
from app.operations.tracing import Tracing
from app.settings import Settings
from engine.client import EngineClient
from tests.support.applications import application
from tests.support.clock import SteppedClock
from tests.support.fake_engine import FakeEngine

PASSWORD = "correct horse"
BASE_URL = "http://kvasir.test"


def quick_passwords() -> Passwords:
    """Hashes that cost nothing, for tests that are not about hashing."""
    return Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


@dataclass
class RunningApp:
    """One application whose lifespan has begun."""

    app: Litestar
    engine: EngineClient
    clock: SteppedClock

    @property
    def context(self) -> AppContext:
        context: AppContext = self.app.state.context
        return context

    @asynccontextmanager
    async def anonymous(self, *, client: str = "192.0.2.1", **headers: str) -> AsyncIterator[httpx.AsyncClient]:
        """A client at that address that is not signed in."""
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=(client, 50000))
        async with httpx.AsyncClient(transport=transport, base_url=BASE_URL, headers=headers) as page:
            yield page

    @asynccontextmanager
    async def signed_in(self, username: str, role: UserRole = UserRole.USER) -> AsyncIterator[httpx.AsyncClient]:
        """A client with a bearer token, of an account that is made for it."""
        await self.context.accounts.create_user(username, PASSWORD, role)
        async with self.anonymous() as client:
            answer = await client.post("/api/v1/auth/login", json={"username": username, "password": PASSWORD})
            assert answer.status_code == 200, answer.text
            client.cookies.clear()
            client.headers["Authorization"] = f"Bearer {answer.json()['token']}"
            yield client


@asynccontextmanager
async def running_app(
    data: Path,
    database_url: str,
    *,
    engine: EngineClient | None = None,
    clock: SteppedClock | None = None,
    web_folder: Path | None = None,
    tracing: Tracing | None = None,
    origins: Mapping[str, str] | None = None,
    **settings: Any,
) -> AsyncIterator[RunningApp]:
    """An application on this database, without pages unless a folder is given. `settings` replace the defaults; the engine is
    asked for answers only, and not for titles."""
    engine = engine or FakeEngine()
    clock = clock or SteppedClock()
    passwords = quick_passwords()
    try:
        chosen = Settings(data=data, database_url=database_url, **{"titles": "message", **settings})
        parts = {"origins": origins, "passwords": passwords, "tracing": tracing}
        times = {"now": clock.now, "monotonic": clock.monotonic}
        with application(chosen, engine, web_folder=web_folder, **parts, **times) as app:
            async with _lifespan_in_one_task(app):
                yield RunningApp(app, engine, clock)
    finally:
        passwords.close()


@asynccontextmanager
async def _lifespan_in_one_task(app: Litestar) -> AsyncIterator[None]:
    """The framework's lifespan must end in the task it began in, and pytest ends a fixture in another one."""
    begun, over = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with app.lifespan():
            begun.set()
            await over.wait()

    life = asyncio.create_task(live())
    beginning = asyncio.create_task(begun.wait())
    try:
        await asyncio.wait([life, beginning], return_when=asyncio.FIRST_COMPLETED)
        if begun.is_set():
            yield
    finally:
        over.set()
        beginning.cancel()
        await life


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem an answer must be."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    body: dict[str, Any] = answer.json()
    assert (answer.status_code, body["status"], body["code"]) == (status, status, code), body
    assert {"type", "title", "detail", "trace_id"} <= body.keys()
    assert "Traceback" not in answer.text
    return body
