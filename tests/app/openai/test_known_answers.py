"""Answers that come back in a history are known by everything that was said before them."""

from __future__ import annotations

from app.openai.known_answers import ENTRY_TOKENS, KnownAnswers
from engine.types import Namespace, Role, Turn

ANN = Namespace.user("ann", "key:1")
HELLO = (Turn(Role.USER, "hello"),)
AND_THEN = (*HELLO, Turn(Role.ASSISTANT, "hi"), Turn(Role.USER, "and?"))


def ids_of(turns: tuple[Turn, ...]) -> list[tuple[int, ...] | None]:
    return [turn.token_ids for turn in turns]


def test_an_answer_is_known_behind_the_same_words_only() -> None:
    answers = KnownAnswers()
    answers.remember(ANN, HELLO, "hi", (1, 2))
    assert ids_of(answers.recognised(ANN, AND_THEN)) == [None, (1, 2), None]
    assert ids_of(answers.recognised(Namespace.user("ann", "key:2"), AND_THEN)) == [None, None, None]
    assert ids_of(answers.recognised(ANN, (Turn(Role.SYSTEM, ""), *AND_THEN))) == [None] * 4
    other = (Turn(Role.USER, "hellohi"), Turn(Role.ASSISTANT, ""), Turn(Role.USER, "and?"))
    assert ids_of(answers.recognised(ANN, other)) == [None, None, None]


def test_the_last_of_two_answers_counts() -> None:
    answers = KnownAnswers()
    answers.remember(ANN, HELLO, "hi", (1, 2))
    answers.remember(ANN, HELLO, "hi", (3,))
    assert ids_of(answers.recognised(ANN, AND_THEN))[1] == (3,)
    assert len(answers) == 1


def test_the_longest_unused_leaves_first() -> None:
    answers = KnownAnswers(max_tokens=2 * (ENTRY_TOKENS + 2))
    for text in ("a", "b"):
        answers.remember(ANN, HELLO, text, (1, 2))
    answers.recognised(ANN, (*HELLO, Turn(Role.ASSISTANT, "a")))
    answers.remember(ANN, HELLO, "c", (1, 2))
    known = [text for text in "abc" if answers.recognised(ANN, (*HELLO, Turn(Role.ASSISTANT, text)))[1].token_ids]
    assert known == ["a", "c"]
