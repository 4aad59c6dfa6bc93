"""Greedy decoding with the real decoder and nothing else of the engine: pages where the test wants them, any chunking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from engine.config import PAGE_TOKENS
from engine.kv_cache import KVCache
from engine.model.batch import ForwardBatch
from engine.model.decoder import DecoderLike


@dataclass
class Stream:
    """One sequence: its ids, the pages it owns, and how many of its ids are in the cache."""

    ids: list[int]
    pages: Sequence[int]
    done: int = 0
    prompt_tokens: int = field(init=False)

    def __post_init__(self) -> None:
        self.prompt_tokens = len(self.ids)

    @property
    def generated(self) -> list[int]:
        return self.ids[self.prompt_tokens :]

    def slots(self, count: int) -> list[int]:
        return [
            self.pages[place // PAGE_TOKENS] * PAGE_TOKENS + place % PAGE_TOKENS
            for place in range(self.done, self.done + count)
        ]


def batch_of(parts: Sequence[tuple[Stream, int]]) -> ForwardBatch:
    """A step in which each stream gets its next `count` tokens; all of their last rows are wanted."""
    ids, positions, slots, starts = [], [], [], [0]
    for stream, count in parts:
        ids += stream.ids[stream.done : stream.done + count]
        positions += range(stream.done, stream.done + count)
        slots += stream.slots(count)
        starts.append(starts[-1] + count)
    contexts = [stream.done + count for stream, count in parts]
    width = max(-(-context // PAGE_TOKENS) for context in contexts)
    tables = [
        [*stream.pages[:used], *[0] * (width - used)]
        for (stream, _), used in zip(parts, (-(-context // PAGE_TOKENS) for context in contexts), strict=True)
    ]
    return ForwardBatch(
        token_ids=torch.tensor(ids),
        positions=torch.tensor(positions),
        slots=torch.tensor(slots),
        query_starts=torch.tensor(starts),
        context_lens=torch.tensor(contexts),
        block_tables=torch.tensor(tables),
        logit_rows=torch.tensor(starts[1:]) - 1,
        max_context_tokens=max(contexts),
        is_decode=all(count == 1 for _, count in parts),
    )


def step(decoder: DecoderLike, cache: KVCache, parts: Sequence[tuple[Stream, int]]) -> torch.Tensor:
    """Run one step and note what is in the cache now; the logits of each stream's last row."""
    logits = decoder.forward(batch_of(parts), cache)
    for stream, count in parts:
        stream.done += count
    return logits


def greedy(
    decoder: DecoderLike,
    cache: KVCache,
    prompts: Sequence[Sequence[int]],
    pages: Sequence[Sequence[int]],
    *,
    max_tokens: int,
    chunk_tokens: int | None = None,
    end_ids: frozenset[int] = frozenset(),
) -> list[list[int]]:
    """All prompts together: each reads its prompt in chunks while others already decode. Ids without the prompts."""
    streams = [Stream(list(prompt), own) for prompt, own in zip(prompts, pages, strict=True)]
    running = list(streams)
    while running:
        parts = [(stream, min(len(stream.ids) - stream.done, chunk_tokens or len(stream.ids))) for stream in running]
        logits = step(decoder, cache, parts)
        for (stream, _), row in zip(parts, logits, strict=True):
            if stream.done == len(stream.ids):
                stream.ids.append(int(row.argmax()))
        running = [
            stream
            for stream in running
            if len(stream.generated) < max_tokens and not (stream.generated and stream.ids[-1] in end_ids)
        ]
    return [stream.generated for stream in streams]
