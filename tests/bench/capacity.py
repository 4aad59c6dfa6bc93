"""How many chats live in a given memory, and what becomes of them when there are ten times as many, in one run.

    python -m tests.bench.capacity [--sessions 500] [--fitting 50] [--tokens 1000]

First: in the memory in which contiguous allocation of 8,192 tokens holds 4 sessions, chats of mixed lengths are held, and
answered all at once. Then: many more sessions than fit; everyone's next turn is answered from whatever tier it has reached.
Every answer is compared with the one that an engine without any reuse gives. The model has random weights and is small.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.bench.capacity import (
    CONTEXT_TOKENS,
    MEAN_TOKENS,
    Held,
    first_turns,
    hold,
    lengths_of,
    paged_config,
    question,
    second_turns,
)
from engine.bench.chats import WORDS, chatting
from engine.bench.machine import resident_bytes
from engine.config import EngineConfig
from engine.kv_cache import KVCache
from engine.memory_budget import MemoryBudget
from engine.model.loader import load_model
from engine.types import Finished, Namespace, Role, Turn

SHAPE = {"max_position_embeddings": CONTEXT_TOKENS, "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4}


@dataclass(frozen=True)
class Crowd:
    """A crowd's second turns: how many were answered and wrong, what they found where, and what the process took."""

    answered: int
    wrong: int
    cached_tokens: dict[str, int]
    grown_bytes: int
    """Of the process, its listeners included, since the first turn of all."""
    budget: MemoryBudget
    pages_not_given_back: int
    seconds: float


def text_of(tokens: int, seed: int) -> str:
    """About so many tokens of the small model's vocabulary."""
    chance = random.Random(seed)
    return f"{seed}: " + " ".join(chance.choice(WORDS) for _ in range(tokens // 4))


def page_bytes(folder: Path) -> int:
    return KVCache.bytes_per_page(load_model(EngineConfig(folder, "capacity")).kv_spec)


async def held(folder: Path, *, chats: int = 16, mean_tokens: int = MEAN_TOKENS) -> tuple[Held, int]:
    """The first question, and how many of the second turns were wrong."""
    config = paged_config(EngineConfig(folder, "capacity", threads=1), page_bytes(folder), CONTEXT_TOKENS)
    texts = [text_of(tokens, place) for place, tokens in enumerate(lengths_of(chats, mean_tokens))]
    found = await hold(config, texts)
    return found, await _count_wrong(folder, found.histories, found.ends)


async def crowd(
    folder: Path, *, sessions: int, fitting: int, tokens: int, report: Callable[[str], None] = print
) -> Crowd:
    """The second question: KV memory for `fitting` sessions, twice that in the host, the rest on disk."""
    record_bytes = page_bytes(folder)
    session_bytes = (tokens // 16 + 4) * record_bytes
    with tempfile.TemporaryDirectory() as name:
        config = EngineConfig(
            folder,
            "capacity",
            threads=1,
            kv_memory_bytes=fitting * session_bytes,
            host_memory_bytes=2 * fitting * session_bytes,
            disk_folder=Path(name) / "kv",
            disk_bytes=2 * sessions * session_bytes,
        )
        async with chatting(config) as chats:
            begun = time.perf_counter()
            await chats.ask([Turn(Role.USER, text_of(tokens, 0))], None)
            resident = resident_bytes()
            histories = await first_turns(chats, [text_of(tokens, place) for place in range(1, sessions + 1)])
            report(f"{sessions} first turns after {time.perf_counter() - begun:.0f} s")
            ends = await second_turns(chats, histories, at_once=16)
            grown = resident_bytes() - resident
            report(f"pages by tier: {chats.engine.stats().pages}")
            found = dict.fromkeys(("device", "host", "disk", "prefix"), 0)
            for end in ends:
                for source in found:
                    found[source] += getattr(end.usage.cached_from, source)
            for place in range(sessions):
                await chats.engine.drop_namespace(Namespace.user(f"user {place}"))
            snapshot = await chats.engine.snapshot()
            left = sum(page.state.value not in ("free", "prefix") for page in snapshot.pages)
            left += snapshot.host.pages + snapshot.disk.pages - sum(prefix.pages for prefix in snapshot.prefixes)
    wrong = await _count_wrong(folder, histories[:: max(1, sessions // 50)], ends[:: max(1, sessions // 50)])
    budget = MemoryBudget.of(config, record_bytes, sessions)
    return Crowd(len(ends), wrong, found, grown, budget, left, time.perf_counter() - begun)


async def _count_wrong(folder: Path, histories: Sequence[Sequence[Turn]], ends: Sequence[Finished]) -> int:
    """Answers that an engine without reuse, asked one after the other, gives otherwise."""
    wrong = 0
    async with chatting(EngineConfig(folder, "capacity", threads=1, reuse=False)) as chats:
        for history, end in zip(histories, ends, strict=True):
            turned = await chats.ask([*history, question(history)], None)
            wrong += turned.end.token_ids != end.token_ids
    return wrong


def main() -> None:
    from tests.support.tiny_llama import write_folder

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--fitting", type=int, default=50)
    parser.add_argument("--tokens", type=int, default=1000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_folder(folder, **SHAPE)
        result = asyncio.run(
            crowd(folder, sessions=arguments.sessions, fitting=arguments.fitting, tokens=arguments.tokens)
        )
        print(result)
        found, wrong = asyncio.run(held(folder))
        print(f"{found.live} of {found.answered} chats held, {found.tokens} tokens; {wrong} second turns wrong")
        budget = result.budget
        print(
            f"memory grew by {result.grown_bytes >> 20} MiB; {budget.total >> 20} are stated, {budget.pages >> 20} for pages"
        )
        if result.grown_bytes > budget.total or result.wrong or result.pages_not_given_back:
            raise SystemExit("the crowd did not fit into what was stated, or was not answered rightly")


if __name__ == "__main__":
    main()
