"""Which turns of a conversation go into the prompt when it has outgrown the context: `ContextPolicy.DROP_OLDEST_TURNS`.

Called by `engine.prompts`. Pure: a function of who spoke and how many tokens each turn has. It must never leave out what a
system turn says, nor the last question.

Turns leave in whole exchanges, a question with its answers, and several at once: when a question does not fit any more, the
oldest exchanges go until three quarters of the room are filled. So the questions after it keep the beginning they had, whose
KV is there already; leaving out one exchange for each new one would compute every prompt from the system turn on. Which
exchanges are gone follows from the history alone: it is played through from its first question, as if each had been asked.

    room        |------------------------------|
    question 7  S 1 2 3 4 5 6 7                     fits
    question 8  S 1 2 3 4 5 6 7 8 >                 does not: 1, 2 and 3 leave
    question 8  S       4 5 6 7 8
    question 9  S       4 5 6 7 8 9                 fits, and begins as before
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from engine.types import Role

FILLED_AFTERWARDS: Final = Fraction(3, 4)
"""Of the room, once turns were left out: less would forget sooner, more would have to leave out again sooner."""


@dataclass(slots=True)
class _Exchange:
    """A question and what was said until the next one; before the first question, what was said before it."""

    first: int
    question_tokens: int = 0
    answer_tokens: int = 0


def kept_turns(roles: Sequence[Role], tokens: Sequence[int], fixed_tokens: int, room_tokens: int) -> list[int]:
    """The indices of the turns that stay, ascending. `fixed_tokens` are in every prompt, whatever its turns.

    System turns stay, and so does the last exchange; they may be more than the room.
    """
    filled = int(room_tokens * FILLED_AFTERWARDS)
    exchanges: list[_Exchange] = []
    kept = 0
    size = fixed_tokens

    def fit() -> None:
        nonlocal kept, size
        if size > room_tokens:
            while size > filled and kept < len(exchanges) - 1:
                size -= exchanges[kept].question_tokens + exchanges[kept].answer_tokens
                kept += 1

    for index, (role, count) in enumerate(zip(roles, tokens, strict=True)):
        size += count
        if role is Role.USER:
            exchanges.append(_Exchange(index, question_tokens=count))
            fit()
        elif role in (Role.ASSISTANT, Role.TOOL):
            if not exchanges:
                exchanges.append(_Exchange(index))
            exchanges[-1].answer_tokens += count
    fit()
    first = exchanges[kept].first if exchanges else 0
    return [index for index, role in enumerate(roles) if index >= first or role is Role.SYSTEM]
