"""One answer being made, as the scheduler sees it: its tokens, and how many of them have their KV in pages.

`tokens` is the truth; the pages are a copy that may be dropped at any time and computed again. There are no phases: a
sequence has tokens whose KV is missing (`num_pending`), and once none but the last is missing the next token is sampled.
Lives in the engine thread. Pure: no torch.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from engine.fair_shares import Account
from engine.pace import Pace
from engine.page_keys import PageKey
from engine.pages import PageId
from engine.prompt_lookup import PromptLookup
from engine.types import CachedFrom, Namespace, Priority, RequestId

if TYPE_CHECKING:
    from engine.sessions import Session


class SequenceState(Enum):
    """Life of a sequence. RESTORING: its pages are there, and KV of another tier is being copied into them.

    WAITING → RUNNING → FINISHED        preempted sequences wait again; FINISHED is reached from everywhere
         ↘ RESTORING ↗
    """

    WAITING = auto()
    RESTORING = auto()
    RUNNING = auto()
    FINISHED = auto()


@dataclass(slots=True, eq=False)
class Sequence:
    """`tokens` begins with the prompt and grows by what is sampled, up to `max_tokens` in all.

    `arrival` orders sequences for good: preemption does not change it. Invariant: the first pages of `pages` hold exactly the
    `num_computed` tokens; there are none in the states WAITING and FINISHED.

    `namespace` is whose KV it may use and leave behind, none of it without one. Its first `public_tokens` tokens are a persona's.
    `session` is the lease that owns what it leaves behind.
    """

    request_id: RequestId
    arrival: int
    tokens: list[int]
    num_prompt_tokens: int
    max_tokens: int
    namespace: Namespace | None = None
    public_tokens: int = 0
    session: Session | None = None
    priority: Priority = Priority.INTERACTIVE
    account: Account | None = None
    """Who is charged for it when the queue is ordered; also where nothing may be reused."""
    queued_at: float = 0.0
    """When the engine took it, in seconds of its clock; grows with `arrival`."""
    state: SequenceState = SequenceState.WAITING
    num_computed: int = 0
    pages: list[PageId] = field(default_factory=list)
    num_preemptions: int = 0
    pace: Pace = field(default_factory=Pace)
    """How quickly its tokens have come so far."""
    times_passed: int = 0
    """How often one that came after it in the order of the queue has started first."""
    cached_from: CachedFrom | None = None
    """Tokens of the prompt that were there when it first started; None before that."""
    page_keys: list[PageKey] = field(default_factory=list)
    """Keys of its whole pages, as far as they were needed so far."""
    num_reused: int = 0
    """Whole pages from the beginning that somebody else had computed."""
    num_published: int = 0
    """Whole pages from the beginning that are in the index already."""
    lookup: PromptLookup = field(default_factory=PromptLookup)
    """What it has said before, and may say again."""
    num_allowed: Callable[[Items[int]], int] | None = None
    """How many of such tokens its grammar would let come next; None where it may say anything."""

    def append(self, token_id: int) -> None:
        """Take the token that was sampled behind all others: so the KV of all others is there."""
        self.num_computed = len(self.tokens)
        self.tokens.append(token_id)

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


def by_arrival(sequence: Sequence) -> int:
    """A key to sort by."""
    return sequence.arrival
