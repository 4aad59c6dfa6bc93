"""Texts that the server asks the engine for on its own account, such as a title: nobody watches them, nothing of them is stored.

They are no answers: no queue of a conversation, no log, and neither a limit nor the count of what people wait for has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from app.identifiers import new_id
from engine.client import EngineClient
from engine.types import EngineEvent, Finished, FinishReason, GenerationRequest, RequestId, TextDelta, Usage

MARK = "side:"
"""What the ids of these requests begin with; ids of answers are UUIDs."""


@dataclass(frozen=True, slots=True)
class SideText:
    """`text` is None when the model was not able to say it."""

    text: str | None
    usage: Usage


@dataclass(slots=True)
class _Growing:
    finished: asyncio.Future[Finished]
    parts: list[str] = field(default_factory=list)


class SideRequests:
    """Owns the requests that are under way. Lives on the event loop."""

    def __init__(self, engine: EngineClient) -> None:
        self._engine = engine
        self._growing: dict[RequestId, _Growing] = {}

    def __len__(self) -> int:
        return len(self._growing)

    def take(self, events: Sequence[EngineEvent]) -> Sequence[EngineEvent]:
        """One step of the engine; what is about answers comes back."""
        others: list[EngineEvent] = []
        for event in events:
            if event.request_id.startswith(MARK):
                self._take(event)
            else:
                others.append(event)
        return others

    async def text(self, request: GenerationRequest) -> SideText:
        """What the model says, and what that has cost. The request's id is replaced.

        Raises EngineNotReady, QueueFull, PromptTooLong or TemplateRefused. Who stops waiting cancels it in the engine.
        """
        request = replace(request, request_id=RequestId(MARK + new_id()))
        growing = _Growing(asyncio.get_running_loop().create_future())
        self._growing[request.request_id] = growing
        try:
            await self._engine.submit(request)
            finished = await growing.finished
        finally:
            del self._growing[request.request_id]
            if not growing.finished.done() or growing.finished.cancelled():
                self._engine.cancel(request.request_id)
        is_whole = finished.reason in (FinishReason.STOP, FinishReason.LENGTH)
        return SideText("".join(growing.parts) if is_whole else None, finished.usage)

    def _take(self, event: EngineEvent) -> None:
        if (growing := self._growing.get(event.request_id)) is None:
            return
        if isinstance(event, TextDelta):
            growing.parts.append(event.text)
        elif isinstance(event, Finished) and not growing.finished.done():
            growing.finished.set_result(event)
