"""The application on both databases, with an engine that takes a step when the test says so and text that is framed at once."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.operations.logging import configure_logging
from app.settings import Settings
from tests.app.responses.chat import Chat, open_chat
from tests.support.clock import SteppedClock
from tests.support.logs import restored_logging


@pytest.fixture
async def chat(tmp_path: Path, database_url: str, clock: SteppedClock) -> AsyncIterator[Chat]:
    async with open_chat(tmp_path, database_url, clock=clock) as chat:
        yield chat


@pytest.fixture
async def chat_on_sqlite(tmp_path: Path, sqlite_url: str, clock: SteppedClock) -> AsyncIterator[Chat]:
    """For what ends before the database."""
    async with open_chat(tmp_path, sqlite_url, clock=clock) as chat:
        yield chat


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Everything that is logged, as JSON lines at the level debug; the configuration before comes back afterwards."""
    stream = io.StringIO()
    with restored_logging():
        configure_logging(Settings(log_level="debug", log_format="json"), stream)
        yield stream
