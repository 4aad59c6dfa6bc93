"""A persona's prefix is what all its conversations begin with: no user's first words change it, and hardly a token is missing."""

from __future__ import annotations

from itertools import takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model.loader import LoadedModel
from engine.types import Role, Turn
from tests.support.text_families import TEXT_FAMILIES, tokenizer_of

words = st.lists(
    st.one_of(
        st.text(max_size=8),
        st.sampled_from(
            ["hello", " world", "The ", "\n", "\n\n", "  ", ".", "...", "é", "\u0301", "日本", "😀", "<|im_end|>"]
        ),
    ),
    max_size=5,
).map("".join)


@pytest.mark.parametrize("family", TEXT_FAMILIES)
@given(system=st.none() | words, first=words, more=words)
@settings(max_examples=40, deadline=None)
def test_every_conversation_of_a_persona_begins_with_its_prefix(
    family: str, system: str | None, first: str, more: str
) -> None:
    tokenizer = tokenizer_of(family)
    persona = [] if system is None else [Turn(Role.SYSTEM, system)]
    prefix = tokenizer.prefix_ids(persona)
    conversation = [*persona, Turn(Role.USER, first)]
    assert tokenizer.encode_turns(conversation)[: len(prefix)] == prefix
    conversation += [Turn(Role.ASSISTANT, "yes", (5, 6, 7)), Turn(Role.USER, more)]
    assert tokenizer.encode_turns(conversation)[: len(prefix)] == prefix


@pytest.mark.parametrize("family", TEXT_FAMILIES)
def test_hardly_a_token_is_missing_that_ordinary_conversations_share(family: str) -> None:
    tokenizer = tokenizer_of(family)
    persona = [Turn(Role.SYSTEM, "You are a kind and patient assistant who answers in short words. " * 20)]
    prefix = tokenizer.prefix_ids(persona)
    some, others = (tokenizer.encode_turns([*persona, Turn(Role.USER, text)]) for text in ("What is it?", "Hello you"))
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(some, others, strict=False)))
    assert shared - 2 <= len(prefix) <= shared
    assert "who answers in short words" in tokenizer.decode(prefix)


def test_without_a_system_prompt_it_is_what_the_template_says_by_itself() -> None:
    tokenizer = tokenizer_of("bytes, default system")
    prefix = tokenizer.prefix_ids([])
    assert "You are kind." in tokenizer.decode(prefix)
    assert tokenizer.encode_turns([Turn(Role.USER, "hello")])[: len(prefix)] == prefix


@pytest.mark.parametrize("family", TEXT_FAMILIES)
@given(first=words, answer=st.lists(st.integers(5, 40), max_size=6).map(tuple), more=words, is_usual=st.booleans())
@settings(max_examples=40, deadline=None)
def test_what_stands_between_an_answer_and_the_next_words_is_known_before_they_come(
    family: str, first: str, answer: tuple[int, ...], more: str, is_usual: bool
) -> None:
    tokenizer = tokenizer_of(family)
    between = tokenizer.between_ids()
    asked = tokenizer.encode_turns([Turn(Role.USER, first)])
    said = f"How {more}" if is_usual else more
    path = [Turn(Role.USER, first), Turn(Role.ASSISTANT, "said", answer), Turn(Role.USER, said)]
    # Where somebody begins with spaces or newlines, these may stand in one token with the template's last.
    begun = [*asked, *answer, *between[: len(between) - (not is_usual)]]
    assert tokenizer.encode_turns(path)[: len(begun)] == begun


@pytest.mark.model
def test_of_the_bundled_vocabulary_it_is_the_end_of_the_answer_and_the_role(bundled_model: LoadedModel) -> None:
    tokenizer = bundled_model.tokenizer
    names = b"".join(map(tokenizer.name_of, tokenizer.between_ids())).decode()
    assert names == "<|im_end|>\n<|im_start|>user\n"


@pytest.mark.model
@given(
    system=st.sampled_from(["Be brief.", "Be brief.\n", "List what you know:\n\n", "So:  ", "日本語", "1, 2, 3"]),
    first=st.lists(
        st.sampled_from(["\n", "\n\n", " ", "  ", "\t", "a", "The", "1", ".", "é", "語", "😀"]), max_size=6
    ).map("".join),
)
@settings(max_examples=100, deadline=None)
def test_it_holds_for_the_bundled_vocabulary(bundled_model: LoadedModel, system: str, first: str) -> None:
    """Which has tokens for runs of newlines and of spaces, so a user's first character can change what stands before it."""
    tokenizer = bundled_model.tokenizer
    persona = [Turn(Role.SYSTEM, system)]
    prefix = tokenizer.prefix_ids(persona)
    assert tokenizer.encode_turns([*persona, Turn(Role.USER, first)])[: len(prefix)] == prefix
    assert tokenizer.decode(prefix) in (f"system\n{system}\nuser", f"system\n{system}\nuser\n")
