"""Who answers in a conversation, and how that changes: every legal transition, in one table. Pure.

                 ┌────────── return, withdraw ──────────┐
                 ▼                                      │
    bot ──request──► queued ──take──► human ──release──► queued
     ▲ └─────────────take───────────────▲ │
     │                                    │ resolve (from anywhere)
     └── the person writes ── resolved ◄──┘

Asked by `changes`, which writes what comes of it. A move that leads to where the conversation is already changes nothing, so each
may be repeated; one that makes no sense is refused with the state, and never ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ConversationState(StrEnum):
    """Who answers: the model; nobody yet, a person is waited for; a person; nobody any more, until the person writes again."""

    BOT = "bot"
    QUEUED = "queued"
    HUMAN = "human"
    RESOLVED = "resolved"


class Move(StrEnum):
    """What somebody does to the state of a conversation."""

    REQUEST = "request"
    """A person is asked for: by whom it belongs to, by a word in a message, or because the model cannot answer."""
    WITHDRAW = "withdraw"
    """Whoever waits for a person waits no longer."""
    TAKE = "take"
    """An agent answers from here on."""
    RELEASE = "release"
    """The agent puts it back for another one."""
    RETURN = "return"
    """The model answers again."""
    RESOLVE = "resolve"
    """It is done with."""
    SPEAK = "speak"
    """Whom it belongs to writes a message."""


class Cause(StrEnum):
    """What led to a change."""

    PERSON = "person"
    AGENT = "agent"
    KEYWORD = "keyword"
    ENGINE_FAILURE = "engine_failure"
    NEW_MESSAGE = "new_message"
    IMPORT = "import"


class IllegalMove(Exception):
    """The state does not allow this move."""

    def __init__(self, state: ConversationState, move: Move) -> None:
        super().__init__(f"a conversation in state {state} cannot be moved by {move}")
        self.state = state
        self.move = move


_BOT, _QUEUED, _HUMAN, _RESOLVED = ConversationState

TRANSITIONS: Mapping[Move, Mapping[ConversationState, ConversationState]] = {
    # With a person there already, asking for one changes nothing.
    Move.REQUEST: {_BOT: _QUEUED, _QUEUED: _QUEUED, _HUMAN: _HUMAN, _RESOLVED: _QUEUED},
    Move.WITHDRAW: {_BOT: _BOT, _QUEUED: _BOT},
    Move.TAKE: {_BOT: _HUMAN, _QUEUED: _HUMAN, _HUMAN: _HUMAN, _RESOLVED: _HUMAN},
    Move.RELEASE: {_QUEUED: _QUEUED, _HUMAN: _QUEUED},
    Move.RETURN: {_BOT: _BOT, _QUEUED: _BOT, _HUMAN: _BOT, _RESOLVED: _BOT},
    Move.RESOLVE: {_BOT: _RESOLVED, _QUEUED: _RESOLVED, _HUMAN: _RESOLVED, _RESOLVED: _RESOLVED},
    Move.SPEAK: {_BOT: _BOT, _QUEUED: _QUEUED, _HUMAN: _HUMAN, _RESOLVED: _BOT},
}
"""Where each move leads from each state; what is not here is refused."""


def next_state(state: ConversationState, move: Move) -> ConversationState:
    """Where the move leads. Raises IllegalMove."""
    found = TRANSITIONS[move].get(state)
    if found is None:
        raise IllegalMove(state, move)
    return found


def model_answers(state: ConversationState, *, also_queued: bool) -> bool:
    """Whether a message gets an answer of the model. `also_queued`: also while a person is waited for."""
    return state is ConversationState.BOT or (also_queued and state is ConversationState.QUEUED)
