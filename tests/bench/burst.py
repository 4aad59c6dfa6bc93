"""A burst of requests with a few very long ones among them, through the whole local engine: does any stream pause?

    python -m tests.bench.burst MODEL_FOLDER [--requests 200] [--long 10] [--long-tokens 6000] [--tokens 32] [--max-waiting 256]
                                [--target-ms 0] [--kv-mib 1024] [--weights auto] [--kernels FOLDER]
                                [--cpu-time]

A few answers stream alone first; then everything comes at once, from twenty users. For each answer the longest time between
two of its tokens is compared with its usual one: the median of its own, and for those that streamed before the burst the one
before it. Printed are the worst of these ratios, the times to the first token of short and of long requests, and how many were
refused. It takes some minutes. On a machine that does other things too, `--cpu-time` counts seconds of this process instead.

In a virtual machine the host may take a core away meanwhile, for 10 to 40 ms, which is several steps. Linux counts that, in ticks
of 10 ms and for all cores together, so the worst ratio is told once more with what was counted in each pause taken off.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from engine.config import EngineConfig
from engine.errors import QueueFull
from engine.local import LocalEngine
from engine.types import (
    EngineEvent,
    Finished,
    FinishReason,
    GenerationRequest,
    Namespace,
    RequestId,
    Role,
    SamplingParams,
    TextDelta,
    Turn,
)

WORDS = ["river", "stone", "lamp", "winter", "paper", "cloud", "garden", "bridge", "copper", "violin"]
USERS = 20
CPU_STATISTICS = Path("/proc/stat")
STREAMS_BEFORE = 4
TOKENS_BEFORE = 64


@dataclass
class Answer:
    """When the tokens of one answer came."""

    is_long: bool
    submitted_at: float
    usual_before_s: float = float("inf")
    token_at: list[float] = field(default_factory=list)
    stolen_s_at: list[float] = field(default_factory=list)
    """What the host had taken until then."""
    tokens: int = 0
    finished: Finished | None = None

    @property
    def usual_s(self) -> float:
        return min(self.usual_before_s, statistics.median(self.gaps))

    @property
    def longest_pause(self) -> float:
        """As a multiple of the usual time between two tokens."""
        return max(self.gaps) / self.usual_s

    @property
    def longest_pause_less_stolen(self) -> float:
        """The same without what the host took during each."""
        return max(gap - stolen for gap, stolen in zip(self.gaps, self.stolen_s, strict=True)) / self.usual_s

    @property
    def ttft_s(self) -> float:
        return self.token_at[0] - self.submitted_at

    @property
    def gaps(self) -> list[float]:
        return differences(self.token_at)

    @property
    def stolen_s(self) -> list[float]:
        """In each gap."""
        return differences(self.stolen_s_at)


class Burst:
    """One engine, and all the answers it gives."""

    def __init__(self, config: EngineConfig, clock: Callable[[], float], seed: int = 0) -> None:
        self.engine = LocalEngine(config, clock=clock)
        self._clock = clock
        self.tells_stolen = CPU_STATISTICS.exists() and clock is not time.process_time
        self._stolen_s = stolen_since_start_s if self.tells_stolen else lambda: 0.0
        self.answers: dict[RequestId, Answer] = {}
        self.refused: list[QueueFull] = []
        self._random = random.Random(seed)
        self._made = 0
        self._all_stream = asyncio.Event()
        self._all_done = asyncio.Event()

    def __call__(self, events: Sequence[EngineEvent]) -> None:
        now, stolen_s = self._clock(), self._stolen_s()
        for event in events:
            answer = self.answers[event.request_id]
            if isinstance(event, TextDelta) and event.output_tokens > answer.tokens:
                answer.tokens = event.output_tokens
                # Tokens that were guessed come together, as one piece of text.
                if answer.token_at[-1:] != [now]:
                    answer.token_at.append(now)
                    answer.stolen_s_at.append(stolen_s)
            elif isinstance(event, Finished):
                answer.finished = event
        if all(len(answer.token_at) >= TOKENS_BEFORE for answer in self.answers.values()):
            self._all_stream.set()
        if all(answer.finished is not None for answer in self.answers.values()):
            self._all_done.set()

    def request(self, words: int, tokens: int) -> GenerationRequest:
        """Each of these words is one token."""
        self._made += 1
        text = " ".join(self._random.choices(WORDS, k=words))
        return GenerationRequest(
            RequestId(f"burst-{self._made}"),
            (Turn(Role.USER, f"Tell a story with these words: {text}"),),
            SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True),
            namespace=Namespace.user(f"user {self._random.randrange(USERS)}"),
        )

    async def submit(self, request: GenerationRequest, *, is_long: bool = False) -> None:
        self.answers[request.request_id] = Answer(is_long, self._clock())
        self._all_done.clear()
        try:
            await self.engine.submit(request)
        except QueueFull as refusal:
            del self.answers[request.request_id]
            self.refused.append(refusal)

    async def run(self, requests: int, long: int, long_tokens: int, tokens: int) -> list[float]:
        """The usual times between tokens of the answers that streamed before the burst."""
        await self.engine.start(self)
        await self.engine.wait_ready()
        kinds = [True] * long + [False] * (requests - long)
        self._random.shuffle(kinds)
        # Made before: whoever sends them does that on a machine of their own.
        coming = [(self.request(long_tokens if is_long else 20, tokens), is_long) for is_long in kinds]
        for _ in range(STREAMS_BEFORE):
            await self.submit(self.request(20, 600))
        await self._all_stream.wait()
        for answer in self.answers.values():
            answer.usual_before_s = statistics.median(answer.gaps)
            # What they have been through since they began, one prompt beside the other, is no pause in a burst.
            del answer.token_at[:-1], answer.stolen_s_at[:-1]
        before = [answer.usual_before_s for answer in self.answers.values()]
        await asyncio.gather(*(self.submit(request, is_long=is_long) for request, is_long in coming))
        await self._all_done.wait()
        return before

    async def stop(self) -> None:
        await self.engine.stop()


def stolen_since_start_s() -> float:
    """What the host has taken from this machine's cores so far."""
    return int(CPU_STATISTICS.read_text().split(maxsplit=9)[8]) / os.sysconf("SC_CLK_TCK")


