"""The layout of a step that only goes on where the last one stopped: its tensors again, each number moved by one.

Used by `engine.runner`. Most steps are like that: the same answers, one token each. The tensors are those of the last step,
changed in place, so nobody may keep them; the decoder has read them when it returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.config import PAGE_TOKENS
from engine.model.batch import ForwardBatch
from engine.pages import PageId
from engine.sequence import Sequence as TokenSequence
from engine.step_plan import Scheduled

Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Row:
    """`pages` is the sequence's own list: another list means that it was preempted in between."""

    sequence: TokenSequence
    pages: list[PageId]
    end: int


class DecodeLayout:
    """Owns the last step's layout, if every sequence in it took one token and gets another."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._batch: ForwardBatch | None = None

    def keep(self, scheduled: Sequence[Scheduled], batch: ForwardBatch) -> ForwardBatch:
        """This one was laid out anew."""
        is_kept = batch.is_decode and len(batch.logit_rows) == len(scheduled)
        self._batch = batch if is_kept else None
        self._rows = [_Row(item.sequence, item.sequence.pages, item.end) for item in scheduled] if is_kept else []
        return batch

    def following(self, scheduled: Sequence[Scheduled]) -> ForwardBatch | None:
        """The layout of this step; None where it does not go on where the last one stopped."""
        last = self._batch
        if last is None or len(scheduled) != len(self._rows) or not self._go_on(scheduled):
            return None
        num_pages = last.block_tables.shape[1]
        if any(len(row.pages) > num_pages for row in self._rows):
            return None
        positions, ends, slots = last.positions.numpy(), last.context_lens.numpy(), last.slots.numpy()
        positions += 1
        ends += 1
        slots += 1
        self._turn_pages(last.block_tables.numpy(), positions, slots)
        last.token_ids.numpy()[:] = [row.sequence.tokens[row.end] for row in self._rows]
        for row in self._rows:
            row.end += 1
        self._batch = ForwardBatch(
            last.token_ids,
            last.positions,
            last.slots,
            last.query_starts,
            last.context_lens,
            last.block_tables,
            last.logit_rows,
            max_context_tokens=last.max_context_tokens + 1,
            is_decode=True,
        )
        return self._batch

    def _go_on(self, scheduled: Sequence[Scheduled]) -> bool:
        return all(
            item.sequence is row.sequence
            and item.sequence.pages is row.pages
            and item.end == row.end + 1 == item.start + 1
            and not item.draft
            for item, row in zip(scheduled, self._rows, strict=True)
        )

    def _turn_pages(self, tables: Numbers, positions: Numbers, slots: Numbers) -> None:
        """Whoever has come to the end of a page writes to the beginning of the next one."""
        for place in np.flatnonzero(positions % PAGE_TOKENS == 0):
            index = positions[place] // PAGE_TOKENS
            page = tables[place, index] = self._rows[place].pages[index]
            slots[place] = page * PAGE_TOKENS
