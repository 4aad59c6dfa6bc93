"""Chats with an engine, one turn at a time, seen from outside: what everything but the protocol is measured with.

Made by the measurements here and by the scripts in `tests/bench`, on the event loop that they run on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Final

from engine.config import EngineConfig
from engine.errors import EngineError
from engine.local import LocalEngine
from engine.snapshot import PrefixState
from engine.types import (
    EngineEvent,
    Finished,
    FinishReason,
    GenerationRequest,
    Namespace,
    Priority,
    RequestId,
    SamplingParams,
    TextDelta,
    Turn,
)

WORDS: Final = ("river", "stone", "lamp", "winter", "paper", "cloud", "garden", "bridge", "copper", "violin")
"""One token each in most vocabularies."""
LOOK_EVERY_S: Final = 0.01
"""At a prefix that is being built, of which nobody is told."""


def words(number: int, seed: int) -> str:
    """So many words, other ones for each seed."""
    return " ".join(f"{WORDS[(seed + place * (seed + 3)) % len(WORDS)]}{seed % 7}" for place in range(number))


@dataclass(frozen=True, slots=True)
class TokenMoment:
    """At `at_s` the answer had so many tokens."""

    at_s: float
    tokens: int


@dataclass(slots=True)
class Turned:
    """One turn, seen from outside. Times are seconds of the clock, None before they are reached."""

    asked_at: float
    first_text_at: float | None = None
    text: str = ""
    finished: Finished | None = None
    ended_at: float | None = None
    moments: list[TokenMoment] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def ttft_ms(self) -> float:
        """From asking to the first text."""
        if self.first_text_at is None:
            raise EngineError("an answer ended without any text")
        return (self.first_text_at - self.asked_at) * 1000

    @property
    def end(self) -> Finished:
        """The last event."""
        if self.finished is None:
            raise EngineError("the answer has not ended")
        return self.finished

    @property
    def gaps_ms(self) -> list[float]:
        """Times between one piece of text and the next."""
        times = [moment.at_s for moment in self.moments]
        return [(later - earlier) * 1000 for earlier, later in pairwise(times)]


class Chats:
    """An engine, and whoever talks to it."""

    def __init__(self, config: EngineConfig, clock: Callable[[], float] = time.perf_counter) -> None:
        self.engine = LocalEngine(config)
        self._clock = clock
        self._turns: dict[RequestId, Turned] = {}
        self._names = count()

    async def start(self) -> None:
        """Load and wait. Raises EngineNotReady."""
        await self.engine.start(self._receive)
        await self.engine.wait_ready()

    async def ask(
        self,
        turns: Sequence[Turn],
        namespace: Namespace | None,
        session: str | None = None,
        *,
        persona: str | None = None,
        max_tokens: int = 8,
        priority: Priority = Priority.INTERACTIVE,
    ) -> Turned:
        """One greedy turn to its end, of exactly `max_tokens` tokens. Raises EngineError."""
        name = RequestId(f"turn-{next(self._names)}")
        turned = self._turns[name] = Turned(self._clock())
        sampling = SamplingParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True)
        request = GenerationRequest(
            name, tuple(turns), sampling, namespace=namespace, session=session, persona=persona, priority=priority
        )
        try:
            await self.engine.submit(request)
            await turned.done.wait()
        finally:
            del self._turns[name]
        if turned.end.reason is FinishReason.FAILED:
            raise EngineError(turned.end.failure.message if turned.end.failure else "an answer failed")
        return turned

    async def tokens(self, turns: Sequence[Turn]) -> int:
        """Tokens of the prompt that these turns make."""
        return await self.engine.check(GenerationRequest(RequestId("count"), tuple(turns)))

    async def set_persona(self, name: str, turns: Sequence[Turn]) -> None:
        """Register a prefix and wait until it is there."""
        await self.engine.set_prefix(name, turns)
        while True:
            states = {prefix.name: prefix.state for prefix in (await self.engine.snapshot()).prefixes}
            if states.get(name) is PrefixState.READY:
                return
            await asyncio.sleep(LOOK_EVERY_S)

    def _receive(self, events: Sequence[EngineEvent]) -> None:
        now = self._clock()
        for event in events:
            turned = self._turns.get(event.request_id)
            if turned is None:
                continue
            if isinstance(event, TextDelta):
                turned.first_text_at = now if turned.first_text_at is None else turned.first_text_at
                turned.text += event.text
                turned.moments.append(TokenMoment(now, event.output_tokens))
            elif isinstance(event, Finished):
                turned.finished, turned.ended_at = event, now
                turned.done.set()


@asynccontextmanager
async def chatting(config: EngineConfig) -> AsyncIterator[Chats]:
    """An engine that is ready, and is stopped at the end of the block."""
    chats = Chats(config)
    try:
        await chats.start()
        yield chats
    finally:
        await chats.engine.stop()
