"""What text is found by: its words, the same on every database. Pure; used by the search index, by queries and by snippets.

A word is a run of letters and digits, in one spelling: compatibility forms folded, Latin accents taken off, no capitals. Scripts
without spaces between words (Chinese, Japanese, Thai …) and Korean, whose words change at their ends, are cut into single
characters and neighbouring pairs, so that any part of them is found. An emoji is a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

VERSION = 1
"""Of these rules. A conversation that was indexed by others is indexed again: see `search_index`."""

WORD_MAX_CHARS = 64
"""What is longer is no word (a key, a picture in a link) and is found by its beginning."""

QUERY_MAX_WORDS = 16
"""A search with more goes by the first ones: they have narrowed it to a handful by then."""

# Thai to Myanmar, Khmer, kana, ideographs, Hangul, and their further planes.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowel signs and other marks of Semitic and Indic scripts are parts of words, but no word characters for `re`.
_MARKS = "\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0dff"
_LATIN_ACCENTS = dict.fromkeys(range(0x300, 0x370))

_EMOJI = "\u203c-\u3299\U0001f000-\U0001faff"
_PARTS = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[^\W_]|[{_MARKS}])+|[{_EMOJI}]")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")

# What a word in a text may be made of before it is folded: accents may stand behind their letters.
_SHOWN = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_]|[{_MARKS}\u0300-\u036f])+|[{_EMOJI}]")


def is_unspaced(character: str) -> bool:
    """Whether it is of a script without spaces between words, or of one that is cut like those."""
    return _IS_UNSPACED.match(character) is not None


def words_of(text: str) -> list[str]:
    """Every word that finds this text, each once, in the order of their first place."""
    return list(dict.fromkeys(_indexed(folded(text))))


def query_words(query: str) -> list[str]:
    """The words that a text must have, all of them, to be found. Nothing in a query is an operator."""
    found: dict[str, None] = {}
    for part in _PARTS.findall(folded(query)):
        if _IS_UNSPACED.match(part) and len(part) > 1:
            found.update((part[start : start + 2], None) for start in range(len(part) - 1))
        else:
            found[part[:WORD_MAX_CHARS]] = None
    return list(found)[:QUERY_MAX_WORDS]


def shown_words(text: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """The words of a text as it is written: where each begins and ends, and its folded form. Unspaced scripts come character by
    character."""
    for found in _SHOWN.finditer(text, start, end):
        yield found.start(), found.end(), folded(found[0])[:WORD_MAX_CHARS]


@lru_cache(maxsize=4096)
def _folded_word(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text.casefold()).translate(_LATIN_ACCENTS)
    # Once more: a compatibility form may have had a capital inside. And together again: Hangul and kana come apart.
    return unicodedata.normalize("NFC", plain.casefold())


def folded(text: str) -> str:
    """One spelling for all: what differs only in capitals, accents or form is the same."""
    return _folded_word(text) if len(text) <= WORD_MAX_CHARS else _folded_word.__wrapped__(text)


def _indexed(text: str) -> Iterator[str]:
    for part in _PARTS.findall(text):
        if _IS_UNSPACED.match(part):
            yield from part
            yield from (part[start : start + 2] for start in range(len(part) - 1))
        else:
            yield part[:WORD_MAX_CHARS]
