"""Whether one user can tell by the clock what another has said, in one run.

    python -m tests.bench.isolation [--probes 300] [--history-words 310]

A victim has said a long text, or has not. Then somebody else sends the same text, and the time to the first token is taken. Both
kinds of probes take turns, so that a slow minute hits both. The Mann-Whitney test says how probable so large a difference would
be if there were none. With `planted_bug` both users are given one namespace, and the same test has to see it.

The model has random weights and is small, so that hundreds of long prompts take seconds; what is measured is the same code.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, sqrt
from pathlib import Path

from engine.bench.chats import WORDS, chatting
from engine.config import EngineConfig
from engine.types import Namespace, Role, Turn


@dataclass(frozen=True)
class Probes:
    """Milliseconds to the first token of texts the victim has said, and of texts it has not; and the tokens found."""

    said_ms: list[float]
    unsaid_ms: list[float]
    cached_tokens: set[int]

    @property
    def p(self) -> float:
        return mann_whitney_p(self.said_ms, self.unsaid_ms)


async def probe(folder: Path, *, probes: int, history_words: int, planted_bug: bool = False) -> Probes:
    """Half of the probes of each kind. Every probe is of a text and by a user of its own, so that no probe helps another."""
    said_ms: list[float] = []
    unsaid_ms: list[float] = []
    cached: set[int] = set()
    chance = random.Random(7)
    async with chatting(EngineConfig(folder, "isolation", threads=1, kv_memory_bytes=1 << 28)) as chats:
        for number in range(probes + 4):
            is_said = number % 2 == 0
            text = " ".join(chance.choice(WORDS) for _ in range(history_words))
            turns = [Turn(Role.USER, text)]
            victim = Namespace.user(f"victim {number}")
            other = victim if planted_bug else Namespace.user(f"other {number}")
            # Either way the victim says something as long just before, so that the machine is in the same state.
            before = turns if is_said else [Turn(Role.USER, " ".join(reversed(text.split())))]
            await chats.ask(before, victim, "chat", max_tokens=2)
            turned = await chats.ask(turns, other, "chat of another", max_tokens=2)
            if number >= 4:
                (said_ms if is_said else unsaid_ms).append(turned.ttft_ms)
                cached.add(turned.end.usage.cached_tokens)
    return Probes(said_ms, unsaid_ms, cached)


def mann_whitney_p(one: Sequence[float], other: Sequence[float]) -> float:
    """Two-sided p of the Mann-Whitney U test, by the normal approximation, which is exact enough beyond 20 values each."""
    ranked = sorted([(value, True) for value in one] + [(value, False) for value in other])
    ranks: list[float] = [0.0] * len(ranked)
    start = 0
    ties = 0.0
    for end in range(1, len(ranked) + 1):
        if end == len(ranked) or ranked[end][0] != ranked[start][0]:
            ranks[start:end] = [(start + 1 + end) / 2] * (end - start)
            ties += (end - start) ** 3 - (end - start)
            start = end
    first, second = len(one), len(other)
    total = first + second
    u = sum(rank for rank, (_, is_one) in zip(ranks, ranked, strict=True) if is_one) - first * (first + 1) / 2
    variance = first * second / 12 * (total + 1 - ties / (total * (total - 1)))
    return erfc(abs(u - first * second / 2) / sqrt(variance) / sqrt(2)) if variance else 1.0


def main() -> None:
    from tempfile import TemporaryDirectory

    from tests.support.tiny_llama import write_folder

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--probes", type=int, default=300)
    parser.add_argument("--history-words", type=int, default=310)
    arguments = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_folder(folder, max_position_embeddings=4096)
        for planted_bug in (False, True):
            found = asyncio.run(
                probe(
                    folder,
                    probes=arguments.probes,
                    history_words=arguments.history_words,
                    planted_bug=planted_bug,
                )
            )
            print(
                f"planted bug: {planted_bug!s:5}  p = {found.p:.4f}  cached tokens seen: {sorted(found.cached_tokens)[-3:]}"
            )


if __name__ == "__main__":
    main()
