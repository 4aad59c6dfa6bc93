"""A real server process with the deterministic engine, for tests that kill it or look at it with a browser.

    python -m tests.support.serve_fake --data FOLDER [--port 0] [--delay-ms 5] [--words 0] [--prefill-step-tokens N]
                                       [--crowd N] [--set NAME=VALUE …]

Prints two lines and flushes them: `Listening: http://127.0.0.1:PORT` once the port answers, and before that
`Sign in: http://127.0.0.1:PORT/?ticket=…`. With `--words N` every answer has N numbered words; without, the message chooses
(`spoken_scripts`), and a plain one is repeated. `--crowd N` has N live sessions of twenty people (`CrowdedEngine`).
`--ready-after-s` lets the engine load for a while. Ends on SIGTERM as the
real server does.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
from pathlib import Path

from litestar import Litestar

from app.accounts.models import UserRole
from app.accounts.passwords import Passwords
from app.accounts.service import AccountService
from app.accounts.throttle import LoginThrottle
from app.asgi import create_app
from app.cli.garbage import settle
from app.clock import utc_now
from app.database import Database
from app.identifiers import UserId
from app.migrate import upgrade
from app.operations.logging import configure_logging
from app.replicas.memory_rate_limits import MemoryRateLimits
from app.server import Server
from app.settings import Settings
from app.settings_source import Loaded, load_settings
from engine.types import GenerationRequest
from tests.support.client import PASSWORD, quick_passwords
from tests.support.crowded_engine import CrowdedEngine
from tests.support.fake_engine import FakeEngine
from tests.support.scripts import Script, numbered_script
from tests.support.spoken_scripts import spoken_script

PEOPLE = 20
"""Whose sessions those of a crowd are."""


def main() -> int:
    """Serve until told to end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--delay-ms", type=float, default=5.0)
    parser.add_argument("--words", type=int, default=0)
    parser.add_argument("--prefill-step-tokens", type=int, default=1_000_000)
    parser.add_argument("--max-running", type=int, default=32)
    parser.add_argument("--ready-after-s", type=float, default=0.0)
    parser.add_argument("--crowd", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    chosen = parser.parse_args()
    overrides: dict[str, object] = {"titles": "message"}
    overrides |= dict(setting.split("=", 1) for setting in chosen.set)
    with socket.create_server(("127.0.0.1", chosen.port)) as listener:
        overrides |= {"data": chosen.data, "port": listener.getsockname()[1], "admin_password": PASSWORD}
        loaded = load_settings(overrides, environment={}, dotenv_path=chosen.data / "no.env")
        settings = loaded.settings
        configure_logging(settings)

        def answer(request: GenerationRequest) -> Script:
            return numbered_script(chosen.words) if chosen.words else spoken_script(request)

        given = {
            "delay_s": chosen.delay_ms / 1000,
            "ready": not chosen.ready_after_s,
            "answer": answer,
            "context_tokens": 1_000_000,
            "prefill_step_tokens": chosen.prefill_step_tokens,
            "max_running": chosen.max_running,
        }
        people = asyncio.run(crowd_of(settings, min(chosen.crowd, PEOPLE)))
        engine = CrowdedEngine(chosen.crowd, people, **given) if people else FakeEngine(**given)
        asyncio.run(serve(loaded, listener, engine, chosen.ready_after_s))
    return 0


async def serve(loaded: Loaded, listener: socket.socket, engine: FakeEngine, ready_after_s: float) -> None:
    """The life of the server."""
    settings = loaded.settings
    passwords = quick_passwords()
    try:
        print(f"Sign in: {settings.base_url}/?ticket={await sign_in_ticket(settings, passwords)}", flush=True)
        server = AnnouncedServer(create_app(settings, engine, origins=loaded.origins, passwords=passwords), settings)
        loading = asyncio.create_task(become_ready(engine, ready_after_s)) if ready_after_s else None
        await server.serve(sockets=[listener])
        if loading is not None:
            loading.cancel()
    finally:
        passwords.close()


async def sign_in_ticket(settings: Settings, passwords: Passwords) -> str:
    """A ticket for the account admin, in a database that is made where there is none."""
    await asyncio.to_thread(upgrade, settings.effective_database_url)
    database = Database(settings.effective_database_url)
    try:
        accounts = AccountService(
            database, passwords, settings, now=utc_now, throttle=LoginThrottle(MemoryRateLimits(lambda: 0.0))
        )
        return await accounts.make_sign_in_ticket(UserId((await accounts.ensure_admin()).id))
    finally:
        await database.close()


async def crowd_of(settings: Settings, people: int) -> list[str]:
    """The ids of so many accounts, which are made."""
    if not people:
        return []
    passwords = quick_passwords()
    await asyncio.to_thread(upgrade, settings.effective_database_url)
    database = Database(settings.effective_database_url)
    try:
        accounts = AccountService(
            database, passwords, settings, now=utc_now, throttle=LoginThrottle(MemoryRateLimits(lambda: 0.0))
        )
        names = [f"person-{number:02}" for number in range(people)]
        return [(await accounts.create_user(name, PASSWORD, UserRole.USER)).id for name in names]
    finally:
        await database.close()
        passwords.close()


async def become_ready(engine: FakeEngine, after_s: float) -> None:
    """Loading ends."""
    await asyncio.sleep(after_s)
    engine.become_ready()


class AnnouncedServer(Server):
    """Says when the port answers."""

    def __init__(self, application: Litestar, settings: Settings) -> None:
        super().__init__(application, settings)
        self._url = settings.base_url

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # As the real server does: what the imports have made is not looked through again while answers stream.
        settle()
        print(f"Listening: {self._url}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
