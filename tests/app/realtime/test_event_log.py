"""The log of one response: numbers without gap, nothing after the end, the same bytes back from every form."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.realtime.event_log import EventLog, rebuilt_log, restored_log

DELTA = "response.output_text.delta"


def log_of(*texts: str, ended: bool = False) -> EventLog:
    log = EventLog("conversation", "response")
    for text in texts:
        log.show([log.stage(DELTA, {"text": text})])
    if ended:
        log.show([log.stage("response.completed", {})])
    return log


def seqs(frames: list[bytes]) -> list[int]:
    return [msgspec.json.decode(frame)["seq"] for frame in frames]


def test_frames_are_numbered_from_one_without_a_gap() -> None:
    assert seqs(log_of("a", "b", "c", ended=True).frames_after(0, 100)) == [1, 2, 3, 4]


def test_a_frame_names_its_conversation_and_its_response() -> None:
    (frame,) = log_of("hé").frames_after(0, 1)
    assert msgspec.json.decode(frame) == {
        "type": DELTA,
        "conversation_id": "conversation",
        "response_id": "response",
        "seq": 1,
        "data": {"text": "hé"},
    }


def test_staged_frames_are_not_visible() -> None:
    log = log_of("a")
    log.stage(DELTA, {"text": "b"})
    assert (log.last_seq, log.staged_seq, log.snapshot().text) == (1, 2, "a")


def test_a_snapshot_is_the_text_up_to_its_seq() -> None:
    log = log_of("a", "b")
    assert (log.snapshot().text, log.snapshot().last_seq) == ("ab", 2)
    log.show([log.stage(DELTA, {"text": "c"})])
    assert (log.snapshot().text, log.snapshot().last_seq) == ("abc", 3)


def test_nothing_comes_after_the_terminal_frame() -> None:
    log = log_of("a")
    last = log.stage("response.cancelled", {})
    with pytest.raises(RuntimeError, match="terminal"):
        log.stage(DELTA, {"text": "b"})
    log.show([last])
    assert log.is_ended


def test_a_frame_out_of_order_is_refused() -> None:
    log = log_of()
    log.stage(DELTA, {"text": "a"})
    second = log.stage(DELTA, {"text": "b"})
    with pytest.raises(RuntimeError, match="shows 0 frames, and now came 2"):
        log.show([second])


def test_numbers_that_were_never_shown_are_given_again() -> None:
    log = log_of("a")
    log.stage(DELTA, {"text": "lost"})
    log.unstage()
    assert log.stage("response.failed", {}).seq == 2


@given(st.lists(st.text(min_size=1), max_size=20))
def test_a_stored_log_comes_back_byte_for_byte(texts: list[str]) -> None:
    log = log_of(*texts, ended=True)
    restored = restored_log("conversation", "response", log.stored())
    assert restored.frames_after(0, 1000) == log.frames_after(0, 1000)
    assert restored.is_ended


@given(st.lists(st.text(min_size=1), max_size=20), st.integers(0, 25))
def test_a_log_is_rebuilt_from_journaled_frames_up_to_the_first_gap(texts: list[str], gap: int) -> None:
    frames = log_of(*texts).frames_after(0, 1000)
    rebuilt = rebuilt_log("conversation", "response", frames[:gap] + frames[gap + 1 :])
    assert rebuilt.frames_after(0, 1000) == frames[:gap]
    assert rebuilt.snapshot().text == "".join(texts[:gap])
    assert rebuilt.stage("response.interrupted", {}).seq == min(gap, len(frames)) + 1
