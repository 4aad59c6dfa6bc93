"""Shows where in a text the words of a search stand: a piece of it as plain text, in parts that are marked or not. Pure.

Never HTML, and no offsets either, which programs would count in different units: whoever shows it puts each part in as text.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from app.conversations.words import WORD_MAX_CHARS, shown_words

SNIPPET_CHARS = 160
BEFORE_CHARS = 40
"""Of these, shown in front of the first word that was found."""

SEARCHED_CHARS = 50_000
"""Of a longer text only so much is looked through for something to mark; it is found all the same."""

ELLIPSIS = "…"


class Part(NamedTuple):
    """`is_marked`: it is one of the words that were searched for."""

    text: str
    is_marked: bool


def snippet(text: str, wanted: Collection[str]) -> list[Part]:
    """A piece of the text around the first of these words; its beginning where none is seen. `wanted` are query words."""
    words = frozenset(wanted)
    marks = _marks_in_ascii(text, words) if text.isascii() else _marks(text, words)
    start = 0
    if marks and marks[0][0] > BEFORE_CHARS:
        start = _word_boundary(text, marks[0][0] - BEFORE_CHARS, marks[0][0])
    end = min(len(text), start + SNIPPET_CHARS)
    parts: list[Part] = []
    place = start
    for mark_start, mark_end in marks:
        if mark_end > end:
            break
        _add(parts, text[place:mark_start], is_marked=False)
        _add(parts, text[mark_start:mark_end], is_marked=True)
        place = mark_end
    _add(parts, text[place:end], is_marked=False)
    if start > 0:
        parts.insert(0, Part(ELLIPSIS, False))
    if end < len(text):
        parts.append(Part(ELLIPSIS, False))
    return parts


def _marks(text: str, wanted: frozenset[str]) -> list[tuple[int, int]]:
    """Begin and end of every word that was searched for, up to the end of what can be shown of them."""
    marks: list[tuple[int, int]] = []
    before: tuple[int, int, str] | None = None
    for start, end, word in shown_words(text, 0, min(len(text), SEARCHED_CHARS)):
        if marks and start > marks[0][0] + SNIPPET_CHARS:
            break
        pair = "" if before is None or before[1] != start else before[2] + word
        if pair in wanted and before is not None:
            _mark(marks, before[0], end)
        elif word in wanted:
            _mark(marks, start, end)
        before = (start, end, word)
    return marks


def _marks_in_ascii(text: str, wanted: frozenset[str]) -> list[tuple[int, int]]:
    """The same, for a text in which no word has to be folded or cut: about ten times quicker, and most texts of a page are so."""
    marks: list[tuple[int, int]] = []
    for found in _pattern(wanted).finditer(text, 0, min(len(text), SEARCHED_CHARS)):
        if marks and found.start() > marks[0][0] + SNIPPET_CHARS:
            break
        _mark(marks, found.start(), found.end())
    return marks


@lru_cache(maxsize=64)
def _pattern(wanted: frozenset[str]) -> re.Pattern[str]:
    """Any of these as a whole word; the longest, whose ends were cut off, as the beginning of one."""
    letter = "[A-Za-z0-9]"
    words = [word + (f"{letter}*" if len(word) == WORD_MAX_CHARS else "") for word in sorted(wanted) if word.isalnum()]
    return re.compile(f"(?<!{letter})(?:{'|'.join(words) or '(?!)'})(?!{letter})", re.IGNORECASE | re.ASCII)


def _mark(marks: list[tuple[int, int]], start: int, end: int) -> None:
    """Pairs overlap and neighbours touch: they are one mark."""
    if marks and start <= marks[-1][1]:
        marks[-1] = (marks[-1][0], max(end, marks[-1][1]))
    else:
        marks.append((start, end))


def _add(parts: list[Part], text: str, *, is_marked: bool) -> None:
    if text:
        parts.append(Part(text, is_marked))


def _word_boundary(text: str, start: int, limit: int) -> int:
    """Behind the next space, where there is one before `limit`."""
    space = text.find(" ", start, limit)
    return start if space < 0 else space + 1
