"""Prompts that begin alike and come together: one computes the common beginning, and the others start behind it.

Used by `engine.scheduler`. Pure. Without this all of them would be let in before the first has anything to share, and each would
compute the same pages: sixteen chats that begin with one system prompt of 400 tokens compute 6,400 tokens for the 400.

The keys of pages say who may share what (`engine.page_keys`), so nobody waits for what somebody else's prompt looks like.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Items

from engine.ageing import is_lower
from engine.config import PAGE_TOKENS
from engine.page_keys import PageKey
from engine.sequence import Sequence
from engine.waiting_queue import goes_first


def is_underway(sequence: Sequence, keys: Items[PageKey], running: Iterable[Sequence]) -> bool:
    """Whether the next page that one of these is going to compute is one that `sequence`, which has these keys, needs as well.

    A key stands for everything up to its page, so this one comparison says that they begin alike up to there and that it is not
    there yet. Whoever was passed too often waits for nobody, and nobody waits for what is done in the background.
    """
    if goes_first(sequence):
        return False
    # The last token is always computed, so the page that it ends is of no use.
    useful = keys[: (len(sequence.tokens) - 1) // PAGE_TOKENS]
    return any(
        _computes_next_of(other, useful) and not is_lower(other.priority, sequence.priority) for other in running
    )


def _computes_next_of(other: Sequence, keys: Items[PageKey]) -> bool:
    """Whether the next page of its prompt that can be shared has the key that stands at its place in `keys`."""
    place = other.num_published
    is_whole = place < min(len(keys), len(other.page_keys), other.num_prompt_tokens // PAGE_TOKENS)
    return is_whole and other.page_keys[place] == keys[place]
