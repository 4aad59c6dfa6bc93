"""Tokens per second at several numbers of streams, through the whole local engine, in one run.

    python -m tests.bench.batching MODEL_FOLDER [--streams 1 8] [--tokens 96] [--prompt-words 20] [--rounds 3] [--weights auto]

Every stream is greedy and ignores end tokens, so each number of streams computes the same shapes. A rate counts the tokens of the
time in which every stream has begun and none has ended: reading the prompts is not in it. Printed is the best of the rounds,
because what else the machine does only ever makes one slower.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

from engine.bench.chats import chatting
from engine.bench.streams import measure_streams
from engine.config import EngineConfig


async def measure_rates(
    config: EngineConfig, streams: Sequence[int], *, tokens: int = 96, prompt_words: int = 20, rounds: int = 3
) -> dict[int, float]:
    """Best tokens per second for each number of streams; the numbers take turns, so that a slow minute hits all of them."""
    rates: dict[int, float] = dict.fromkeys(streams, 0.0)
    async with chatting(config) as chats:
        await measure_streams(chats, max(streams), tokens=8, prompt_words=prompt_words)
        for _ in range(rounds):
            for number in streams:
                measured = await measure_streams(chats, number, tokens=tokens, prompt_words=prompt_words)
                rates[number] = max(rates[number], measured.tokens_per_s)
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--prompt-words", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--weights", default="auto")
    parser.add_argument("--kernels", type=Path, default=None, help="folder of compiled kernels")
    parser.add_argument("--threads", type=int, default=None)
    arguments = parser.parse_args()
    config = EngineConfig(
        arguments.model,
        "bench",
        weights=arguments.weights,
        kernels_folder=arguments.kernels,
        threads=arguments.threads,
    )
    rates = asyncio.run(
        measure_rates(
            config,
            arguments.streams,
            tokens=arguments.tokens,
            prompt_words=arguments.prompt_words,
            rounds=arguments.rounds,
        )
    )
    first = next(iter(rates.values()))
    for streams, rate in rates.items():
        print(f"{streams:3d} streams  {rate:7.1f} tokens/s  {rate / first:5.2f} x")


if __name__ == "__main__":
    main()
