"""A live server for tests of the socket. SQLite only: what they are about ends before the database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.live_server import LiveServer, Person, live_server


@pytest.fixture
async def live(tmp_path: Path, sqlite_url: str) -> AsyncIterator[LiveServer]:
    async with live_server(tmp_path, sqlite_url) as server:
        yield server


@pytest.fixture
async def ann(live: LiveServer) -> AsyncIterator[Person]:
    async with live.person("ann") as person:
        yield person


@pytest.fixture
async def bob(live: LiveServer) -> AsyncIterator[Person]:
    async with live.person("bob") as person:
        yield person
