"""The time between two tokens that the reader of an answer is used to. Pure; noted by `engine.room` for each answer of a step."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from operator import itemgetter

from engine.step_size import StepLoad

HABIT_TOKENS = 8
"""So many tokens that came quicker make a new habit: what happened a few times only, nobody has got used to."""


@dataclass(slots=True)
class Pace:
    """What an answer has been through, prompts beside it included: the steps in which it got a token.

    An answer that began in a crowd has never been quicker than the crowd, and takes no harm if that goes on. One that was alone
    for HABIT_TOKENS is used to that for good, so that a pace never gets slower step by step. What such a step had to do is kept
    with the time it took: when something else takes the machine the same takes longer, and nobody must wait for that to pass.
    """

    lightest: list[tuple[float, StepLoad]] = field(default_factory=list)
    """The quickest HABIT_TOKENS of them, in order."""
    num_steps: int = 0

    def note(self, seconds: float, load: StepLoad) -> None:
        """It got a token in a step that took this long, and did this."""
        self.num_steps += 1
        insort(self.lightest, (seconds, load), key=itemgetter(0))
        del self.lightest[HABIT_TOKENS:]

    @property
    def usual(self) -> tuple[float, StepLoad] | None:
        """The median of all steps as long as they are few, then the slowest of the lightest; None before the first."""
        if not self.num_steps:
            return None
        return self.lightest[min(HABIT_TOKENS, (self.num_steps + 1) // 2) - 1]
