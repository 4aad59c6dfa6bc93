"""What `on_disconnect=cancel` means: an answer that nobody watches any more ends after a grace time.

Told by the hub who is watched. An answer that was never watched, because its client only reads results, is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from app.realtime.event_log import EventLog

CallLater = Callable[[float, Callable[[], None]], asyncio.TimerHandle]


class Unwatched:
    """Owns one timer per answer that has lost its last watcher."""

    def __init__(self, cancel: Callable[[str], None], *, grace_s: float, call_later: CallLater) -> None:
        self._cancel = cancel
        self._grace_s = grace_s
        self._call_later = call_later
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def watched(self, log: EventLog, watched: bool) -> None:
        """Somebody watches this answer now, or nobody does any more."""
        self.forget(log.response_id)
        if not watched:
            response_id = log.response_id
            self._timers[response_id] = self._call_later(self._grace_s, lambda: self._expired(response_id))

    def forget(self, response_id: str) -> None:
        """It has ended, or is watched again. Idempotent."""
        if (timer := self._timers.pop(response_id, None)) is not None:
            timer.cancel()

    def _expired(self, response_id: str) -> None:
        del self._timers[response_id]
        self._cancel(response_id)
