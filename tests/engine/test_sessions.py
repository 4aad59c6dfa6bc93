"""States, timers and miss reasons of sessions, with a clock that stands still until a test moves it."""

from __future__ import annotations

from math import inf

import pytest

from engine.cached_page import NOBODY, CachedPage, SlotId, StoredPage
from engine.misses import Departure
from engine.packed_tokens import pack_tokens
from engine.page_keys import PageKey
from engine.pages import PageId, PagesCorrupt
from engine.session import TIERS, Retention, rank
from engine.sessions import TRANSITIONS, IllegalTransition, Session, Sessions
from engine.snapshot import PagesByTier, SessionState
from engine.types import Namespace, Priority, SessionKey
from tests.support.clock import SteppedClock

ANNA = Namespace.user("anna")
KEY = SessionKey(ANNA, "her first")
DEVICE, HOST, DISK, ACTIVE = SessionState.DEVICE, SessionState.HOST, SessionState.DISK, SessionState.ACTIVE


def sessions_with(clock: SteppedClock, *tiers: SessionState) -> Sessions:
    return Sessions(clock.monotonic, device_s=300, host_s=1800, ttl_s=86400, tiers=tiers or TIERS)


def a_turn(sessions: Sessions, key: SessionKey = KEY, tokens: int = 40) -> Session:
    session = sessions.begin(key, Priority.INTERACTIVE)
    sessions.commit(session, list(range(tokens)), cached_tokens=0, ttft_ms=12.0)
    sessions.end(session)
    return session


def a_page(*owners: Session, index: int = 0) -> CachedPage:
    page = CachedPage(PageKey(bytes(32)), PageKey(bytes(32)), ANNA, index, pack_tokens((1, 2, 3)), frozenset(owners))
    for owner in owners:
        owner.pages.add(page)
    return page


def carry_out(sessions: Sessions) -> list[SessionState | None]:
    """What the engine does with what is due."""
    demotions = sessions.due()
    for session, to in demotions:
        if to is None:
            sessions.remove(session, Departure.EXPIRED)
        else:
            assert sessions.demoted(session, to)
    return [to for _, to in demotions]


# Timers


def test_an_idle_session_goes_down_tier_by_tier_and_away() -> None:
    clock = SteppedClock()
    sessions = sessions_with(clock)
    session = a_turn(sessions)
    seen = []
    for at in (299.9, 300, 300, 1799, 1800, 86399, 86400):
        clock.advance(at - clock.monotonic())
        seen.append((at, carry_out(sessions)))
    assert seen == [
        (299.9, []), (300, [HOST]), (300, []), (1799, []), (1800, [DISK]), (86399, []), (86400, [None])
    ]  # fmt: skip
    assert session.state is None
    assert len(sessions) == 0
    assert sessions.next_due() is None


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ((DEVICE, HOST, DISK), [(300.0, HOST), (1800.0, DISK), (86400.0, None)]),
        ((DEVICE, DISK), [(300.0, DISK), (86400.0, None)]),
        ((DEVICE, HOST), [(300.0, HOST), (1800.0, None)]),
        ((DEVICE,), [(300.0, None)]),
    ],
)
def test_a_tier_that_does_not_exist_is_passed_over(
    tiers: tuple[SessionState, ...], expected: list[tuple[float, SessionState | None]]
) -> None:
    clock = SteppedClock()
    sessions = sessions_with(clock, *tiers)
    a_turn(sessions)
    seen = []
    while (deadline := sessions.next_due()) is not None:
        clock.advance(deadline - clock.monotonic())
        seen += [(deadline, to) for to in carry_out(sessions)]
    assert seen == expected


def test_after_a_long_sleep_of_the_machine_a_session_goes_straight_to_where_it_belongs() -> None:
    clock = SteppedClock()
    sessions = sessions_with(clock)
    a_turn(sessions)
    clock.advance(5000)
    assert carry_out(sessions) == [DISK]
    assert carry_out(sessions) == []
    assert sessions.next_due() == 86400


