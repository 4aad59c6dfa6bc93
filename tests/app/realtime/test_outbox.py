"""The outbox is a bounded queue."""

from __future__ import annotations

from app.realtime.outbox import Outbox


def test_frames_leave_in_the_order_they_came() -> None:
    outbox = Outbox(3)
    assert all(outbox.put(frame) for frame in (b"1", b"2", b"3"))
    assert [outbox.take(), outbox.take(), outbox.take(), outbox.take()] == [b"1", b"2", b"3", None]


def test_a_full_outbox_takes_no_more() -> None:
    outbox = Outbox(1)
    assert outbox.put(b"1")
    assert not outbox.put(b"2")
    assert len(outbox) == 1
