"""What a test hears of an engine: events gathered and their order checked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from engine.types import EngineEvent, Finished, RequestId, TextDelta


class Listener:
    """Gathers the events of an engine, checks their order, and lets a test wait for the end of requests."""

    def __init__(self) -> None:
        self.steps: list[list[EngineEvent]] = []
        self.finished: dict[RequestId, Finished] = {}
        self._changed = asyncio.Event()

    def __call__(self, events: Sequence[EngineEvent]) -> None:
        assert events, "a listener is not called for nothing"
        self.steps.append(list(events))
        for event in events:
            assert event.request_id not in self.finished, "an event came after `Finished`"
            if isinstance(event, Finished):
                self.finished[event.request_id] = event
        self._changed.set()

    def events(self, name: str) -> list[EngineEvent]:
        return [event for step in self.steps for event in step if event.request_id == name]

    def text(self, name: str) -> str:
        return "".join(event.text for event in self.events(name) if isinstance(event, TextDelta))

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def end_of(self, *names: str) -> list[Finished]:
        await self.until(lambda: all(RequestId(name) in self.finished for name in names))
        return [self.finished[RequestId(name)] for name in names]
