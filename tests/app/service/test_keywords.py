"""Words that ask for a person: whole ones, in any spelling of capitals and forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.service.keywords import Keywords


@pytest.mark.parametrize(
    ("keyword", "text"),
    [
        ("human", "A HUMAN, please!"),
        ("human", "(human)"),
        ("talk to a person", "I want to talk\n to  a person."),
        ("Straße", "auf der STRASSE"),
        ("ΜΆΪΟΣ", "μάϊος"),
        ("оператор", "ОПЕРАТОР?"),
        ("agent", "ａｇｅｎｔ"),
        ("café", "cafe\N{COMBINING ACUTE ACCENT} please"),
        ("人工", "请转人工客服"),
        ("オペレーター", "オペレーターと話したい"),
        ("사람", "사람이랑 이야기할래요"),
        ("c++", "c++ is broken"),
        ("🙋", "help 🙋!"),
        ("human", "human人"),
    ],
)
def test_a_keyword_is_found(keyword: str, text: str) -> None:
    assert Keywords([keyword]).found_in(text) == " ".join(keyword.split())


@pytest.mark.parametrize(
    ("keyword", "text"),
    [
        ("human", "humanity, superhuman and human_being"),
        ("human", "human1"),
        ("agent", "reagent agents"),
        ("cafe", "cafe\N{COMBINING ACUTE ACCENT}"),
        ("talk to a person", "talk to a personality"),
        ("a person", "a\N{ZERO WIDTH SPACE}person"),
        ("человек", "человеком"),
        ("人工", "人 工"),
    ],
)
def test_a_part_of_a_word_is_no_keyword(keyword: str, text: str) -> None:
    assert Keywords([keyword]).found_in(text) is None


def test_of_two_that_begin_alike_the_one_that_is_there_is_found() -> None:
    assert Keywords(["human be", "human"]).found_in("a human being") == "human"
    assert Keywords(["human", "human being"]).found_in("superhuman, human being") == "human"


def test_a_word_that_is_only_a_part_first_is_found_where_it_is_whole() -> None:
    assert Keywords(["human"]).found_in("humanity needs a human") == "human"


@pytest.mark.parametrize("keywords", [[], [""], ["  ", "\n"]])
def test_without_keywords_nothing_is_found(keywords: list[str]) -> None:
    assert not Keywords(keywords)
    assert Keywords(keywords).found_in("a human") is None


@given(st.text(min_size=1, max_size=20).filter(lambda text: bool(text.strip())), st.text(max_size=40))
def test_any_text_can_be_a_keyword_and_is_found_alone(keyword: str, text: str) -> None:
    keywords = Keywords([keyword])
    keywords.found_in(text)
    assert keywords.found_in(keyword) is not None
