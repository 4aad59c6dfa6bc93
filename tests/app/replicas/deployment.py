"""Several servers on one PostgreSQL and one Redis, in the test's own event loop, each with an engine that the test holds."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from app.accounts.models import UserRole
from app.context import AppContext
from tests.support.fake_engine import FakeEngine
from tests.support.live_server import PATIENCE_S, LiveServer, Person, live_server


@dataclass
class Deployment:
    """`people[i]` is the same person at server i."""

    servers: list[LiveServer]
    people: list[Person]

    def context(self, index: int) -> AppContext:
        return self.servers[index].context

    @asynccontextmanager
    async def also(self, username: str, role: UserRole = UserRole.USER) -> AsyncIterator[list[Person]]:
        """Another person, at every server."""
        async with AsyncExitStack() as stack:
            yield await _everywhere(self.servers, username, role, stack)


async def _everywhere(servers: list[LiveServer], username: str, role: UserRole, stack: AsyncExitStack) -> list[Person]:
    first = await stack.enter_async_context(servers[0].person(username, role))
    people = [first]
    for server in servers[1:]:
        http = httpx.AsyncClient(base_url=server.url, headers=first.http.headers, trust_env=False, timeout=PATIENCE_S)
        people.append(dataclasses.replace(first, server=server, http=await stack.enter_async_context(http)))
    return people


@asynccontextmanager
async def deployed(
    folder: Path,
    database_url: str,
    redis_url: str,
    *,
    engines: list[FakeEngine] | None = None,
    role: UserRole = UserRole.USER,
    **settings: Any,
) -> AsyncIterator[Deployment]:
    """Two servers, or one per engine, that share everything but their data folders."""
    engines = engines or [FakeEngine(delay_s=0.005), FakeEngine(delay_s=0.005)]
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(
                live_server(folder / f"data{index}", database_url, engine=engine, redis_url=redis_url, **settings)
            )
            for index, engine in enumerate(engines)
        ]
        yield Deployment(servers, await _everywhere(servers, "ann", role, stack))