def test_a_life_shorter_than_the_other_timers_ends_it_all_the_same() -> None:
    clock = SteppedClock()
    sessions = Sessions(clock.monotonic, device_s=300, host_s=100, ttl_s=60)
    a_turn(sessions)
    assert sessions.next_due() == 60
    clock.advance(60)
    assert carry_out(sessions) == [None]


def test_a_timer_without_end_never_fires() -> None:
    clock = SteppedClock()
    sessions = Sessions(clock.monotonic, device_s=inf, host_s=inf, ttl_s=inf)
    a_turn(sessions)
    clock.advance(1e9)
    assert sessions.next_due() is None
    assert sessions.due() == []


def test_a_turn_begins_the_time_anew() -> None:
    clock = SteppedClock()
    sessions = sessions_with(clock)
    a_turn(sessions)
    clock.advance(299)
    session = sessions.begin(KEY, Priority.INTERACTIVE)
    assert sessions.next_due() is None
    clock.advance(100_000)
    assert sessions.due() == []
    sessions.end(session)
    assert sessions.next_due() == clock.monotonic() + 300


def test_a_turn_that_comes_while_a_session_is_moved_has_the_last_word() -> None:
    clock = SteppedClock()
    sessions = sessions_with(clock)
    session = a_turn(sessions)
    clock.advance(300)
    assert [to for _, to in sessions.due()] == [HOST]
    sessions.begin(KEY, Priority.INTERACTIVE)
    assert not sessions.demoted(session, HOST)
    assert session.state is ACTIVE
    sessions.end(session)
    assert not sessions.demoted(session, HOST)
    assert session.state is DEVICE


def test_a_demotion_that_is_still_under_way_is_not_handed_out_again() -> None:
    clock = SteppedClock()
    sessions = sessions_with(clock)
    session = a_turn(sessions)
    clock.advance(300)
    assert len(sessions.due()) == 1
    clock.advance(60)
    assert sessions.due() == []
    assert sessions.next_due() == 1800
    clock.advance(1500)
    assert [to for _, to in sessions.due()] == [DISK]
    assert sessions.demoted(session, HOST)
    assert sessions.due() == []
    assert sessions.demoted(session, DISK)


def test_a_demotion_may_end_lower_than_it_was_meant_to() -> None:
    clock = SteppedClock()
    sessions = sessions_with(clock)
    session = a_turn(sessions)
    clock.advance(300)
    sessions.due()
    assert sessions.demoted(session, DISK)
    assert sessions.next_due() == 86400


def test_held_sessions_stand_still_and_go_on_where_they_stood() -> None:
    clock = SteppedClock()
    sessions = sessions_with(clock)
    session = a_turn(sessions)
    clock.advance(100)
    sessions.hold(session)
    sessions.hold(session)
    assert sessions.status(session).seconds_to_timeout is None
    clock.advance(50_000)
    assert sessions.due() == []
    sessions.release(session)
    sessions.release(session)
    assert sessions.status(session).seconds_to_timeout == 200
    clock.advance(200)
    assert carry_out(sessions) == [HOST]


def test_a_turn_of_a_held_session_does_not_start_its_timers() -> None:
    clock = SteppedClock()
    sessions = sessions_with(clock)
    session = a_turn(sessions)
    sessions.hold(session)
    clock.advance(1000)
    a_turn(sessions)
    clock.advance(1000)
    assert sessions.due() == []
    sessions.release(session)
    assert sessions.status(session).seconds_to_timeout == 300


# Turns


