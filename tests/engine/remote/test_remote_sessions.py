"""What is listed of sessions whose KV is elsewhere."""

from __future__ import annotations

from dataclasses import replace

from engine.remote.sessions import RemoteSessions
from engine.snapshot import PagesByTier, SessionState
from engine.types import GenerationRequest, Namespace, RequestId, SessionKey, Usage

USAGE = Usage(input_tokens=10, cached_tokens=4, output_tokens=5, ttft_ms=3.0)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def turn(session: str | None = "c1", user: str = "ann") -> GenerationRequest:
    return GenerationRequest(RequestId("r"), (), namespace=Namespace.user(user), session=session)


def test_only_what_is_known_is_told() -> None:
    sessions = RemoteSessions(100.0, clock := Clock())
    sessions.begin(turn())
    (active,) = sessions.states()
    assert (active.state, active.idle_s) == (SessionState.ACTIVE, 0.0)
    sessions.end(turn(), USAGE)
    clock.now = 7.0
    (idle,) = sessions.states()
    assert (idle.state, idle.turns, idle.tokens, idle.cached_tokens, idle.idle_s) == (
        SessionState.DEVICE,
        1,
        15,
        4,
        7.0,
    )
    assert (idle.pages, idle.seconds_to_timeout) == (PagesByTier(), None)
    assert dict(sessions.counts()) == {"active": 0, "device": 1}


def test_a_session_is_listed_for_its_time_and_never_ends_while_a_turn_runs() -> None:
    sessions = RemoteSessions(100.0, clock := Clock())
    for name in ("c1", "c2"):
        sessions.begin(turn(name))
    sessions.end(turn("c1"), USAGE)
    clock.now = 100.0
    assert [status.key.name for status in sessions.states()] == ["c2"]
    assert sessions.expired_total == 1
    assert not sessions.drop(SessionKey(Namespace.user("ann"), "c1"))


def test_a_turn_of_which_nothing_is_kept_leaves_no_session() -> None:
    sessions = RemoteSessions(100.0, Clock())
    sessions.begin(turn())
    sessions.end(turn(), None)
    assert list(sessions.states()) == []
    sessions.begin(turn())
    sessions.end(turn(), USAGE)
    sessions.begin(turn())
    sessions.end(turn(), None)
    assert [status.turns for status in sessions.states()] == [1]
    sessions.begin(replace(turn(), session=None))
    assert dict(sessions.counts()) == {"active": 0, "device": 1}


def test_the_list_has_a_bound() -> None:
    sessions = RemoteSessions(100.0, Clock(), sessions_max=3)
    for name in "abcd":
        sessions.begin(turn(name))
        sessions.end(turn(name), USAGE)
    assert [status.key.name for status in sessions.states()] == ["b", "c", "d"]
    assert sessions.drop_namespace(Namespace.user("ann")) == 3
