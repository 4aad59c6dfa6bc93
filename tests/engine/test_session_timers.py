"""Sessions in any order of turns, waits and acts: no timer fires early or late, and the books agree after every step."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.misses import Departure
from engine.session import TIERS, rank
from engine.sessions import Session, Sessions
from engine.snapshot import SessionState
from engine.types import Namespace, Priority, SessionKey
from tests.support.clock import SteppedClock

ANNA = Namespace.user("anna")
DEVICE, HOST, DISK, ACTIVE = SessionState.DEVICE, SessionState.HOST, SessionState.DISK, SessionState.ACTIVE


class AnyOrder(RuleBasedStateMachine):
    """The model: when each idle session was last used, how low it is, and for how long it was held."""

    @initialize(
        tiers=st.sampled_from([TIERS, (DEVICE, HOST), (DEVICE, DISK), (DEVICE,)]),
        limits=st.sampled_from([(3, 7, 12), (0, 0, 12), (3, 3, 3), (5, 4, 9), (8, 8, 6)]),
    )
    def start(self, tiers: tuple[SessionState, ...], limits: tuple[int, int, int]) -> None:
        self.clock = SteppedClock()
        device_s, host_s, ttl_s = limits
        self.sessions = Sessions(self.clock.monotonic, device_s, host_s, ttl_s, tiers)
        self.tiers = tiers
        self.until = {DEVICE: min(device_s, ttl_s), HOST: min(max(host_s, device_s), ttl_s), DISK: ttl_s}
        self.idle: dict[SessionKey, float] = {}
        self.lowest: dict[SessionKey, SessionState] = {}
        self.held: dict[SessionKey, float] = {}
        self.running: list[Session] = []

    names = st.integers(0, 2).map(lambda number: SessionKey(ANNA, str(number)))

    @rule(key=names, priority=st.sampled_from(Priority))
    def begin(self, key: SessionKey, priority: Priority) -> None:
        self.running.append(self.sessions.begin(key, priority))
        self.idle.pop(key, None)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), tokens=st.integers(0, 30))
    def end(self, data: st.DataObject, tokens: int) -> None:
        session = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        self.sessions.commit(session, list(range(tokens)), 0, None)
        self.sessions.end(session)
        key = session.key
        if session.state is None and self.sessions.get(key) is None:
            self._forget(key)
        if session.state is None or session.running:
            return
        assert self.sessions.get(key) is session
        self.idle[key] = self.clock.monotonic()
        self.lowest[key] = DEVICE
        if key in self.held:
            self.held[key] = self.clock.monotonic()

    @rule(seconds=st.integers(0, 5))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @precondition(lambda self: len(self.sessions) > len(self.held))
    @rule(data=st.data())
    def hold(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from([session.key for session in self.sessions if session.key not in self.held]))
        session = self.sessions.get(key)
        if session is not None:
            self.sessions.hold(session)
            self.held[key] = self.clock.monotonic()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(list(self.held)))
        session = self.sessions.get(key)
        if session is not None:
            self.sessions.release(session)
            since = self.held.pop(key)
            if key in self.idle:
                self.idle[key] += self.clock.monotonic() - since

    @rule(key=names)
    def evict(self, key: SessionKey) -> None:
        session = self.sessions.get(key)
        demotion = self.sessions.evict(session) if session is not None else None
        if key in self.idle:
            lower = [tier for tier in self.tiers if rank(tier) > rank(self.lowest[key])]
            assert demotion == (session, lower[0] if lower else None)
            self._carry_out(demotion.session, demotion.to)
        else:
            assert demotion is None

    @rule(key=names)
    def drop(self, key: SessionKey) -> None:
        session = self.sessions.get(key)
        if session is not None:
            self.sessions.remove(session, Departure.DROPPED)
            self._forget(key)

    @rule(key=names, idle_s=st.integers(0, 14))
    def restore(self, key: SessionKey, idle_s: int) -> None:
        if DISK in self.tiers and self.sessions.get(key) is None:
            self.sessions.restore(key, 10, idle_s)
            self.idle[key], self.lowest[key] = self.clock.monotonic() - idle_s, DISK

    @rule()
    def reap(self) -> None:
        expected = {key: to for key in self.idle if (to := self._meant(key)) is not self.lowest[key]}
        demotions = self.sessions.due()
        assert {session.key: to for session, to in demotions} == expected
        assert len(demotions) == len(expected)
        for session, to in demotions:
            self._carry_out(session, to)
        assert self.sessions.due() == []

    @invariant()
    def next_due_is_right(self) -> None:
        deadlines = [since + self.until[self.lowest[key]] for key, since in self.idle.items() if key not in self.held]
        assert self.sessions.next_due() == min(deadlines, default=None)

    @invariant()
    def books_agree(self) -> None:
        self.sessions.check_integrity()
        for session in self.sessions:
            if session.key in self.idle:
                assert session.state is self.lowest[session.key]
            else:
                assert session.state is ACTIVE
        assert {session.key for session in self.sessions} >= set(self.idle)

    def _meant(self, key: SessionKey) -> SessionState | None:
        if key in self.held:
            return self.lowest[key]
        idle_s = self.clock.monotonic() - self.idle[key]
        allowed = [tier for tier in self.tiers if rank(tier) >= rank(self.lowest[key]) and idle_s < self.until[tier]]
        return allowed[0] if allowed else None

    def _carry_out(self, session: Session, to: SessionState | None) -> None:
        if to is None:
            self.sessions.remove(session, Departure.EXPIRED)
            self._forget(session.key)
        else:
            assert self.sessions.demoted(session, to)
            self.lowest[session.key] = to

    def _forget(self, key: SessionKey) -> None:
        for book in (self.idle, self.lowest, self.held):
            book.pop(key, None)


AnyOrder.TestCase.settings = settings(max_examples=400, stateful_step_count=60, deadline=None)
TestAnyOrder = AnyOrder.TestCase
