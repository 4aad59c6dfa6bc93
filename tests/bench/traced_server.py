"""`kvasir serve` that notes when each answer passes the engine's door: for `tests.bench.warm_turns_http`, and for nothing else.

    TRACE_FILE=FILE python -m tests.bench.traced_server --data FOLDER --port 0

Writes one line of JSON per answer to TRACE_FILE: seconds of the system's monotonic clock, which all processes of a machine share.
The server is the real one; only the engine it makes is looked at from outside.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.cli import main, serve
from app.settings import Settings
from engine.client import EventListener
from engine.local import LocalEngine
from engine.types import EngineEvent, Finished, GenerationRequest, RequestId, TextDelta

MOMENTS = ("checking", "checked", "submitting", "submitted", "first_text")


class TracedEngine:
    """Hands everything on. Moments of a request are by its id; those of `check` come before the id that counts is known."""

    def __init__(self, engine: LocalEngine, path: Path) -> None:
        self._engine = engine
        self._path = path
        self._checked: tuple[float, float] | None = None
        self._moments: dict[RequestId, dict[str, float]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def start(self, listener: EventListener) -> None:
        def listen(events: Sequence[EngineEvent]) -> None:
            self._note(events)
            listener(events)

        await self._engine.start(listen)

    async def check(self, request: GenerationRequest) -> int:
        began = time.monotonic()
        tokens = await self._engine.check(request)
        self._checked = began, time.monotonic()
        return tokens

    async def submit(self, request: GenerationRequest) -> None:
        moments = self._moments[request.request_id] = {}
        if self._checked is not None:
            moments["checking"], moments["checked"] = self._checked
        moments["submitting"] = time.monotonic()
        await self._engine.submit(request)
        moments["submitted"] = time.monotonic()

    def _note(self, events: Sequence[EngineEvent]) -> None:
        for event in events:
            moments = self._moments.get(event.request_id)
            if moments is None:
                continue
            if isinstance(event, TextDelta):
                moments.setdefault("first_text", time.monotonic())
            elif isinstance(event, Finished):
                usage = event.usage
                moments["queue_ms"], moments["prefill_ms"] = usage.queue_ms or 0.0, usage.prefill_ms or 0.0
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"id": event.request_id, **moments}) + "\n")
                del self._moments[event.request_id]


def trace(path: Path) -> None:
    """Have every engine that the server makes looked at."""
    make = serve.make_engine

    def make_traced(settings: Settings, model: Path, **options: Any) -> Any:
        return TracedEngine(make(settings, model, **options), path)

    serve.make_engine = make_traced


if __name__ == "__main__":
    trace(Path(os.environ["TRACE_FILE"]))
    main.main(["serve", *sys.argv[1:]])
