"""How much may wait for the engine: so many requests, and so many tokens of their prompts.

Asked by `engine.local` for every request, before it is encoded and again when its tokens are known. A burst is refused at its
first request too many, so what waits has a bound whatever comes (vllm-project/vllm#18826). Pure, with an injected clock.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from engine.errors import QueueFull, QueueUnit
from engine.types import RequestId

FINISHES_REMEMBERED: Final = 16
"""Last answers whose pace tells how long a refused client should wait."""

MAX_RETRY_AFTER_S: Final = 60
DEFAULT_RETRY_AFTER_S: Final = 5
"""Told while too few answers have ended to know better."""


class QueueBounds:
    """Owns the count of what waits. A request is counted from `enter`, its tokens from `encoded` until `begun` or `leave`."""

    def __init__(self, max_running: int, max_waiting: int, max_waiting_tokens: int, clock: Callable[[], float]) -> None:
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._max_waiting_tokens = max_waiting_tokens
        self._clock = clock
        self._live: set[RequestId] = set()
        self._waiting: dict[RequestId, int] = {}
        self._finished_at: deque[float] = deque(maxlen=FINISHES_REMEMBERED)
        self._checks = 0
        self.waiting_tokens = 0

    @contextmanager
    def check(self) -> Iterator[None]:
        """While a prompt is only counted; as many at once as requests may be there. Raises QueueFull."""
        limit = self._max_running + self._max_waiting
        if self._checks >= limit:
            raise QueueFull(self._checks, limit, self._retry_after_s(1), QueueUnit.REQUESTS)
        self._checks += 1
        try:
            yield
        finally:
            self._checks -= 1

    def enter(self, request_id: RequestId) -> None:
        """Raises QueueFull; then nothing was counted."""
        waiting = len(self._live) - self._max_running
        if waiting >= self._max_waiting:
            raise QueueFull(waiting, self._max_waiting, self._retry_after_s(1), QueueUnit.REQUESTS)
        self._live.add(request_id)

    def encoded(self, request_id: RequestId, prompt_tokens: int) -> None:
        """Raises QueueFull; then the request has still to leave. One that finds nothing waiting is taken, however long."""
        excess = self.waiting_tokens + prompt_tokens - self._max_waiting_tokens
        if self._waiting and excess > 0:
            each = self.waiting_tokens / len(self._waiting)
            retry_after_s = self._retry_after_s(math.ceil(excess / max(each, 1.0)))
            raise QueueFull(self.waiting_tokens, self._max_waiting_tokens, retry_after_s, QueueUnit.TOKENS)
        self._waiting[request_id] = prompt_tokens
        self.waiting_tokens += prompt_tokens

    def begun(self, request_id: RequestId) -> None:
        """It waits no longer. Again, or for one that is not here, nothing happens."""
        self.waiting_tokens -= self._waiting.pop(request_id, 0)

    def finished(self, request_id: RequestId) -> None:
        """It has got its last word, and its place is free."""
        self.leave(request_id)
        self._finished_at.append(self._clock())

    def leave(self, request_id: RequestId) -> None:
        """It was not taken after all."""
        self.begun(request_id)
        self._live.discard(request_id)

    def _retry_after_s(self, places: int) -> int:
        """Seconds until so many places are likely to be free, by the pace of the last answers."""
        if len(self._finished_at) < 2:
            return DEFAULT_RETRY_AFTER_S
        per_answer_s = (self._clock() - self._finished_at[0]) / (len(self._finished_at) - 1)
        return min(MAX_RETRY_AFTER_S, max(1, math.ceil(places * per_answer_s)))
