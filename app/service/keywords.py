"""Words with which people ask for a person. Pure.

A keyword is found as whole words, in any capitals and any Unicode form; of scripts that put no spaces between words any part is
whole. A keyword may have several words, between which any white space may stand.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from app.conversations.words import is_unspaced


def folded(text: str) -> str:
    """One spelling: compatibility forms and capitals do not count."""
    # Twice, because folding may take apart what the form had put together.
    once = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", once).casefold()


class Keywords:
    """A list of them, ready to be looked for."""

    def __init__(self, keywords: Iterable[str]) -> None:
        given = {tuple(folded(keyword).split()): " ".join(keyword.split()) for keyword in keywords}
        self._patterns = [
            (re.compile(r"\s+".join(map(re.escape, words))), keyword) for words, keyword in given.items() if words
        ]

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def found_in(self, text: str) -> str | None:
        """The first one of the list that the text has, as it was given; None where it has none."""
        searched = folded(text) if self._patterns else ""
        return next((keyword for pattern, keyword in self._patterns if _is_in(pattern, searched)), None)


def _is_in(pattern: re.Pattern[str], text: str) -> bool:
    found = pattern.search(text)
    while found is not None:
        if not _continues(text, found.start()) and not _continues(text, found.end()):
            return True
        found = pattern.search(text, found.start() + 1)
    return False


def _continues(text: str, place: int) -> bool:
    """Whether what stands before and behind this place is of one word."""
    if place in (0, len(text)):
        return False
    before, behind = text[place - 1], text[place]
    if unicodedata.category(behind).startswith("M"):
        # An accent belongs to the letter in front of it.
        return _is_word(before)
    return all(_is_word(each) and not is_unspaced(each) for each in (before, behind))


def _is_word(character: str) -> bool:
    return character == "_" or unicodedata.category(character)[0] in "LNM"
