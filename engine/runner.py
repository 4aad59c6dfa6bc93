"""Carries out the planned part of a step on tensors: lays the tokens out flat, runs the decoder, samples.

Used by `engine.core`, in the engine thread. It changes no sequence and no page; it only reads their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from engine.config import PAGE_TOKENS
from engine.decode_layout import DecodeLayout
from engine.kv_cache import KVCache
from engine.model.batch import ForwardBatch
from engine.model.decoder import DecoderLike
from engine.pages import PageId, pages_for
from engine.sampler import Sampler, SamplingState
from engine.sequence import Sequence as TokenSequence
from engine.step_plan import Scheduled
from engine.types import RequestId, SamplingParams

WARM_UP_TOKENS = 32
WARM_UP_STREAMS = 4
"""A start waits for them, so they are few. Every weight is touched, libraries set themselves up, and threads are there; the first
larger chunk after that takes 3 % longer than the second one, and more of these would take half a second."""


class Runner:
    """Owns the decoder and its KV cache. Every call computes exactly the tokens it is given."""

    def __init__(self, decoder: DecoderLike, cache: KVCache, sampler: Sampler) -> None:
        self._decoder = decoder
        self._cache = cache
        self._sampler = sampler
        self._layout = DecodeLayout()

    def run(self, scheduled: Sequence[Scheduled], states: Sequence[SamplingState]) -> list[int | None]:
        """Compute the tokens of the scheduled and sample for those that `samples`, in order; `states` are theirs, one for the
        last token and one for each of the draft.

        None stands for a row whose logits were not numbers.
        """
        with torch.inference_mode():
            batch = self._layout.following(scheduled) or self._layout.keep(scheduled, forward_batch(scheduled))
            logits = self._decoder.forward(batch, self._cache)
            return self._sampler.sample(logits, states) if states else []

    def reach(self, num_pages: int) -> None:
        """Pages below this number are used: have the memory of the next ones ready. Returns at once."""
        self._cache.reach(num_pages)

    def warm_up(self, max_step_tokens: int, max_running: int) -> None:
        """Run the shapes that are to come once: one prompt chunk, one answer alone, answers together.

        Writes into pages that nobody holds yet; every page is written before it is read.
        """
        max_prompt_tokens = min(max_step_tokens, WARM_UP_TOKENS)
        pages = [PageId(page) for page in range(min(self._cache.pages, pages_for(max_prompt_tokens)))]
        prompt_tokens = min(max_prompt_tokens, len(pages) * PAGE_TOKENS)
        state = SamplingState(SamplingParams(top_p=0.9), [], self._sampler.vocabulary_size)
        self.run([Scheduled(_dummy(prompt_tokens, pages), 0, prompt_tokens)], [state])
        for streams in sorted({1, min(max_running, WARM_UP_STREAMS)}):
            self.run([Scheduled(_dummy(1, pages[:1]), 0, 1)] * streams, [state] * streams)


def forward_batch(scheduled: Sequence[Scheduled]) -> ForwardBatch:
    """The layout that `engine.model.batch` draws, for the scheduled sequences one after the other."""
    sequences = [item.sequence for item in scheduled]
    counts = np.array([item.draft_end - item.start for item in scheduled], dtype=np.int64)
    ends = np.array([item.draft_end for item in scheduled], dtype=np.int64)
    query_starts = np.concatenate(([0], counts.cumsum()))
    owners = np.repeat(np.arange(len(scheduled)), counts)
    positions = np.arange(query_starts[-1]) - np.repeat(query_starts[1:] - ends, counts)
    block_tables = np.zeros((len(sequences), max(len(sequence.pages) for sequence in sequences)), dtype=np.int64)
    token_ids: list[int] = []
    for row, item in zip(block_tables, scheduled, strict=True):
        row[: len(item.sequence.pages)] = item.sequence.pages
        token_ids += item.sequence.tokens[item.start : item.end]
        token_ids += item.draft
    slots = block_tables[owners, positions // PAGE_TOKENS] * PAGE_TOKENS + positions % PAGE_TOKENS
    logit_rows: list[int] = []
    for item, end in zip(scheduled, query_starts[1:].tolist(), strict=True):
        if item.samples:
            logit_rows += range(end - 1 - len(item.draft), end)
    return ForwardBatch(
        token_ids=torch.tensor(token_ids, dtype=torch.int64),
        positions=torch.from_numpy(positions),
        slots=torch.from_numpy(slots),
        query_starts=torch.from_numpy(query_starts),
        context_lens=torch.from_numpy(ends),
        block_tables=torch.from_numpy(block_tables),
        logit_rows=torch.tensor(logit_rows, dtype=torch.int64),
        max_context_tokens=int(ends.max()),
        is_decode=bool((counts == 1).all()),
    )


def _dummy(num_tokens: int, pages: list[PageId]) -> TokenSequence:
    return TokenSequence(
        RequestId("warm-up"), 0, [0] * num_tokens, num_tokens, num_tokens + 1, num_computed=0, pages=pages
    )
