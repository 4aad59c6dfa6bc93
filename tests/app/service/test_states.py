"""Who answers a conversation, and how that changes: the table of moves."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.service.states import TRANSITIONS, ConversationState, IllegalMove, Move, model_answers, next_state

BOT, QUEUED, HUMAN, RESOLVED = ConversationState
ILLEGAL = {
    (HUMAN, Move.WITHDRAW),
    (RESOLVED, Move.WITHDRAW),
    (BOT, Move.RELEASE),
    (RESOLVED, Move.RELEASE),
}


@given(st.lists(st.sampled_from(Move), max_size=30))
def test_after_any_moves_a_conversation_is_in_a_state_that_the_last_legal_one_leads_to(moves: list[Move]) -> None:
    state = BOT
    for move in moves:
        if (state, move) in ILLEGAL:
            with pytest.raises(IllegalMove):
                next_state(state, move)
        else:
            state = next_state(state, move)
            assert state in TRANSITIONS[move].values()


@given(st.sampled_from(ConversationState), st.sampled_from(Move))
def test_a_move_that_is_made_twice_changes_nothing_the_second_time(state: ConversationState, move: Move) -> None:
    """baptisteArno/typebot.io#2136: each act of whoever steers from outside may be repeated (case C43)."""
    if (state, move) not in ILLEGAL:
        once = next_state(state, move)
        assert next_state(once, move) is once


def test_every_state_is_left_and_reached() -> None:
    pairs = {
        (state, next_state(state, move))
        for state, move in product(ConversationState, Move)
        if (state, move) not in ILLEGAL
    }
    for state in ConversationState:
        assert any(source is state and target is not state for source, target in pairs)
        assert any(target is state and source is not state for source, target in pairs)


@pytest.mark.parametrize(("state", "move"), sorted(ILLEGAL))
def test_a_move_that_makes_no_sense_is_refused(state: ConversationState, move: Move) -> None:
    with pytest.raises(IllegalMove, match=f"state {state}"):
        next_state(state, move)


@given(st.lists(st.sampled_from(Move), max_size=30), st.booleans())
def test_the_model_never_answers_where_a_person_does(moves: list[Move], also_queued: bool) -> None:
    """chatwoot/chatwoot#11429, chatwoot/chatwoot#4410: the bot talked over the human (case C42)."""
    state = BOT
    for move in moves:
        state = TRANSITIONS[move].get(state, state)
        if state in (HUMAN, RESOLVED):
            assert not model_answers(state, also_queued=also_queued)
    assert model_answers(BOT, also_queued=also_queued)
    assert model_answers(QUEUED, also_queued=also_queued) is also_queued


def test_whoever_has_resolved_begins_anew_when_its_person_writes() -> None:
    """chatwoot/chatwoot#5668: reopening gives it back to the bot (case C43)."""
    assert next_state(RESOLVED, Move.SPEAK) is BOT
    assert [next_state(state, Move.SPEAK) for state in (BOT, QUEUED, HUMAN)] == [BOT, QUEUED, HUMAN]
