"""Answers that are made at the same time: how many tokens a second all of them get, and how long a reader waits for the next.

Used by `growth` and by scripts in `tests/bench`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from engine.bench.chats import Chats, Turned, words
from engine.types import Role, Turn


@dataclass(frozen=True, slots=True)
class StreamRates:
    """`tokens_per_s` of all streams together while each of them had begun and none had ended; `gaps_ms` of all of them."""

    tokens_per_s: float
    gaps_ms: list[float]


async def measure_streams(chats: Chats, streams: int, *, tokens: int, prompt_words: int = 20) -> StreamRates:
    """So many greedy answers of `tokens` tokens each, begun together. Raises EngineError."""
    prompts = [
        [Turn(Role.USER, f"Tell a story with these words: {words(prompt_words, stream)}")] for stream in range(streams)
    ]
    turned = await asyncio.gather(*(chats.ask(prompt, None, max_tokens=tokens) for prompt in prompts))
    return rates_of(turned)


def rates_of(turned: Sequence[Turned]) -> StreamRates:
    """The window begins with the last first text and ends with the first end."""
    begin = max(one.moments[0].at_s for one in turned)
    end = min(one.moments[-1].at_s for one in turned)
    counted = sum(_tokens_at(one, end) - _tokens_at(one, begin) for one in turned)
    rate = counted / (end - begin) if end > begin else 0.0
    return StreamRates(rate, [gap for one in turned for gap in one.gaps_ms])


def _tokens_at(turned: Turned, at_s: float) -> int:
    return max((moment.tokens for moment in turned.moments if moment.at_s <= at_s), default=0)
