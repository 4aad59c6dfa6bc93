"""The way into the engine. When its queue is full, accepted answers wait here, in the order in which they came.

Used by the dispatcher's tasks, on the event loop. It must never let one overtake another that was refused: however many come,
the first in line is the next to get in.
"""

from __future__ import annotations

import asyncio
import contextlib

from engine.client import EngineClient
from engine.errors import QueueFull
from engine.types import GenerationRequest

LONGEST_RETRY_S = 5.0
"""However long a full engine asks us to wait, it is asked again after this time."""


class EngineDoor:
    """Owns the line in front of the engine."""

    def __init__(self, engine: EngineClient) -> None:
        self._engine = engine
        self._line = asyncio.Lock()
        self._room = asyncio.Event()

    async def submit(self, request: GenerationRequest) -> None:
        """Return when the engine has taken the request. Raises EngineNotReady, PromptTooLong or TemplateRefused.

        Who leaves in between cancels the request in the engine too, which may just have taken it.
        """
        async with self._line:
            while True:
                self._room.clear()
                try:
                    await self._engine.submit(request)
                except QueueFull as full:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(min(full.retry_after_s, LONGEST_RETRY_S)):
                            await self._room.wait()
                except asyncio.CancelledError:
                    self._engine.cancel(request.request_id)
                    raise
                else:
                    return

    def has_room(self) -> None:
        """Something has moved in the engine: whoever was refused asks again."""
        self._room.set()
