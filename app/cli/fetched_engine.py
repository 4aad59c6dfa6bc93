"""An engine whose model may still have to be fetched: the server is up, and says that it is loading, meanwhile.

Made by `kvasir serve`. What fetches the model and what makes the engine are given, so nothing here knows which engine it is.
Fetching runs in a thread that does not keep the process alive: a download must not hold up Ctrl-C.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from engine.client import EngineClient, EventListener
from engine.errors import EngineNotReady, ModelError
from engine.snapshot import EngineSnapshot
from engine.types import (
    EngineState,
    EngineStats,
    GenerationRequest,
    ModelInfo,
    Namespace,
    RequestId,
    SessionKey,
    Turn,
)

logger = structlog.stdlib.get_logger(__name__)

Fetch = Callable[[], Path]
Make = Callable[[Path], EngineClient]


class FetchedEngine:
    """Implements EngineClient. Lives on the event loop, like the engine it makes."""

    def __init__(self, fetch: Fetch, make: Make) -> None:
        self._fetch = fetch
        self._make = make
        self._engine: EngineClient | None = None
        self._failure: str | None = None
        self._stopped = False
        self._decided = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> EngineState:
        if self._engine is not None:
            return self._engine.state
        if self._failure is not None:
            return EngineState.FAILED
        return EngineState.STOPPED if self._stopped else EngineState.LOADING

    @property
    def failure(self) -> str | None:
        if self._failure is not None or self._engine is None:
            return self._failure
        return self._engine.failure

    @property
    def model(self) -> ModelInfo | None:
        return None if self._engine is None else self._engine.model

    async def start(self, listener: EventListener) -> None:
        self._task = asyncio.create_task(self._bring_up(listener))

    async def wait_ready(self) -> None:
        await self._decided.wait()
        await self._ready_engine().wait_ready()

    async def check(self, request: GenerationRequest) -> int:
        return await self._ready_engine().check(request)

    async def submit(self, request: GenerationRequest) -> None:
        await self._ready_engine().submit(request)

    def cancel(self, request_id: RequestId) -> None:
        if self._engine is not None:
            self._engine.cancel(request_id)

    def stats(self) -> EngineStats:
        return EngineStats(self.state) if self._engine is None else self._engine.stats()

    async def snapshot(self) -> EngineSnapshot:
        return await self._ready_engine().snapshot()

    async def evict_session(self, key: SessionKey) -> bool:
        return await self._ready_engine().evict_session(key)

    async def hold_session(self, key: SessionKey) -> bool:
        return await self._ready_engine().hold_session(key)

    async def release_session(self, key: SessionKey) -> bool:
        return await self._ready_engine().release_session(key)

    async def drop_session(self, key: SessionKey) -> bool:
        return await self._ready_engine().drop_session(key)

    async def drop_namespace(self, namespace: Namespace) -> int:
        return await self._ready_engine().drop_namespace(namespace)

    async def set_prefix(self, name: str, turns: Sequence[Turn]) -> None:
        await self._ready_engine().set_prefix(name, turns)

    async def drop_prefix(self, name: str) -> None:
        await self._ready_engine().drop_prefix(name)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._engine is not None:
            await self._engine.stop()
        self._stopped = True
        self._decided.set()

    async def _bring_up(self, listener: EventListener) -> None:
        try:
            engine = self._make(await _in_thread(self._fetch))
            await engine.start(listener)
            self._engine = engine
        except ModelError as error:
            self._failure = str(error)
        except Exception:
            logger.exception("the model could not be prepared")
            self._failure = "the model could not be prepared; the log has more"
        finally:
            self._decided.set()

    def _ready_engine(self) -> EngineClient:
        if self._engine is None:
            raise EngineNotReady(self._failure or ("it was stopped" if self._stopped else "the model is being fetched"))
        return self._engine


async def _in_thread(fetch: Fetch) -> Path:
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Path] = loop.create_future()

    def run() -> None:
        try:
            path = fetch()
        except Exception as error:
            # Bound to a name of its own, because `error` is gone when the lambda runs.
            failure = error
            _tell(loop, lambda: None if result.done() else result.set_exception(failure))
        else:
            _tell(loop, lambda: None if result.done() else result.set_result(path))

    threading.Thread(target=run, name="kvasir-fetch", daemon=True).start()
    return await result


def _tell(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(callback)
