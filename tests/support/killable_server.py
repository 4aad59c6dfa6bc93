"""A server with the deterministic engine in a process that is forked from a prepared one, so that starting it takes a moment
and not the seconds of the imports. For tests that kill it many times.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
import threading
from multiprocessing.connection import Connection

import msgspec
from litestar import Litestar

from app.asgi import build_routes, run_with
from app.server import Server
from app.settings import Settings
from tests.support.applications import NO_PAGES
from tests.support.client import quick_passwords
from tests.support.fake_engine import FakeEngine
from tests.support.scripts import numbered_script

PATIENCE_S = 30

PREPARED: list[Litestar] = []
"""Routes that the fork server has made, so that no process has to; `prepared_routes` puts them here."""


class KillableServer:
    """One process. `url` is None until it serves."""

    def __init__(self, settings: Settings, *, words: int, delay_s: float) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.support.prepared_routes"])
        self._news, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_serve, args=(settings, words, delay_s, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._closing = threading.Lock()
        self.url: str | None = None

    async def serves(self) -> str:
        """Wait until it serves; its address."""
        if self.url is None:
            assert await asyncio.to_thread(self._news.poll, PATIENCE_S), "the server did not start"
            self.url = self._news.recv()
        return self.url

    def kill(self) -> None:
        """kill -9. Idempotent."""
        self.end(signal.SIGKILL)

    def end(self, how: signal.Signals) -> int | None:
        """Send a signal and wait; the exit code, negative for a signal."""
        if self._process.is_alive() and self._process.pid is not None:
            os.kill(self._process.pid, how)
        with self._closing:
            # Two threads may end one process, by two signals.
            self._process.join(PATIENCE_S)
            self._news.close()
        return self._process.exitcode


def _serve(settings: Settings, words: int, delay_s: float, news: Connection) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings = msgspec.structs.replace(settings, port=listener.getsockname()[1])
        asyncio.run(_life(settings, listener, words, delay_s, news))


async def _life(settings: Settings, listener: socket.socket, words: int, delay_s: float, news: Connection) -> None:
    passwords = quick_passwords()
    engine = FakeEngine(delay_s=delay_s, answer=lambda request: numbered_script(words), context_tokens=1_000_000)
    app = PREPARED[0] if PREPARED else build_routes(settings, NO_PAGES)
    run_with(app, settings, engine, passwords=passwords)

    class Telling(Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            news.send(settings.base_url)

    await Telling(app, settings).serve(sockets=[listener])
    passwords.close()
