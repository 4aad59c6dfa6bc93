"""The application on both databases, with an engine that takes a step when the test says so and text that is framed at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.app.responses.chat import Chat, open_chat
from tests.support.clock import SteppedClock


@pytest.fixture
async def chat(tmp_path: Path, database_url: str, clock: SteppedClock) -> AsyncIterator[Chat]:
    async with open_chat(tmp_path, database_url, clock=clock) as chat:
        yield chat


@pytest.fixture
async def chat_on_sqlite(tmp_path: Path, sqlite_url: str, clock: SteppedClock) -> AsyncIterator[Chat]:
    """For what ends before the database."""
    async with open_chat(tmp_path, sqlite_url, clock=clock) as chat:
        yield chat
