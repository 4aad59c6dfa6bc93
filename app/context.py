"""Everything the server is made of, built once per process in `open_context` and handed to whoever needs it.

Owned by the lifespan of `app.asgi`. What is opened here is closed here, in the opposite order.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

from app.accounts.authentication import Authenticator
from app.accounts.origins import Origins
from app.accounts.passwords import Passwords
from app.accounts.service import AccountService
from app.accounts.throttle import LoginThrottle
from app.clock import Monotonic, Now, utc_now
from app.database import Database
from app.operations.health import Readiness
from app.operations.loop_lag import watch_event_loop
from app.operations.metrics import Metrics
from app.settings import Settings
from engine.client import EngineClient


@dataclass(frozen=True, slots=True, kw_only=True)
class AppContext:
    """One server process. Each field is also a dependency of that name for routes."""

    settings: Settings
    now: Now
    monotonic: Monotonic
    engine: EngineClient
    database: Database
    readiness: Readiness
    metrics: Metrics
    accounts: AccountService
    authenticator: Authenticator


@asynccontextmanager
async def open_context(
    settings: Settings,
    engine: EngineClient,
    metrics: Metrics,
    *,
    passwords: Passwords | None = None,
    now: Now = utc_now,
    monotonic: Monotonic = time.monotonic,
) -> AsyncIterator[AppContext]:
    """Open the database, build every service and start the engine; close all of it at the end."""
    async with AsyncExitStack() as stack:
        database = Database(settings.effective_database_url, pool=settings.database_pool)
        stack.push_async_callback(database.close)
        if passwords is None:
            passwords = Passwords()
            stack.push_async_callback(asyncio.to_thread, passwords.close)
        accounts = AccountService(database, passwords, settings, now=now, throttle=LoginThrottle(monotonic))
        await passwords.prepare()
        stack.push_async_callback(_cancelled, asyncio.create_task(watch_event_loop(metrics.event_loop_lagged)))
        yield AppContext(
            settings=settings,
            now=now,
            monotonic=monotonic,
            engine=engine,
            database=database,
            readiness=Readiness(engine, database),
            metrics=metrics,
            accounts=accounts,
            authenticator=Authenticator(accounts, Origins(settings.public_url, settings.allowed_origins)),
        )


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
