"""Which sessions the cluster was asked for lately, as far as this side can know. Pure, with an injected clock.

Where their KV is, how many pages it has and when it goes is the cluster's own affair: no pages are told, and no time to the
next change.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from engine.snapshot import PagesByTier, SessionState, SessionStatus
from engine.types import GenerationRequest, Namespace, Priority, SessionKey, Usage

SESSIONS_MAX: Final = 100_000
"""A few hundred bytes each. Of more, those that were used first are not listed any more."""


@dataclass(slots=True)
class _Session:
    priority: Priority
    running: int = 0
    turns: int = 0
    tokens: int = 0
    cached_tokens: int = 0
    ttft_ms: float | None = None
    used_at: float = 0.0
    is_held: bool = False


class RemoteSessions:
    """Owns the list, the one used last at its end."""

    def __init__(self, ttl_s: float, clock: Callable[[], float], sessions_max: int = SESSIONS_MAX) -> None:
        self._ttl_s = ttl_s
        self._clock = clock
        self._max = sessions_max
        self._sessions: OrderedDict[SessionKey, _Session] = OrderedDict()
        self.expired_total = 0

    def begin(self, request: GenerationRequest) -> None:
        """A turn was taken."""
        if (key := request.session_key) is None:
            return
        session = self._sessions.setdefault(key, _Session(request.priority))
        session.priority = request.priority
        session.running += 1
        self._use(key, session)
        while len(self._sessions) > self._max:
            self._sessions.popitem(last=False)

    def end(self, request: GenerationRequest, usage: Usage | None) -> None:
        """A turn has ended; `usage` None where nothing of it is kept."""
        if (key := request.session_key) is None or (session := self._sessions.get(key)) is None:
            return
        session.running -= 1
        if usage is not None:
            session.turns += 1
            session.tokens = usage.input_tokens + usage.output_tokens
            session.cached_tokens, session.ttft_ms = usage.cached_tokens, usage.ttft_ms
            self._use(key, session)
        if not session.running and not session.turns:
            del self._sessions[key]

    def is_idle(self, key: SessionKey) -> bool:
        """Whether it is here, and no turn of it is answered."""
        self._expire()
        return (session := self._sessions.get(key)) is not None and not session.running

    def hold(self, key: SessionKey, *, is_held: bool) -> bool:
        """One that is held stays listed; whether it is here."""
        self._expire()
        if (session := self._sessions.get(key)) is None:
            return False
        session.is_held = is_held
        self._use(key, session)
        return True

    def drop(self, key: SessionKey) -> bool:
        """Forget one; whether it was here."""
        self._expire()
        return self._sessions.pop(key, None) is not None

    def drop_namespace(self, namespace: Namespace) -> int:
        """Forget those of a namespace and its parts; how many they were."""
        self._expire()
        keys = [key for key in self._sessions if namespace.covers(key.namespace)]
        for key in keys:
            del self._sessions[key]
        return len(keys)

    def states(self) -> Iterator[SessionStatus]:
        """Every one, for a snapshot."""
        self._expire()
        now = self._clock()
        for key, session in self._sessions.items():
            yield SessionStatus(
                key=key,
                state=SessionState.ACTIVE if session.running else SessionState.DEVICE,
                priority=session.priority,
                turns=session.turns,
                tokens=session.tokens,
                pages=PagesByTier(),
                cached_tokens=session.cached_tokens,
                ttft_ms=session.ttft_ms,
                idle_s=0.0 if session.running else now - session.used_at,
                seconds_to_timeout=None,
            )

    def counts(self) -> tuple[tuple[str, int], ...]:
        """By state."""
        self._expire()
        active = sum(session.running > 0 for session in self._sessions.values())
        return (SessionState.ACTIVE.value, active), (SessionState.DEVICE.value, len(self._sessions) - active)

    def _use(self, key: SessionKey, session: _Session) -> None:
        session.used_at = self._clock()
        self._sessions.move_to_end(key)

    def _expire(self) -> None:
        last = self._clock() - self._ttl_s
        for key, session in list(self._sessions.items()):
            if session.used_at > last:
                break
            if not session.running and not session.is_held:
                del self._sessions[key]
                self.expired_total += 1
