"""The protocol that all engines are compared by: greedy, end tokens ignored, prompts of random ids, no reuse, no text made.

    prefill    tokens of one prompt / time to its first token
    decode     tokens of all sequences per second, in a window that begins when each of them has its first token and ends when the
               first of them is complete, at least `steps` steps long: no prompt is read in it

Whole passes over all cells are repeated, so that a noisy moment hits one repeat of a cell; each number is the median. What is
written has the shape of the peers' harness, so both can be read by the same reader.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any, Final

from engine.bench.machine import describe_run, describe_versions
from engine.bench.token_engine import StepCounts, TokenEngine
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.types import ModelInfo

PEER: Final = "kvasir"
STEP_TOKENS: Final = 512
"""Most tokens that an engine may compute in one step."""
KV_MEMORY_BYTES: Final = 2 << 30
"""For the KV cache; as much as the others are given."""
WARM_UP_STEPS: Final = 8
WARM_UP_CONTEXT_TOKENS: Final = 16
WARM_UP_BATCHES: Final = (1, 4)
IDS: Final = range(1000, 40000)
"""Prompts are made of these, where the vocabulary has them."""
MOST_SEQUENCES: Final = 32
MOST_TOKENS: Final = 1000
"""In one sequence; both bounds are those of the other engines' settings."""


@dataclass(frozen=True, slots=True)
class ProtocolSettings:
    """The names are those of the harness."""

    threads: int = 2
    prefill: int = 500
    steps: int = 32
    repeats: int = 3
    seed: int = 1
    batches: tuple[int, ...] = (1, 4, 8, 16, 32)
    contexts: tuple[int, ...] = (16, 512)

    def __post_init__(self) -> None:
        if max(self.batches) > MOST_SEQUENCES or max(*self.contexts, self.prefill) + self.steps > MOST_TOKENS:
            raise ValueError(f"at most {MOST_SEQUENCES} sequences, and {MOST_TOKENS} tokens in each")

    @property
    def num_measurements(self) -> int:
        """How many times `on_measured` is called."""
        return self.repeats * (1 + len(self.contexts) * len(self.batches))


def measure_engine(
    config: EngineConfig, settings: ProtocolSettings, on_measured: Callable[[str], None] = lambda _what: None
) -> dict[str, Any]:
    """The file of results: settings and machine, and one entry for this engine. Raises EngineError."""
    config = replace(
        config,
        reuse=False,
        disk_folder=None,
        host_memory_bytes=0,
        threads=settings.threads,
        kv_memory_bytes=KV_MEMORY_BYTES,
        max_step_tokens=STEP_TOKENS,
        max_running=max(*WARM_UP_BATCHES, *settings.batches),
        # One token a step and sequence, as the others decode: random prompts end in loops, which this engine would guess.
        speculation_tokens=0,
    )
    engine = TokenEngine(config)
    began = time.perf_counter()
    try:
        info = engine.start()
        loaded_s = time.perf_counter() - began
        ttft_s, decode = _passes(engine, info, settings, on_measured)
    finally:
        engine.stop()
    entry = {
        "peer": PEER,
        "variant": info.weights,
        "versions": describe_versions(),
        "model": info.name,
        "kernels": info.kernels,
        "load_s": round(loaded_s, 2),
        "ttft_s": [round(seconds, 4) for seconds in ttft_s],
        "prefill_tok_s": round(settings.prefill / median(ttft_s), 1),
        "decode_tok_s": {
            context: {size: median(rates) for size, rates in row.items()} for context, row in decode.items()
        },
        "decode_all": decode,
    }
    return {**describe_run(), "settings": asdict(settings), "results": [entry]}


Decode = dict[str, dict[str, list[float]]]
"""Tokens per second by context and batch, as text; one number a pass."""


def _passes(
    engine: TokenEngine, info: ModelInfo, settings: ProtocolSettings, on_measured: Callable[[str], None]
) -> tuple[list[float], Decode]:
    chance = random.Random(settings.seed)
    ids = IDS if info.vocabulary_size >= IDS.stop else range(info.vocabulary_size)

    def prompt(length: int) -> list[int]:
        return [chance.randrange(ids.start, ids.stop) for _ in range(length)]

    first_token_s(engine, prompt(settings.prefill))
    for size in (*WARM_UP_BATCHES, max(settings.batches)):
        decode_rate(engine, [prompt(WARM_UP_CONTEXT_TOKENS) for _ in range(size)], WARM_UP_STEPS)
    ttft_s: list[float] = []
    decode: Decode = {str(context): {str(size): [] for size in settings.batches} for context in settings.contexts}
    for _ in range(settings.repeats):
        ttft_s.append(first_token_s(engine, prompt(settings.prefill)))
        on_measured(f"prefill {settings.prefill}")
        for context in settings.contexts:
            for size in settings.batches:
                rate = decode_rate(engine, [prompt(context) for _ in range(size)], settings.steps)
                decode[str(context)][str(size)].append(round(rate, 2))
                on_measured(f"decode {size} x {context}")
    return ttft_s, decode


def first_token_s(engine: TokenEngine, prompt: list[int]) -> float:
    """Seconds to the first token of a single request."""
    asked_at, steps = engine.run([prompt], 1)
    return next(step.at_s for step in steps if step.tokens[0]) - asked_at


def decode_rate(engine: TokenEngine, prompts: Sequence[list[int]], steps: int) -> float:
    """Tokens per second from the moment every sequence decodes until the first one ends."""
    size = len(prompts)
    # The first sequences run ahead while the last are still in their prompts, which the scheduler reads in steps of at least
    # half of what one may compute.
    ahead = 2 * size * len(prompts[0]) // (STEP_TOKENS - size) + 8
    return window_rate(engine.run(prompts, steps + 1 + ahead)[1], steps)


def window_rate(counts: Sequence[StepCounts], steps: int) -> float:
    """Tokens per second in the steps in which every sequence has its first token and none has had its last.

    Raises EngineError where these are fewer than `steps`.
    """
    new_tokens = max(counts[-1].tokens)
    begin = next(place for place, count in enumerate(counts) if min(count.tokens) >= 1)
    end = next(place for place, count in enumerate(counts) if max(count.tokens) >= new_tokens)
    if end - begin < steps:
        size = len(counts[-1].tokens)
        raise EngineError(
            f"{size} sequences decoded together for {end - begin} steps, where {steps} are measured: the KV cache is too small"
        )
    return (sum(counts[end].tokens) - sum(counts[begin].tokens)) / (counts[end].at_s - counts[begin].at_s)
