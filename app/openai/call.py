"""One answer to a program, from the engine's taking it to its end. Made by `CallAdmission`, read by the one who asked.

It is no conversation: what is stored of it is what it cost, and what `keep` stores. Lives on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from dataclasses import dataclass
from datetime import datetime

from app.usage.charge import Charge
from engine.structure import ToolCall
from engine.types import (
    Finished,
    FinishReason,
    GenerationRequest,
    RequestId,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallIdentity:
    """What never changes about a call. `model` is what the request named."""

    id: str
    model: str
    fingerprint: str
    created_at: datetime
    credential_id: str


@dataclass(frozen=True, slots=True)
class Said:
    """What has come since the reader looked last: text, then calls of tools, never the other way round."""

    text: str
    logprobs: tuple[TokenLogprob, ...]
    tool_calls: tuple[ToolCallDelta, ...]


Keep = Callable[["Call", Finished], Awaitable[None]]
"""Make what was answered durable, before its reader is told of the end. Raises DatabaseAway."""


class Call:
    """Owns what its reader has not taken yet. A reader who is slow takes several deltas at once."""

    def __init__(
        self,
        identity: CallIdentity,
        request: GenerationRequest,
        charge: Charge,
        accepted_at_s: float,
        keep: Keep | None = None,
    ) -> None:
        self.keep = keep
        self.context = copy_context()
        """That of the request it came with: what is told of its end belongs to it."""
        self.identity = identity
        self.request = request
        self.charge = charge
        self.accepted_at_s = accepted_at_s
        self.finished: Finished | None = None
        self.logprobs: list[TokenLogprob] = []
        self._text: list[str] = []
        self._tool_calls: list[ToolCall] = []
        self._new_text: list[str] = []
        self._new_logprobs: list[TokenLogprob] = []
        self._new_calls: list[ToolCallDelta] = []
        self._changed = asyncio.Event()

    @property
    def request_id(self) -> RequestId:
        return self.request.request_id

    @property
    def text(self) -> str:
        """Everything that was said so far."""
        return "".join(self._text)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Every call of a tool so far."""
        return tuple(self._tool_calls)

    @property
    def has_answer(self) -> bool:
        """Whether it came to an end of its own."""
        return self.finished is not None and self.finished.reason in (FinishReason.STOP, FinishReason.LENGTH)

    def add(self, delta: TextDelta | ToolCallDelta) -> None:
        """More of the answer."""
        if isinstance(delta, TextDelta):
            self._text.append(delta.text)
            self._new_text.append(delta.text)
            self._add_logprobs(delta.logprobs)
        else:
            self._add_call(delta)
        self._changed.set()

    def end(self, finished: Finished) -> None:
        """The engine's last word."""
        self._add_logprobs(finished.logprobs)
        self.finished = finished
        self._changed.set()

    def take(self) -> Said | None:
        """What has come since the last time."""
        if not self._new_text and not self._new_calls and not self._new_logprobs:
            return None
        said = Said("".join(self._new_text), tuple(self._new_logprobs), tuple(self._new_calls))
        self._new_text, self._new_logprobs, self._new_calls = [], [], []
        return said

    def wake(self) -> None:
        """The reader has another reason to look."""
        self._changed.set()

    async def changed(self) -> None:
        """Return when there is something new. One reader."""
        await self._changed.wait()
        self._changed.clear()

    def _add_logprobs(self, logprobs: tuple[TokenLogprob, ...]) -> None:
        if logprobs:
            self.logprobs += logprobs
            self._new_logprobs += logprobs

    def _add_call(self, delta: ToolCallDelta) -> None:
        self._new_calls.append(delta)
        if delta.index == len(self._tool_calls):
            self._tool_calls.append(ToolCall(delta.call_id or "", delta.name or "", delta.arguments))
        else:
            before = self._tool_calls[delta.index]
            self._tool_calls[delta.index] = ToolCall(before.id, before.name, before.arguments + delta.arguments)
