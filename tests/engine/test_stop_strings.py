from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.stop_strings import StopStrings

LETTERS = "ab€"
texts = st.text(alphabet=LETTERS, max_size=40)
stop_lists = st.lists(st.text(alphabet=LETTERS, min_size=1, max_size=6), max_size=4)


def naive(text: str, stops: list[str]) -> tuple[str, bool]:
    """The definition: the first character that completes a stop string ends the text, before the longest that ends there."""
    for end in range(1, len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            return text[: end - max(map(len, found))], True
    return text, False


def shown(pieces: list[str], stops: list[str]) -> tuple[str, bool]:
    finder = StopStrings(stops)
    text = "".join(finder.push(piece) for piece in pieces)
    return text + finder.flush(), finder.stopped


@given(texts, stop_lists, st.lists(st.integers(0, 40), max_size=8))
def test_any_cut_of_any_text_gives_what_the_definition_says(text: str, stops: list[str], cuts: list[int]) -> None:
    borders = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[begin:end] for begin, end in itertools.pairwise(borders)]
    assert shown(pieces, stops) == naive(text, stops)
    assert shown(list(text), stops) == naive(text, stops)


@given(texts, stop_lists)
def test_held_back_is_only_what_may_become_a_stop_string(text: str, stops: list[str]) -> None:
    finder = StopStrings(stops)
    emitted = ""
    for end, char in enumerate(text, start=1):
        emitted += finder.push(char)
        if finder.stopped:
            return
        held = text[len(emitted) : end]
        assert finder.held == held
        assert not held or any(stop.startswith(held) and stop != held for stop in stops)


@given(st.text(max_size=30), st.text(min_size=1, max_size=8), st.text(max_size=30))
def test_no_character_of_the_stop_is_shown(before: str, stop: str, after: str) -> None:
    """vllm-project/vllm#3574: the first half of a stop string that spans tokens leaked."""
    text, stopped = shown(list(before + stop + after), [stop])
    assert stopped
    assert stop not in text
    assert before.startswith(text)


def test_without_stop_strings_text_passes_at_once() -> None:
    finder = StopStrings(())
    assert finder.push("anything") == "anything"
    assert finder.flush() == ""


def test_nothing_is_shown_after_the_stop() -> None:
    finder = StopStrings(["END"])
    assert finder.push("text EN") == "text "
    assert finder.push("D more") == ""
    assert finder.push("and more") == ""
    assert finder.flush() == ""


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        StopStrings(["ok", ""])
