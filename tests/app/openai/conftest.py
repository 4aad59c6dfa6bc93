"""A program with a key, on an application whose engine steps by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.app.openai.surface import Program, open_program
from tests.support.clock import SteppedClock


@pytest.fixture
async def program(tmp_path: Path, sqlite_url: str, clock: SteppedClock) -> AsyncIterator[Program]:
    async with open_program(tmp_path, sqlite_url, clock=clock) as program:
        yield program