def differences(numbers: Sequence[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(numbers)]


def report(burst: Burst, before: list[float]) -> list[str]:
    """What is printed."""
    answers = list(burst.answers.values())
    worst = [(answer.longest_pause, answer) for answer in answers if len(answer.gaps) > 2]
    worst.sort(key=lambda item: item[0])
    failed = [answer for answer in answers if answer.finished is None or answer.finished.reason is FinishReason.FAILED]
    lines = [
        f"{len(answers)} answers, {len(burst.refused)} refused, {len(failed)} failed",
        f"usual time between tokens before the burst: {statistics.median(before) * 1000:.0f} ms",
    ]
    for name, group in (("short", False), ("long", True)):
        ttfts = sorted(answer.ttft_s for answer in answers if answer.is_long is group and answer.token_at)
        lines.append(f"first token of {name} requests: median {statistics.median(ttfts):.1f} s, last {ttfts[-1]:.1f} s")
    usual = statistics.median(statistics.median(answer.gaps) for _, answer in worst)
    longest = max(max(answer.gaps) for _, answer in worst)
    lines += [
        f"time between tokens in the burst: usual {usual * 1000:.0f} ms, longest {longest * 1000:.0f} ms",
        f"longest pause as a multiple of the same answer's usual: worst {worst[-1][0]:.1f}, of those that streamed before "
        f"{max(answer.longest_pause for answer in answers[:STREAMS_BEFORE]):.1f}, "
        f"median {statistics.median(ratio for ratio, _ in worst):.1f}",
        f"answers with a pause above 5 times their usual: {sum(ratio > 5 for ratio, _ in worst)} of {len(worst)}",
    ]
    if burst.tells_stolen:
        less = [answer.longest_pause_less_stolen for _, answer in worst]
        stolen = [stolen_s for _, answer in worst for stolen_s in answer.stolen_s]
        lines.append(
            f"less what the host took meanwhile: worst {max(less):.1f}, above 5 times {sum(ratio > 5 for ratio in less)}; "
            f"it took something in {sum(map(bool, stolen))} of {len(stolen)} pauses, at most {max(stolen) * 1000:.0f} ms"
        )
    if burst.refused:
        lines.append(f"a refusal says: {burst.refused[0]}")
    stats = burst.engine.stats()
    lines.append(f"{stats.steps_total} steps, {stats.preemptions_total} preemptions")
    return lines


async def measure(
    config: EngineConfig, clock: Callable[[], float], requests: int, long: int, long_tokens: int, tokens: int
) -> list[str]:
    burst = Burst(config, clock)
    try:
        before = await burst.run(requests, long, long_tokens, tokens)
        return report(burst, before)
    finally:
        await burst.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--long", type=int, default=10)
    parser.add_argument("--long-tokens", type=int, default=6000)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--max-waiting", type=int, default=256)
    parser.add_argument("--target-ms", type=int, default=0)
    parser.add_argument("--kv-mib", type=int, default=1024)
    parser.add_argument("--weights", default="auto")
    parser.add_argument("--kernels", type=Path, help="folder of the compiled kernels, built if they are not")
    parser.add_argument("--cpu-time", action="store_true")
    arguments = parser.parse_args()
    config = EngineConfig(
        arguments.model,
        "bench",
        weights=arguments.weights,
        kv_memory_bytes=arguments.kv_mib << 20,
        max_waiting=arguments.max_waiting,
        inter_token_target_ms=arguments.target_ms,
        kernels="auto" if arguments.kernels is None else "cpu",
        kernels_folder=arguments.kernels,
    )
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    lines = asyncio.run(
        measure(config, clock, arguments.requests, arguments.long, arguments.long_tokens, arguments.tokens)
    )
    for line in lines:
        print(line)


if __name__ == "__main__":
    main()
