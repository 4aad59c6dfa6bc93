"""What text is found by, and what is shown of it. Pure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversations.snippets import ELLIPSIS, SNIPPET_CHARS, snippet
from app.conversations.words import QUERY_MAX_WORDS, WORD_MAX_CHARS, query_words, words_of


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("The Capital of France", "capital FRANCE"),
        ("Café naïve Ångström", "cafe NAIVE angstrom"),
        ("cafe", "café"),
        ("STRASSE", "straße"),
        ("ﬁne ﬂow ① ½", "fine flow 1"),
        ("don't say 'no' (ever)", "don't ever"),
        ("x_y snake_case", "snake case"),
        ("我爱北京天安门", "北京"),
        ("我爱北京天安门", "天安门"),
        ("我爱北京天安门", "我"),
        ("東京タワーに行った", "タワー"),
        ("ｶﾀｶﾅ", "カタカナ"),
        ("한국어를 배웁니다", "한국어"),
        ("สวัสดีครับ", "ครับ"),
        ("हिन्दी भाषा", "भाषा"),
        ("שלום עולם", "עולם"),
        ("مرحبا بالعالم", "مرحبا"),
        ("well done 🎉🎉 team", "🎉"),
        ("👍🏽 and 🏳️‍🌈", "🌈"),
        ("price: 3.14€", "3.14"),
    ],
)
def test_a_text_is_found_by_any_of_its_words_in_any_spelling(text: str, query: str) -> None:
    assert query_words(query)
    assert set(query_words(query)) <= set(words_of(text))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("北大荒 南京", "北京"),
        ("capitals", "capital"),
        ("the end", "the start"),
        ("天 安", "天安"),
    ],
)
def test_a_text_is_not_found_by_what_is_not_in_it(text: str, query: str) -> None:
    assert not set(query_words(query)) <= set(words_of(text))


@pytest.mark.parametrize("query", ["", " ", "!?", '""', "*", "()", " - ", "\\", "'", "\u200d", "a\u0000"[1:]])
def test_a_query_without_a_word_has_none(query: str) -> None:
    assert query_words(query) == []


def test_a_query_of_many_words_goes_by_the_first_and_a_long_word_by_its_beginning() -> None:
    assert len(query_words(" ".join(f"word{number}" for number in range(100)))) == QUERY_MAX_WORDS
    assert query_words("x" * 500) == ["x" * WORD_MAX_CHARS] == words_of("x" * 400)


@given(st.text(max_size=200))
def test_no_word_holds_what_would_mean_something_to_a_database(text: str) -> None:
    for word in (*words_of(text), *query_words(text)):
        assert word
        assert len(word) <= WORD_MAX_CHARS
        assert not set(word) & set(" '\"\\*:&|!()<>@^-+\x00\t\n")
        assert not any(character.isspace() for character in word)


@given(st.text(max_size=120))
def test_every_text_is_found_by_itself(text: str) -> None:
    assert set(query_words(text)) <= set(words_of(text))


@given(st.text(max_size=300), st.text(max_size=30))
def test_a_snippet_is_a_piece_of_the_text_whatever_is_searched(text: str, query: str) -> None:
    parts = snippet(text, query_words(query))
    shown = "".join(part.text for part in parts).removeprefix(ELLIPSIS).removesuffix(ELLIPSIS)
    assert shown in text or shown.rstrip(ELLIPSIS) in text
    assert all(part.text for part in parts)


def marked(text: str, query: str) -> list[str]:
    return [part.text for part in snippet(text, query_words(query)) if part.is_marked]


def test_a_snippet_marks_what_was_searched_as_it_is_written() -> None:
    assert marked("Our Café, and THE café.", "cafe") == ["Café", "café"]
    assert marked("我爱北京天安门", "天安门") == ["天安门"]
    assert marked("我爱北京", "我") == ["我"]
    assert marked("<b>bold</b>", "b") == ["b", "b"]
    assert marked("capitals", "capital") == []
    # An accent that is a character of its own belongs to its letter.
    assert marked("cafe\u0301 noir", "café") == ["cafe\u0301"]


def test_a_snippet_of_a_long_text_is_around_the_first_place() -> None:
    text = "lorem ipsum " * 100 + "needle" + " dolor sit" * 100
    parts = snippet(text, ["needle"])
    assert parts[0].text == parts[-1].text == ELLIPSIS
    assert [part.text for part in parts if part.is_marked] == ["needle"]
    assert sum(len(part.text) for part in parts) <= SNIPPET_CHARS + 2
    assert "".join(part.text for part in parts[1:-1]) in text


PLAIN_WORDS = st.sampled_from(
    ["cat", "Cat", "CATS", "c4t", "cat_cat", "_cat", "K", "x" * 63, "X" * 64, "x" * 70, "-", "  ", "\n", "'s"]
)


@given(
    st.lists(PLAIN_WORDS, max_size=80), st.sampled_from([" ", "", ", "]), st.lists(PLAIN_WORDS, min_size=1, max_size=3)
)
def test_in_a_plain_text_the_same_is_marked_as_in_any_other(words: list[str], between: str, query: list[str]) -> None:
    text = between.join(words)
    # The last word is none of a plain text, and none that is searched.
    assert marked(text, " ".join(query)) == marked(f"{text} é", " ".join(query))
    assert marked("cat", "CAT K 北京 über") == ["cat"]
