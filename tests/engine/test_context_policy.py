"""What leaves a prompt that has outgrown the context, and that the prompts after it keep their beginning."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.context_policy import kept_turns
from engine.types import Role

ROLES = {"s": Role.SYSTEM, "u": Role.USER, "a": Role.ASSISTANT}


def kept(roles: str, tokens: list[int], room: int, fixed: int = 0) -> list[int]:
    return kept_turns([ROLES[role] for role in roles], tokens, fixed, room)


# A conversation as it happens: now and then a system turn, a question, then no, one or two answers.
exchange = st.tuples(st.sampled_from(["", "", "", "s"]), st.sampled_from(["", "a", "a", "a", "aa"])).map(
    lambda around: around[0] + "u" + around[1]
)
history = st.lists(exchange, min_size=1, max_size=40).flatmap(
    lambda exchanges: st.tuples(
        st.just("".join(exchanges)),
        st.lists(st.integers(0, 60), min_size=sum(map(len, exchanges)), max_size=sum(map(len, exchanges))),
    )
)


@pytest.mark.parametrize(
    ("roles", "tokens", "room", "expected"),
    [
        # Everything fits, to the last token.
        ("suaua", [10, 20, 20, 20, 30], 100, [0, 1, 2, 3, 4]),
        # One token too many: exchanges leave until at most 75 are left.
        ("suauau", [10, 20, 20, 10, 20, 21], 100, [0, 3, 4, 5]),
        # An exchange leaves with all its answers, and questions nobody answered leave alone.
        ("uaauu", [10, 30, 30, 10, 30], 100, [3, 4]),
        ("uuuau", [30, 30, 30, 9, 2], 100, [1, 2, 3, 4]),
        # Whatever a system turn says stays, wherever it stands.
        ("suasu", [10, 30, 30, 10, 30], 100, [0, 3, 4]),
        # What an assistant said before the first question is the oldest.
        ("sauau", [5, 30, 20, 20, 30], 100, [0, 2, 3, 4]),
        # The last exchange stays, also where it does not fit.
        ("suau", [10, 20, 20, 500], 100, [0, 3]),
        ("su", [90, 90], 100, [0, 1]),
        ("sua", [90, 90, 1], 100, [0, 1, 2]),
        ("s", [500], 100, [0]),
        ("aa", [60, 60], 100, [0, 1]),
        ("", [], 100, []),
    ],
)
def test_whole_exchanges_leave_from_the_oldest_on(
    roles: str, tokens: list[int], room: int, expected: list[int]
) -> None:
    assert kept(roles, tokens, room) == expected


def test_tokens_that_every_prompt_has_take_their_part_of_the_room() -> None:
    assert kept("uau", [20, 20, 20], 60) == [0, 1, 2]
    assert kept("uau", [20, 20, 20], 60, fixed=1) == [2]


@given(conversation=history, room=st.integers(1, 600), fixed=st.integers(0, 10))
@settings(max_examples=400, deadline=None)
def test_the_prompts_of_a_growing_conversation_keep_their_beginning_until_the_room_is_full(
    conversation: tuple[str, list[int]], room: int, fixed: int
) -> None:
    """Otherwise each new question would shift the window by one exchange, and nothing computed could be used again."""
    roles, tokens = conversation
    before: list[int] = []
    for end in (at + 1 for at, role in enumerate(roles) if role == "u"):
        now = kept(roles[:end], tokens[:end], room, fixed)
        size = fixed + sum(tokens[index] for index in now)
        last_exchange = [end - 1]
        systems = [index for index in range(end) if roles[index] == "s"]
        assert set(last_exchange) | set(systems) <= set(now)
        assert next(roles[index] for index in now if roles[index] != "s") == "u"
        smallest = set(now) == set(last_exchange) | set(systems)
        assert size <= room or smallest

        grown = [*before, *range(before[-1] + 1 if before else 0, end)]
        if fixed + sum(tokens[index] for index in grown) <= room:
            assert now == grown, "turns left although there was room"
        elif not smallest:
            assert size <= room * 3 // 4
        assert set(now) <= set(grown), "a turn that had left came back"
        before = now
