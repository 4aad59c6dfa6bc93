"""Sessions: who has a lease on which pages, in which state, and until when.

Used by `engine.core` in the engine thread. It decides and keeps the books; it moves no bytes: what `due` and `evict` return
is done by `engine.tiers`. A lease is no pin: pages of a session may vanish at any time, and that is never an error. Pure; the
clock is injected.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Final, NamedTuple

from engine.cached_page import CachedPage
from engine.errors import EngineError
from engine.misses import Departure, Misses, MissReason
from engine.pages import PagesCorrupt
from engine.session import TIERS, Retention, Session, rank
from engine.snapshot import PagesByTier, SessionState, SessionStatus
from engine.types import Namespace, NamespaceKind, Priority, SessionKey

__all__ = ["Demotion", "IllegalTransition", "Retention", "Session", "Sessions"]

TRANSITIONS: Final[frozenset[tuple[SessionState | None, SessionState | None]]] = frozenset(
    {
        (None, SessionState.ACTIVE),  # the first turn
        (None, SessionState.DISK),  # found at the start
        (SessionState.ACTIVE, SessionState.DEVICE),  # the last turn has ended
        (SessionState.ACTIVE, None),  # dropped; its turns were cancelled
        *((tier, SessionState.ACTIVE) for tier in TIERS),  # the next turn
        *(
            (tier, lower) for index, tier in enumerate(TIERS) for lower in (*TIERS[index + 1 :], None)
        ),  # timers, by hand
    }
)
"""Every change of state there is; None stands for a session that is not there."""


class IllegalTransition(EngineError):
    """A session was asked to do what its state does not allow: a bug of the caller."""


class Demotion(NamedTuple):
    """What is to be done with an idle session: its KV goes to a lower tier, or with None away for good."""

    session: Session
    to: SessionState | None


class Sessions:
    """Owns every session, its state and its timers. One reaper calls `due`; nothing happens by itself.

        None ─begin→ ACTIVE ─end→ DEVICE ─device_s→ HOST ─host_s→ DISK ─ttl_s→ None     all counted from the last turn
                       ↑ └──────────begin────┴────────┴─────────────┘

    `tiers` are those that exist, the device among them. Where one is missing a session goes on to the next that exists when it
    should have gone there, or away. After `ttl_s` it is gone in any case.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        device_s: float,
        host_s: float,
        ttl_s: float,
        tiers: Sequence[SessionState] = TIERS,
    ) -> None:
        if SessionState.DEVICE not in tiers or SessionState.ACTIVE in tiers:
            raise ValueError(f"the tiers are the device and any of host and disk, got {[tier.value for tier in tiers]}")
        self._clock = clock
        self._tiers = tuple(tier for tier in TIERS if tier in tiers)
        self._leave_after_s = {
            SessionState.DEVICE: min(device_s, ttl_s),
            SessionState.HOST: min(max(device_s, host_s), ttl_s),
            SessionState.DISK: ttl_s,
        }
        self._sessions: dict[SessionKey, Session] = {}
        # Times at which a session might be due, the earliest first. A turn makes an entry stale, and it is then passed over.
        self._timers: list[tuple[float, int, Session]] = []
        self._timer_order = count()
        self.misses = Misses()

    def __iter__(self) -> Iterator[Session]:
        return iter(tuple(self._sessions.values()))

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, key: SessionKey) -> Session | None:
        return self._sessions.get(key)

    def within(self, namespace: Namespace) -> list[Session]:
        """Every session of a namespace; of one without a part, also those of all its parts."""
        return [session for key, session in self._sessions.items() if namespace.covers(key.namespace)]

    def count_by_state(self) -> Counter[SessionState]:
        return Counter(session.state for session in self._sessions.values() if session.state is not None)

    # Turns

    def begin(self, key: SessionKey, priority: Priority) -> Session:
        """A turn of this session was taken. Every `begin` is followed by exactly one `end`, whatever becomes of the turn."""
        if key.namespace.kind is NamespaceKind.PUBLIC:
            raise IllegalTransition("the public namespace belongs to personas and has no turns")
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = Session(key)
        if session.state is not SessionState.ACTIVE:
            self._change(session, SessionState.ACTIVE)
        session.priority = priority
        session.running += 1
        # What was handed out before goes on for single pages, and no longer decides the state.
        session.is_leaving = False
        return session

    def commit(self, session: Session, tokens: list[int], cached_tokens: int, ttft_ms: float | None) -> None:
        """A turn has ended, cancelled ones too: `tokens` are the prompt and what was kept of the answer, as far as their KV was
        computed. Before `end`. A turn that was dropped before it came further than the last one takes nothing back. Of a
        session that has gone meanwhile nothing is kept."""
        if not session.running:
            raise IllegalTransition(f"a turn of a session in state {_named(session.state)} was committed")
        if session.state is None:
            return
        session.turns += 1
        session.cached_tokens = cached_tokens
        session.ttft_ms = ttft_ms
        committed = array("I", tokens)
        if committed and session.tokens[: len(committed)] != committed:
            session.tokens = committed
            session.num_tokens = len(committed)
            session.page_keys = []
            self.misses.came_back(session.key)

    def end(self, session: Session) -> None:
        """The counterpart of `begin`. A session that has nothing, because its only turn was dropped, leaves no trace."""
        if not session.running:
            raise IllegalTransition(f"a turn of a session in state {_named(session.state)} ended twice")
        session.running -= 1
        if session.state is None or session.running:
            return
        now = self._clock()
        session.last_turn_at = session.idle_since = now
        if session.held_at is not None:
            session.held_at = now
        if not session.num_tokens and not session.pages:
            self._change(session, None)
            del self._sessions[session.key]
            return
        self._change(session, SessionState.DEVICE)
        self._set_timer(session)

    def restore(self, key: SessionKey, num_tokens: int, idle_s: float, turns: int = 0) -> Session:
        """A session that was found on disk at the start, `idle_s` after its last turn."""
        if key in self._sessions:
            raise IllegalTransition("a session was found on disk that is there already")
        session = Session(key, num_tokens=num_tokens, turns=turns)
        session.last_turn_at = session.idle_since = self._clock() - idle_s
        self._change(session, SessionState.DISK)
        self._sessions[key] = session
        self._set_timer(session)
        return session

    def record_miss(
        self, key: SessionKey | None, prompt: Sequence[int], matched: int, *, disabled: bool = False
    ) -> MissReason | None:
        """Why no more than `matched` tokens of the prompt are reused, counted once, when a turn is first admitted."""
        session = self._sessions.get(key) if key is not None else None
        return self.misses.record(
            key,
            session.tokens if session is not None else (),
            session.num_tokens if session is not None else 0,
            array("I", prompt),
            matched,
            disabled=disabled,
        )

    # Timers

    def hold(self, session: Session) -> None:
        """Stop the timers: a person answers in the model's place. Idempotent."""
        if session.held_at is None:
            session.held_at = self._clock()

    def release(self, session: Session) -> None:
        """Timers go on where they stood. Idempotent."""
        if session.held_at is not None:
            session.idle_since += self._clock() - session.held_at
            session.held_at = None
            self._set_timer(session)

    def hold_key(self, key: SessionKey, *, is_held: bool) -> bool:
        """Hold or release the session of this key. False where there is none."""
        session = self._sessions.get(key)
        if session is not None:
            (self.hold if is_held else self.release)(session)
        return session is not None

    def due(self) -> list[Demotion]:
        """What the reaper does now: each demotion once, straight to the state that the idle time stands for."""
        now = self._clock()
        demotions = []
        while self._timers and self._timers[0][0] <= now:
            deadline, _, session = heappop(self._timers)
            if deadline != self._deadline(session):
                continue
            to = self._meant(session, now)
            session.leaving_to, session.is_leaving = to, True
            demotions.append(Demotion(session, to))
            self._set_timer(session)
        return demotions

    def next_due(self) -> float | None:
        """The time at which `due` has something; None while no timer runs."""
        while self._timers and self._timers[0][0] != self._deadline(self._timers[0][2]):
            heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def evict(self, session: Session) -> Demotion | None:
        """The next lower tier, by hand; None while ACTIVE, or where it is on its way out already."""
        place = self._place(session)
        if session.state is SessionState.ACTIVE or place is None:
            return None
        lower = [tier for tier in self._tiers if rank(tier) > rank(place)]
        session.leaving_to, session.is_leaving = (lower[0] if lower else None), True
        self._set_timer(session)
        return Demotion(session, session.leaving_to)

    def demoted(self, session: Session, state: SessionState) -> bool:
        """A demotion was carried out, as far as `state`, which may be lower than asked. False, and nothing changes, where a
        turn came in between. Where the session goes away for good, `remove` says so instead.
        """
        if not session.is_leaving:
            return False
        if session.state is not state:
            self._change(session, state)
        if rank(state) >= rank(session.leaving_to):
            session.is_leaving = False
            self._set_timer(session)
        return True

    def remove(self, session: Session, reason: Departure) -> None:
        """Forget a session, in any state, after `PrefixCache.disown`. Turns of it still pair `begin` with `end`, and publish
        nothing any more: its state is None."""
        self._change(session, None)
        del self._sessions[session.key]
        session.is_leaving = False
        self.misses.depart(session.key, reason, session.num_tokens)
        session.tokens, session.num_tokens, session.page_keys = array("I"), 0, []

    # What others see

    def status(self, session: Session) -> SessionStatus:
        now = self._clock()
        deadline = self._deadline(session)
        state = session.state
        if state is None:
            raise IllegalTransition("a session that has gone was asked for its status")
        return SessionStatus(
            key=session.key,
            state=state,
            priority=session.priority,
            turns=session.turns,
            tokens=session.num_tokens,
            pages=PagesByTier(
                device=sum(page.device is not None for page in session.pages),
                host=sum(page.host is not None for page in session.pages),
                disk=sum(page.disk is not None for page in session.pages),
            ),
            cached_tokens=session.cached_tokens,
            ttft_ms=session.ttft_ms,
            idle_s=0.0 if state is SessionState.ACTIVE else now - session.last_turn_at,
            seconds_to_timeout=max(0.0, deadline - now) if deadline < inf else None,
        )

    def check_integrity(self, pages: Iterable[CachedPage] = ()) -> None:
        """Raise PagesCorrupt unless states, owners and timers agree; `pages` are all that are indexed."""
        every_page = set(pages)
        timed = {(deadline, session) for deadline, _, session in self._timers}
        for key, session in self._sessions.items():
            every_page |= session.pages
            if session.key != key or session.state is None:
                raise PagesCorrupt(f"a session in state {_named(session.state)} is listed under a wrong key")
            if (session.state is SessionState.ACTIVE) != (session.running > 0):
                raise PagesCorrupt(f"a session with {session.running} turns is in state {session.state.value}")
            deadline = self._deadline(session)
            if deadline < inf and (deadline, session) not in timed:
                raise PagesCorrupt(f"a session in state {session.state.value} has no timer")
            if any(session not in page.owners for page in session.pages):
                raise PagesCorrupt("a session holds a page that does not know it")
        for page in every_page:
            for owner in page.owners:
                is_known = owner.retention is Retention.PREFIX or self._sessions.get(owner.key) is owner
                if page not in owner.pages or not is_known:
                    raise PagesCorrupt("a page is owned by a session that does not hold it")

    # Inside

    def _change(self, session: Session, state: SessionState | None) -> None:
        if (session.state, state) not in TRANSITIONS:
            raise IllegalTransition(f"a session cannot go from {_named(session.state)} to {_named(state)}")
        session.state = state

    def _place(self, session: Session) -> SessionState | None:
        """Where the session is, or is on its way to; None when that is out."""
        return session.leaving_to if session.is_leaving else session.state

    def _meant(self, session: Session, now: float) -> SessionState | None:
        """The first tier from its own on in which the session may still be."""
        place = self._place(session)
        for tier in self._tiers:
            if rank(tier) >= rank(place) and now < session.idle_since + self._leave_after_s[tier]:
                return tier
        return None

    def _deadline(self, session: Session) -> float:
        """When the session has to leave where it is; never while a turn runs, while it is held, and once it is on its way out."""
        place = self._place(session)
        if (
            session.state is None
            or place is None
            or session.state is SessionState.ACTIVE
            or session.held_at is not None
        ):
            return inf
        return session.idle_since + self._leave_after_s[place]

    def _set_timer(self, session: Session) -> None:
        deadline = self._deadline(session)
        if deadline == inf:
            return
        if len(self._timers) > 2 * len(self._sessions) + 64:
            every = ((self._deadline(each), next(self._timer_order), each) for each in self._sessions.values())
            self._timers = [timer for timer in every if timer[0] < inf]
            heapify(self._timers)
            return
        heappush(self._timers, (deadline, next(self._timer_order), session))


def _named(state: SessionState | None) -> str:
    return "gone" if state is None else state.value
