"""Readers keep their own place, subscribers hear of what begins, and every registry empties itself."""

from __future__ import annotations

import msgspec
import pytest

from app.realtime.event_log import EventLog
from app.realtime.hub import Hub
from app.realtime.protocol import CloseCode


class Tab:
    """A subscriber and a socket that notes what it is told."""

    def __init__(self, credential_id: str = "credential") -> None:
        self.user_id = "user"
        self.credential_id = credential_id
        self.delivered: list[dict[str, object]] = []
        self.followed: list[EventLog] = []
        self.closed: list[tuple[int, str]] = []

    def deliver(self, frame: bytes) -> None:
        self.delivered.append(msgspec.json.decode(frame))

    def follow(self, log: EventLog) -> None:
        self.followed.append(log)

    def close(self, code: CloseCode, reason: str) -> None:
        self.closed.append((code, reason))


@pytest.fixture
def hub() -> Hub:
    return Hub()


def running(hub: Hub, conversation_id: str = "c1", response_id: str = "r1") -> EventLog:
    log = EventLog(conversation_id, response_id)
    hub.open_log(log)
    return log


def show(hub: Hub, log: EventLog, text: str) -> None:
    hub.show(log, [log.stage("response.output_text.delta", {"text": text})])


def end(hub: Hub, log: EventLog) -> None:
    hub.show(log, [log.stage("response.completed", {})])


def test_readers_at_different_places_get_every_frame_once(hub: Hub) -> None:
    log = running(hub)
    show(hub, log, "a")
    early, late = hub.read(log, 0, lambda: None), hub.read(log, 1, lambda: None)
    show(hub, log, "b")
    end(hub, log)
    assert len(early.take(2)) == 2
    assert len(early.take(10)) == 1
    assert early.is_exhausted
    assert len(late.take(10)) == 2


def test_a_reader_is_woken_when_there_is_more(hub: Hub) -> None:
    log, woken = running(hub), []
    hub.read(log, 0, lambda: woken.append(1))
    show(hub, log, "a")
    assert woken == [1]


def test_an_ended_log_stays_until_its_last_reader_has_left(hub: Hub) -> None:
    log = running(hub)
    cursor = hub.read(log, 0, lambda: None)
    end(hub, log)
    assert hub.log("r1") is log
    cursor.close()
    cursor.close()
    assert hub.log("r1") is None
    assert set(hub.sizes().values()) == {0}


def test_an_ended_log_without_readers_goes_at_once(hub: Hub) -> None:
    end(hub, running(hub))
    assert set(hub.sizes().values()) == {0}


def test_subscribers_follow_what_begins_in_their_conversation_and_nothing_else(hub: Hub) -> None:
    here, elsewhere = Tab(), Tab()
    hub.subscribe("c1", here)
    hub.subscribe("c2", elsewhere)
    log = running(hub, "c1")
    hub.announce("c1", "message.created", {"message": 1})
    assert here.followed == [log]
    assert [frame["type"] for frame in here.delivered] == ["message.created"]
    assert (elsewhere.followed, elsewhere.delivered) == ([], [])


def test_the_one_who_was_told_already_is_not_told_twice(hub: Hub) -> None:
    sender, other = Tab(), Tab()
    for tab in (sender, other):
        hub.subscribe("c1", tab)
    hub.announce("c1", "message.created", {}, beside=sender)
    assert (len(sender.delivered), len(other.delivered)) == (0, 1)


def test_unsubscribing_leaves_nothing_behind(hub: Hub) -> None:
    tab = Tab()
    hub.subscribe("c1", tab)
    hub.subscribe("c1", tab)
    hub.unsubscribe("c1", tab)
    hub.unsubscribe("c1", tab)
    assert set(hub.sizes().values()) == {0}


def test_running_logs_are_those_that_have_not_ended(hub: Hub) -> None:
    first, second = running(hub, "c1", "r1"), running(hub, "c1", "r2")
    hub.read(first, 0, lambda: None)
    end(hub, first)
    assert hub.running_logs("c1") == [second]


def test_it_tells_when_a_running_answer_gets_and_loses_its_readers(hub: Hub) -> None:
    told: list[tuple[str, bool]] = []
    hub.on_watched(lambda log, watched: told.append((log.response_id, watched)))
    log = running(hub)
    one, two = hub.read(log, 0, lambda: None), hub.read(log, 0, lambda: None)
    one.close()
    two.close()
    assert told == [("r1", True), ("r1", False)]
    last = hub.read(log, 0, lambda: None)
    end(hub, log)
    last.close()
    assert told == [("r1", True), ("r1", False), ("r1", True)]


def test_only_the_sockets_of_a_revoked_sign_in_are_closed(hub: Hub) -> None:
    revoked, other = Tab("one"), Tab("two")
    for tab in (revoked, other):
        hub.add_socket(tab)
    hub.close_credential("one")
    assert (revoked.closed, other.closed) == ([(4001, "revoked")], [])
