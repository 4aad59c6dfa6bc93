"""One answer to a program, from the engine's taking it to its end. Made by `Calls`, read by the one who asked.

It is no conversation: nothing of it is stored but what it cost. Lives on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from app.usage.charge import Charge
from engine.types import Finished, FinishReason, GenerationRequest, RequestId, TextDelta


@dataclass(frozen=True, slots=True, kw_only=True)
class CallIdentity:
    """What never changes about a call. `model` is what the request named."""

    id: str
    model: str
    fingerprint: str
    created_at: datetime
    credential_id: str


Keep = Callable[["Call", Finished], Awaitable[None]]
"""Make what was answered durable, before its reader is told of the end. Raises DatabaseAway."""


class Call:
    """Owns the text that its reader has not taken yet. A reader who is slow takes several deltas at once."""

    def __init__(
        self,
        identity: CallIdentity,
        request: GenerationRequest,
        charge: Charge,
        accepted_at_s: float,
        keep: Keep | None = None,
    ) -> None:
        self.keep = keep
        self.identity = identity
        self.request = request
        self.charge = charge
        self.accepted_at_s = accepted_at_s
        self.finished: Finished | None = None
        self._text: list[str] = []
        self._new: list[str] = []
        self._changed = asyncio.Event()

    @property
    def request_id(self) -> RequestId:
        return self.request.request_id

    @property
    def text(self) -> str:
        """Everything that was said so far."""
        return "".join(self._text)

    @property
    def has_answer(self) -> bool:
        """Whether it came to an end of its own."""
        return self.finished is not None and self.finished.reason in (FinishReason.STOP, FinishReason.LENGTH)

    def add(self, delta: TextDelta) -> None:
        """More of the answer."""
        self._text.append(delta.text)
        self._new.append(delta.text)
        self._changed.set()

    def end(self, finished: Finished) -> None:
        """The engine's last word."""
        self.finished = finished
        self._changed.set()

    def take_text(self) -> str:
        """What has come since the last time."""
        new, self._new = self._new, []
        return "".join(new)

    def wake(self) -> None:
        """The reader has another reason to look."""
        self._changed.set()

    async def changed(self) -> None:
        """Return when there is something new. One reader."""
        await self._changed.wait()
        self._changed.clear()
