"""How long an idle engine waits for company before its first step.

Used by `engine.core`; the waiting itself is done by `engine.thread`. Pure: the time is handed in.

One step for eight requests costs little more than one for one, so programs that send many at once are served sooner when the
first does not start alone. A person's request never waits for that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from engine.types import Priority

MAX_BATCH_WINDOW_MS = 20
"""More would be felt by whoever waits, and a batch that did not come together by then is not coming."""


class WaitingRequest(Protocol):
    """What the window looks at."""

    @property
    def queued_at(self) -> float: ...
    @property
    def priority(self) -> Priority: ...
    @property
    def num_prompt_tokens(self) -> int: ...


@dataclass(frozen=True, slots=True)
class BatchWindow:
    """`full_requests` or `full_tokens` of prompts make a batch that need not wait for more."""

    window_s: float
    full_requests: int
    full_tokens: int

    def __post_init__(self) -> None:
        if not 0 <= self.window_s <= MAX_BATCH_WINDOW_MS / 1000:
            raise ValueError(f"a batch window is 0 to {MAX_BATCH_WINDOW_MS} ms, got {self.window_s * 1000:g}")

    def closes_at(self, waiting: Iterable[WaitingRequest], now: float) -> float | None:
        """Until when an engine in which nothing runs should wait before its step; None where it should not.

        Counted from the oldest request, so it ends whatever keeps coming, and one that waited for other reasons waits no more.
        """
        requests = list(waiting)
        if not self.window_s or not requests:
            return None
        if any(request.priority is Priority.INTERACTIVE for request in requests):
            return None
        if len(requests) >= self.full_requests:
            return None
        if sum(request.num_prompt_tokens for request in requests) >= self.full_tokens:
            return None
        closes_at = min(request.queued_at for request in requests) + self.window_s
        return closes_at if closes_at > now else None
