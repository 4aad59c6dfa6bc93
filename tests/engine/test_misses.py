"""Why a prompt was not found as far as it might have been: every miss carries a reason (ggml-org/llama.cpp#15082)."""

from __future__ import annotations

from engine.misses import Departure, MissReason
from engine.sessions import Session, Sessions
from engine.types import Namespace, Priority, SessionKey
from tests.support.clock import SteppedClock

ANNA = Namespace.user("anna")
KEY = SessionKey(ANNA, "her first")
PROMPT = [*range(40), 90, 91]


def sessions_with(clock: SteppedClock) -> Sessions:
    return Sessions(clock.monotonic, device_s=300, host_s=1800, ttl_s=86400)


def a_turn(sessions: Sessions, tokens: int = 40) -> Session:
    session = sessions.begin(KEY, Priority.INTERACTIVE)
    sessions.commit(session, list(range(tokens)), cached_tokens=0, ttft_ms=12.0)
    sessions.end(session)
    return session


def reason_of(sessions: Sessions, prompt: list[int], matched: int, **how: bool) -> tuple[MissReason | None, int]:
    before = sum(sessions.misses.reprefilled_tokens.values())
    reason = sessions.record_miss(KEY, prompt, matched, **how)
    return reason, sum(sessions.misses.reprefilled_tokens.values()) - before


def test_a_turn_that_finds_all_of_its_history_misses_nothing() -> None:
    sessions = sessions_with(SteppedClock())
    a_turn(sessions, tokens=40)
    assert reason_of(sessions, PROMPT, matched=40) == (None, 0)
    assert reason_of(sessions, PROMPT[:40], matched=39) == (None, 0), "the last token is computed for its logits"
    assert reason_of(sessions, PROMPT[:20], matched=19) == (None, 0), "back to an earlier turn"


def test_the_first_turn_is_cold_and_computes_nothing_again() -> None:
    sessions = sessions_with(SteppedClock())
    assert reason_of(sessions, PROMPT, matched=0) == (MissReason.COLD, 0)
    assert reason_of(sessions, PROMPT, matched=16) == (MissReason.COLD, 0)
    sessions.begin(KEY, Priority.INTERACTIVE)
    assert reason_of(sessions, PROMPT, matched=0) == (MissReason.COLD, 0)
    assert sessions.record_miss(None, PROMPT, 0) is MissReason.COLD
    assert not sessions.misses.reprefilled_tokens


def test_pages_that_left_under_pressure_are_evicted_tokens() -> None:
    sessions = sessions_with(SteppedClock())
    session = a_turn(sessions, tokens=40)
    assert reason_of(sessions, PROMPT, matched=16) == (MissReason.EVICTED, 24)
    sessions.remove(session, Departure.EVICTED)
    assert reason_of(sessions, PROMPT, matched=16) == (MissReason.EVICTED, 24)
    a_turn(sessions, tokens=40)
    assert reason_of(sessions, PROMPT, matched=40) == (None, 0)


def test_a_session_whose_time_was_over_says_so_until_it_is_back() -> None:
    clock = SteppedClock()
    sessions = sessions_with(clock)
    a_turn(sessions, tokens=40)
    clock.advance(86400)
    for gone, to in sessions.due():
        assert to is None
        sessions.remove(gone, Departure.EXPIRED)
    sessions.end(sessions.begin(KEY, Priority.INTERACTIVE))
    assert reason_of(sessions, PROMPT, matched=0) == (MissReason.EXPIRED, 40)
    a_turn(sessions, tokens=40)
    assert reason_of(sessions, PROMPT, matched=0) == (MissReason.EVICTED, 40)
    assert sessions.misses.departures == {Departure.EXPIRED: 1}


def test_a_session_made_by_another_model_is_a_version_miss() -> None:
    sessions = sessions_with(SteppedClock())
    sessions.misses.depart(KEY, Departure.VERSION, 30)
    assert reason_of(sessions, PROMPT, matched=0) == (MissReason.VERSION, 30)


def test_a_prompt_that_leaves_the_committed_tokens_midway_is_a_template_miss() -> None:
    sessions = sessions_with(SteppedClock())
    a_turn(sessions, tokens=40)
    changed = [*range(30), *range(100, 120)]
    assert reason_of(sessions, changed, matched=30) == (MissReason.TEMPLATE, 10)
    assert reason_of(sessions, changed, matched=40) == (None, 0), "another branch of the same history was there"
    assert reason_of(sessions, changed, matched=10) == (MissReason.EVICTED, 20)


def test_with_reuse_switched_off_every_miss_says_so() -> None:
    sessions = sessions_with(SteppedClock())
    assert reason_of(sessions, PROMPT, matched=0, disabled=True) == (MissReason.DISABLED, 0)
    a_turn(sessions, tokens=40)
    assert reason_of(sessions, PROMPT, matched=0, disabled=True) == (MissReason.DISABLED, 40)


def test_a_session_that_was_dropped_on_purpose_is_forgotten_like_one_never_seen() -> None:
    sessions = sessions_with(SteppedClock())
    session = a_turn(sessions)
    sessions.remove(session, Departure.DROPPED)
    assert reason_of(sessions, PROMPT, matched=0) == (MissReason.COLD, 0)


def test_after_a_restart_the_count_alone_says_what_was_lost() -> None:
    sessions = sessions_with(SteppedClock())
    sessions.restore(KEY, num_tokens=40, idle_s=0)
    assert reason_of(sessions, PROMPT, matched=40) == (None, 0)
    assert reason_of(sessions, PROMPT, matched=32) == (MissReason.EVICTED, 8)


def test_only_so_many_sessions_that_have_gone_are_remembered() -> None:
    sessions = sessions_with(SteppedClock())
    for number in range(5000):
        sessions.misses.depart(SessionKey(ANNA, str(number)), Departure.EVICTED, 8)
    assert sessions.record_miss(SessionKey(ANNA, "0"), PROMPT, 0) is MissReason.COLD
    assert sessions.record_miss(SessionKey(ANNA, "4999"), PROMPT, 0) is MissReason.EVICTED
