"""One answer being made, as the scheduler sees it: its tokens, and how many of them have their KV in pages.

`tokens` is the truth; the pages are a copy that may be dropped at any time and computed again. There are no phases: a
sequence has tokens whose KV is missing (`num_pending`), and once none but the last is missing the next token is sampled.
Lives in the engine thread. Pure: no torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from engine.pages import PageId
from engine.types import RequestId


class SequenceState(Enum):
    """WAITING ⇄ RUNNING (preempted sequences wait again) → FINISHED, which is also reached from WAITING."""

    WAITING = auto()
    RUNNING = auto()
    FINISHED = auto()


@dataclass(slots=True, eq=False)
class Sequence:
    """`tokens` begins with the prompt and grows by what is sampled, up to `max_tokens` in all.

    `arrival` orders sequences for good: preemption does not change it. Invariant: `pages` hold exactly the `num_computed`
    tokens, and are empty unless the state is RUNNING.
    """

    request_id: RequestId
    arrival: int
    tokens: list[int]
    num_prompt_tokens: int
    max_tokens: int
    state: SequenceState = SequenceState.WAITING
    num_computed: int = 0
    pages: list[PageId] = field(default_factory=list)
    num_preemptions: int = 0
    times_passed: int = 0
    """How often a sequence that arrived later has started first."""

    @property
    def num_pending(self) -> int:
        """Tokens whose KV is missing; never 0 while the sequence lives."""
        return len(self.tokens) - self.num_computed

    @property
    def num_output_tokens(self) -> int:
        return len(self.tokens) - self.num_prompt_tokens

    @property
    def is_full(self) -> bool:
        """Whether no further token may be sampled."""
        return len(self.tokens) >= self.max_tokens
