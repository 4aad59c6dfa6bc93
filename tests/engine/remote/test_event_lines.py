"""A stream is put together from bytes that were cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.remote.event_lines import LINE_MAX_BYTES, EventLines, LineTooLong

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"), max_size=20).map(str.strip)


@given(st.lists(TEXTS, max_size=8), st.lists(st.integers(1, 9), min_size=1), st.sampled_from(["\n", "\r\n"]))
def test_every_cut_gives_the_same_lines(texts: list[str], cuts: list[int], newline: str) -> None:
    stream = "".join(f"data: {text}{newline}{newline}: a comment{newline}" for text in texts).encode()
    lines, found, at = EventLines(), [], 0
    while at < len(stream):
        size = cuts[at % len(cuts)]
        found += lines.push(stream[at : at + size])
        at += size
    assert found == texts


def test_a_line_without_an_end_is_no_stream() -> None:
    lines = EventLines()
    with pytest.raises(LineTooLong):
        list(lines.push(b"data: " + b"x" * LINE_MAX_BYTES))


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(UnicodeDecodeError):
        list(EventLines().push(b"data: \xff\n"))
