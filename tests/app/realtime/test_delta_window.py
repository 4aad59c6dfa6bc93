"""Text is gathered into frames: the first at once, later ones once per window, nothing lost."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.realtime.delta_window import DeltaWindow


def test_the_first_text_goes_at_once() -> None:
    window = DeltaWindow(0.025)
    window.add("a")
    assert window.take_due(100.0) == "a"


def test_text_inside_a_window_waits_for_its_end_and_is_joined() -> None:
    window = DeltaWindow(0.5)
    window.add("a")
    window.take_due(100.0)
    window.add("b")
    assert window.take_due(100.25) == ""
    window.add("c")
    assert window.due_at == 100.5
    assert window.take_due(100.5) == "bc"
    assert window.due_at is None


def test_the_end_of_an_answer_does_not_wait() -> None:
    window = DeltaWindow(10)
    window.add("a")
    window.take_due(0.0)
    window.add("b")
    assert window.take(0.1) == "b"


@given(st.lists(st.tuples(st.floats(0.001, 0.1), st.text(min_size=1, max_size=3))), st.floats(0.001, 0.1))
def test_every_text_leaves_once_and_frames_keep_their_distance(pieces: list[tuple[float, str]], length: float) -> None:
    window, now, taken = DeltaWindow(length), 0.0, []
    for pause, text in pieces:
        now += pause
        window.add(text)
        if frame := window.take_due(now):
            taken.append((now, frame))
    rest = window.take(now)
    assert "".join(text for _, text in taken) + rest == "".join(text for _, text in pieces)
    assert all(later - earlier >= length * 0.999 for (earlier, _), (later, _) in pairwise(taken))
