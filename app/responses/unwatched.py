"""What `on_disconnect=cancel` means: an answer that nobody watches any more ends after a grace time.

Told by the hub who is watched. An answer that was never watched, because its client only reads results, is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from app.realtime.event_log import EventLog

CallLater = Callable[[float, Callable[[], None]], asyncio.TimerHandle]


class Unwatched:
    """Owns one timer per answer that has lost its last watcher, and who watches the others."""

    def __init__(self, cancel: Callable[[str], None], *, grace_s: float, call_later: CallLater) -> None:
        self._cancel = cancel
        self._grace_s = grace_s
        self._call_later = call_later
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._here: set[str] = set()
        self._elsewhere: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def watched(self, log: EventLog, watched: bool) -> None:
        """Somebody here watches this answer now, or nobody here does any more."""
        (self._here.add if watched else self._here.discard)(log.response_id)
        self._judge(log.response_id)

    def watched_elsewhere(self, response_id: str, watched: bool) -> None:
        """The same of another server. One that dies says nothing more, and then the answer just goes on."""
        count = self._elsewhere.pop(response_id, 0) + (1 if watched else -1)
        if count > 0:
            self._elsewhere[response_id] = count
        self._judge(response_id)

    def forget(self, response_id: str) -> None:
        """It has ended. Idempotent."""
        self._here.discard(response_id)
        self._elsewhere.pop(response_id, None)
        self._stop_timer(response_id)

    def _judge(self, response_id: str) -> None:
        self._stop_timer(response_id)
        if response_id not in self._here and response_id not in self._elsewhere:
            self._timers[response_id] = self._call_later(self._grace_s, lambda: self._expired(response_id))

    def _stop_timer(self, response_id: str) -> None:
        if (timer := self._timers.pop(response_id, None)) is not None:
            timer.cancel()

    def _expired(self, response_id: str) -> None:
        del self._timers[response_id]
        self._cancel(response_id)
