"""Tokens per second at several numbers of streams, through the whole local engine, in one run.

    python -m tests.bench.batching MODEL_FOLDER [--streams 1 8] [--tokens 96] [--prompt-words 20] [--rounds 3] [--weights auto]

Every stream is greedy and ignores end tokens, so each number of streams computes the same shapes. A rate counts the tokens
between the first and the last token of all streams: reading the prompts is not in it. Printed is the best of the rounds,
because what else the machine does only ever makes one slower.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.config import EngineConfig
from engine.local import LocalEngine
from engine.types import EngineEvent, Finished, GenerationRequest, RequestId, Role, SamplingParams, TextDelta, Turn

WORDS = ["river", "stone", "lamp", "winter", "paper", "cloud", "garden", "bridge", "copper", "violin"]


@dataclass
class Measurement:
    """What the listener sees of one round."""

    streams: int
    first_token_at: dict[RequestId, float] = field(default_factory=dict)
    finished: dict[RequestId, Finished] = field(default_factory=dict)
    tokens: dict[RequestId, int] = field(default_factory=dict)
    window_tokens: int = 0
    window_began_at: float | None = None
    ended_at: float = 0.0
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, events: Sequence[EngineEvent]) -> None:
        now = time.perf_counter()
        for event in events:
            if isinstance(event, TextDelta):
                self.first_token_at.setdefault(event.request_id, now)
                self.tokens[event.request_id] = event.output_tokens
            elif isinstance(event, Finished):
                self.finished[event.request_id] = event
                self.tokens[event.request_id] = event.usage.output_tokens
        if self.window_began_at is None:
            if len(self.first_token_at) == self.streams:
                self.window_began_at = now
                self.window_tokens = sum(self.tokens.values())
        elif len(self.finished) == self.streams:
            self.ended_at = now
            self.done.set()

    @property
    def tokens_per_s(self) -> float:
        """Of all streams together, from the moment each of them has its first token."""
        if self.window_began_at is None:
            raise RuntimeError("the round is not over")
        return (sum(self.tokens.values()) - self.window_tokens) / (self.ended_at - self.window_began_at)


class Bench:
    """One engine, measured round by round."""

    def __init__(self, config: EngineConfig) -> None:
        self._engine = LocalEngine(config)
        self._measurement: Measurement | None = None
        self._names = 0

    async def start(self) -> None:
        await self._engine.start(self._receive)
        await self._engine.wait_ready()

    async def stop(self) -> None:
        await self._engine.stop()

    async def measure(self, streams: int, tokens: int, prompt_words: int) -> Measurement:
        self._measurement = Measurement(streams)
        for stream in range(streams):
            words = " ".join(WORDS[(stream + place) % len(WORDS)] for place in range(prompt_words))
            self._names += 1
            await self._engine.submit(
                GenerationRequest(
                    RequestId(f"bench-{self._names}"),
                    (Turn(Role.USER, f"Tell a story with these words: {words}"),),
                    SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True),
                )
            )
        await self._measurement.done.wait()
        return self._measurement

    def _receive(self, events: Sequence[EngineEvent]) -> None:
        if self._measurement is not None:
            self._measurement(events)


async def measure_rates(
    config: EngineConfig, streams: Sequence[int], *, tokens: int = 96, prompt_words: int = 20, rounds: int = 3
) -> dict[int, float]:
    """Best tokens per second for each number of streams; the numbers take turns, so that a slow minute hits all of them."""
    bench = Bench(config)
    await bench.start()
    try:
        await bench.measure(max(streams), 8, prompt_words)
        rates: dict[int, float] = dict.fromkeys(streams, 0.0)
        for _ in range(rounds):
            for count in streams:
                measured = await bench.measure(count, tokens, prompt_words)
                rates[count] = max(rates[count], measured.tokens_per_s)
        return rates
    finally:
        await bench.stop()


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
