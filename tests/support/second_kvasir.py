"""Another Kvasir, for engines that ask one: a real server with the fake engine, in a thread and an event loop of its own.

One serves many tests: what a remote engine asks for is apart from what any other asks for, because each has a secret of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.fake_engine import FakeEngine
from tests.support.live_server import live_server

STEP_S = 0.001
"""Long enough that an answer of some hundred tokens can be cancelled before its end."""


@dataclass(frozen=True)
class SecondKvasir:
    """Where its API for OpenAI's clients is, and the key for it."""

    url: str
    key: str


@contextmanager
def second_kvasir(folder: Path, context_tokens: int) -> Iterator[SecondKvasir]:
    """Runs until the block ends."""
    started = threading.Event()
    found: list[SecondKvasir] = []
    end: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        engine = FakeEngine(delay_s=STEP_S, context_tokens=context_tokens)
        async with live_server(folder, engine=engine) as server, server.person("another-kvasir") as caller:
            ended = asyncio.Event()
            found.append(SecondKvasir(f"{server.url}/v1", caller.token))
            end.append((asyncio.get_running_loop(), ended))
            started.set()
            await ended.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        finally:
            started.set()

    thread = threading.Thread(target=run, name="second-kvasir")
    thread.start()
    started.wait()
    try:
        (one,) = found
        yield one
    finally:
        for loop, ended in end:
            loop.call_soon_threadsafe(ended.set)
        thread.join()