def test_a_turn_is_dropped_at_each_stage_and_the_next_one_begins_at_once() -> None:
    """sgl-project/sglang#31765: a session stayed busy after a turn that nobody waited for."""
    sessions = sessions_with(SteppedClock())
    sessions.end(sessions.begin(KEY, Priority.INTERACTIVE))
    assert sessions.get(KEY) is None, "a first turn that was dropped while it waited leaves nothing"
    session = a_turn(sessions, tokens=40)
    sessions.end(sessions.begin(KEY, Priority.INTERACTIVE))
    assert session.tokens.tolist() == list(range(40)), "dropped while it waited"
    sessions.begin(KEY, Priority.INTERACTIVE)
    sessions.commit(session, list(range(30)), 30, None)
    sessions.end(session)
    assert session.tokens.tolist() == list(range(40)), "dropped before it came further than the turn before"
    sessions.begin(KEY, Priority.INTERACTIVE)
    sessions.commit(session, list(range(55)), 40, 3.0)
    sessions.end(session)
    assert session.tokens.tolist() == list(range(55)), "what was shown is kept"
    assert sessions.begin(KEY, Priority.INTERACTIVE) is session


def test_a_turn_that_ends_twice_is_a_bug() -> None:
    sessions = sessions_with(SteppedClock())
    session = a_turn(sessions)
    with pytest.raises(IllegalTransition, match="a turn of a session in state device ended twice"):
        sessions.end(session)
    with pytest.raises(IllegalTransition, match="was committed"):
        sessions.commit(session, [1], 0, None)


def test_two_turns_at_once_keep_a_session_active_until_both_have_ended() -> None:
    sessions = sessions_with(SteppedClock())
    session = sessions.begin(KEY, Priority.INTERACTIVE)
    assert sessions.begin(KEY, Priority.BOT) is session
    sessions.commit(session, [1, 2], 0, 1.0)
    sessions.end(session)
    assert session.state is ACTIVE
    sessions.end(session)
    assert session.state is DEVICE


def test_a_session_removed_under_a_running_turn_stays_removed() -> None:
    sessions = sessions_with(SteppedClock())
    old = a_turn(sessions)
    sessions.begin(KEY, Priority.INTERACTIVE)
    sessions.remove(old, Departure.DROPPED)
    new = sessions.begin(KEY, Priority.INTERACTIVE)
    assert new is not old
    sessions.commit(old, [1, 2, 3], 0, 1.0)
    sessions.end(old)
    assert old.state is None
    assert not old.tokens
    assert sessions.get(KEY) is new
    assert new.state is ACTIVE


def test_the_public_namespace_has_no_turns() -> None:
    with pytest.raises(IllegalTransition):
        sessions_with(SteppedClock()).begin(SessionKey(Namespace.public(), "cook"), Priority.INTERACTIVE)


def test_every_change_of_state_that_is_not_listed_is_refused() -> None:
    sessions = sessions_with(SteppedClock())
    session = a_turn(sessions)
    sessions.evict(session)
    sessions.demoted(session, DISK)
    sessions.evict(session)
    with pytest.raises(IllegalTransition, match="a session cannot go from disk to host"):
        sessions.demoted(session, HOST)
    assert all(lower is ACTIVE or rank(lower) > rank(upper) for upper, lower in TRANSITIONS if upper in TIERS)
    assert {upper for upper, lower in TRANSITIONS if lower is ACTIVE} == {None, *TIERS}


# By hand


def test_evicting_by_hand_goes_one_tier_down_and_the_timers_go_on_from_there() -> None:
    clock = SteppedClock()
    sessions = sessions_with(clock)
    session = a_turn(sessions)
    demotion = sessions.evict(session)
    assert demotion == (session, HOST)
    sessions.demoted(session, HOST)
    clock.advance(300)
    assert sessions.due() == [], "it is there already"
    assert sessions.next_due() == 1800
    assert sessions.evict(session) == (session, DISK)
    assert sessions.evict(session) == (session, None)
    assert sessions.evict(session) is None, "it is on its way out"


def test_an_active_session_is_not_evicted() -> None:
    sessions = sessions_with(SteppedClock())
    session = sessions.begin(KEY, Priority.INTERACTIVE)
    assert sessions.evict(session) is None
    sessions.check_integrity()


