"""Guesses come from the sequence itself, cost next to nothing, and say how likely they are."""

from __future__ import annotations

import random
import sys

from hypothesis import given
from hypothesis import strategies as st

from engine.prompt_lookup import FIRST_CHANCE, REMEMBERED_PAIRS, PromptLookup

SENTENCE = list(range(100, 130))


def after(tokens: list[int], *more: int) -> tuple[PromptLookup, list[int]]:
    """A lookup that has seen these as a prompt, and then the others one by one."""
    lookup, tokens = PromptLookup(), list(tokens)
    lookup.follow(tokens)
    for token in more:
        tokens.append(token)
        lookup.follow(tokens)
    return lookup, tokens


def test_two_tokens_that_came_before_are_expected_to_go_on_as_they_did() -> None:
    lookup, tokens = after([*SENTENCE, 1, 2], *SENTENCE[4:6])
    assert lookup.draft(tokens, 5) == tuple(SENTENCE[6:11])
    assert lookup.chance == FIRST_CHANCE


def test_one_token_alone_or_a_new_pair_expects_nothing() -> None:
    for new in ([SENTENCE[4]], [SENTENCE[4], 7]):
        lookup, tokens = after([*SENTENCE, 1, 2], *new)
        assert lookup.draft(tokens, 5) == ()
        assert lookup.chance == 0.0


def test_the_prompts_own_end_is_looked_up_too() -> None:
    lookup, tokens = after([*SENTENCE, 1, *SENTENCE[:2]])
    assert lookup.draft(tokens, 2) == tuple(SENTENCE[2:4])


def test_the_latest_time_counts() -> None:
    lookup, tokens = after([5, 6, 70, 1, 5, 6, 80, 2, 5, 6])
    assert lookup.draft(tokens, 1) == (80,)


def test_where_the_repetition_reaches_the_end_it_goes_round() -> None:
    lookup, tokens = after([9, 1, 2, 3, 1, 2, 3, 1, 2])
    assert lookup.draft(tokens, 7) == (3, 1, 2, 3, 1, 2, 3)


def test_the_chance_rises_while_it_comes_true_and_falls_while_it_does_not() -> None:
    lookup, _ = after([*SENTENCE, 1], *SENTENCE[:20])
    assert lookup.chance > 0.9
    failing = [token for place in range(0, 18, 2) for token in (*SENTENCE[place : place + 2], 7)]
    lookup, tokens = after([*SENTENCE, 1], *failing)
    assert lookup.chance == 0.0, "nothing is expected behind a token that was not"
    tokens += SENTENCE[:2]
    lookup.follow(tokens)
    assert 0.0 < lookup.chance < 0.15


def test_what_has_failed_for_long_is_believed_again_soon_after_it_comes_true() -> None:
    failing = [token for place in range(0, 28, 2) for token in (*SENTENCE[place : place + 2], 7)]
    lookup, _ = after([*SENTENCE, 1], *failing, *SENTENCE[:12])
    assert lookup.chance > 0.5


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 8), st.data())
def test_a_guess_is_made_of_the_sequences_own_tokens_however_they_come(
    tokens: list[int], most: int, data: st.DataObject
) -> None:
    prompt = data.draw(st.integers(1, len(tokens)))
    by_one, seen = after(tokens[:prompt], *tokens[prompt:])
    at_once = PromptLookup()
    at_once.follow(tokens[:prompt])
    at_once.follow(tokens)
    draft = by_one.draft(seen, most)
    assert draft == at_once.draft(tokens, most)
    assert by_one.chance == at_once.chance
    assert len(draft) in (0, most)
    assert set(draft) <= set(tokens)


def test_a_sequence_that_goes_on_for_ever_does_not_grow_its_index() -> None:
    chance = random.Random(1)
    lookup, tokens = after([chance.randrange(50_000) for _ in range(3 * REMEMBERED_PAIRS)])
    for _ in range(3 * REMEMBERED_PAIRS):
        tokens.append(chance.randrange(50_000))
        lookup.follow(tokens)
    assert len(lookup._pairs) + len(lookup._older) <= 2 * REMEMBERED_PAIRS
    indices = (lookup._pairs, lookup._older)
    # Keys and values beside the tables: an int that large takes 32 bytes.
    assert sum(map(sys.getsizeof, indices)) + 64 * sum(map(len, indices)) < 1.2e6