def test_a_session_found_on_disk_has_used_up_the_time_it_was_idle() -> None:
    clock = SteppedClock()
    sessions = sessions_with(clock)
    session = sessions.restore(KEY, num_tokens=1000, idle_s=86_000)
    assert session.state is DISK
    assert sessions.status(session).seconds_to_timeout == 400
    with pytest.raises(IllegalTransition):
        sessions.restore(KEY, num_tokens=1, idle_s=0)
    sessions.restore(SessionKey(ANNA, "older"), num_tokens=10, idle_s=90_000)
    assert carry_out(sessions) == [None]
    clock.advance(400)
    assert carry_out(sessions) == [None]


def test_a_namespace_without_a_part_stands_for_all_its_parts() -> None:
    sessions = sessions_with(SteppedClock())
    whole, part, other = ANNA, Namespace.user("anna", "customer"), Namespace.user("ann")
    for namespace in (whole, part, other):
        a_turn(sessions, SessionKey(namespace, "chat"))
    assert {session.key.namespace for session in sessions.within(whole)} == {whole, part}
    assert {session.key.namespace for session in sessions.within(part)} == {part}


# Retention and what others see


def test_the_more_a_person_waits_the_longer_pages_are_kept() -> None:
    sessions = sessions_with(SteppedClock())
    classes = [
        Retention.NOBODY,
        sessions.begin(SessionKey(ANNA, "1"), Priority.BACKGROUND).retention,
        sessions.begin(SessionKey(ANNA, "2"), Priority.BOT).retention,
        sessions.begin(SessionKey(ANNA, "3"), Priority.INTERACTIVE).retention,
        Session.of_prefix("cook").retention,
    ]
    assert classes == sorted(set(classes))


def test_a_page_stays_while_another_owner_wants_it_where_it_is() -> None:
    sessions = sessions_with(SteppedClock())
    first, second = a_turn(sessions), a_turn(sessions, SessionKey(ANNA, "a branch of it"))
    persona = Session.of_prefix("cook")
    own, shared, public = a_page(first), a_page(first, second), a_page(first, persona)
    assert set(first.pages_leaving(HOST)) == {own}
    sessions.evict(second)
    sessions.demoted(second, HOST)
    assert set(first.pages_leaving(HOST)) == {own, shared}
    assert set(first.pages_leaving(DISK)) == {own}
    assert public.owners == {first, persona}


def test_the_status_tells_everything_about_a_session() -> None:
    clock = SteppedClock()
    sessions = sessions_with(clock)
    session = a_turn(sessions)
    for index, page in enumerate(a_page(session, index=index) for index in range(3)):
        page.device = PageId(index)
        page.host = SlotId(index) if index else None
        page.disk = StoredPage("segment", index) if index == 2 else None
    clock.advance(10)
    status = sessions.status(session)
    assert (status.state, status.turns, status.tokens, status.ttft_ms) == (DEVICE, 1, 40, 12.0)
    assert status.pages == PagesByTier(device=3, host=2, disk=1)
    assert (status.idle_s, status.seconds_to_timeout) == (10, 290)
    sessions.begin(KEY, Priority.INTERACTIVE)
    assert (sessions.status(session).idle_s, sessions.status(session).seconds_to_timeout) == (0, None)
    assert sessions.count_by_state() == {ACTIVE: 1}


def test_the_integrity_check_sees_owners_that_do_not_agree() -> None:
    sessions = sessions_with(SteppedClock())
    session = a_turn(sessions)
    page = a_page(session)
    sessions.check_integrity([page])
    page.owners = NOBODY
    with pytest.raises(PagesCorrupt, match="a page that does not know it"):
        sessions.check_integrity([page])
    page.owners = session.alone
    sessions.remove(session, Departure.EVICTED)
    with pytest.raises(PagesCorrupt, match="owned by a session that does not hold it"):
        sessions.check_integrity([page])
