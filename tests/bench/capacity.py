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
from dataclasses import dataclass, replace
from pathlib import Path

from engine.config import EngineConfig
from engine.kv_cache import KVCache
from engine.memory_budget import MemoryBudget
from engine.model.loader import load_model
from engine.types import Finished, Namespace, Role, Turn
from tests.bench.warm_turns import WORDS, Chats

CONTEXT_TOKENS = 8192
SHAPE = {"max_position_embeddings": CONTEXT_TOKENS, "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4}


@dataclass(frozen=True)
class Held:
    """`answered` chats of `tokens` tokens in all, of which `live` had every page on the device before their next turn."""

    answered: int
    live: int
    tokens: int
    preemptions: int
    wrong: int


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


async def hold(folder: Path, *, chats: int = 16, mean_tokens: int = 1300) -> Held:
    """The first question: `chats` chats of a quarter to three times the mean, in memory for 4 x 8,192 tokens."""
    memory_bytes = 4 * CONTEXT_TOKENS // 16 * page_bytes(folder)
    config = EngineConfig(folder, "capacity", threads=1, kv_memory_bytes=memory_bytes, max_running=chats)
    lengths = [mean_tokens * share // 8 for share in (2, 3, 4, 5, 6, 8, 12, 24)]
    turns = [[Turn(Role.USER, text_of(lengths[place % len(lengths)], place))] for place in range(chats)]
    engine = Chats(config)
    await engine.start()
    try:
        histories = await _turn_all(engine, turns)
        snapshot = await engine.engine.snapshot()
        live = sum(session.pages.device * 16 >= session.tokens for session in snapshot.sessions)
        tokens = sum(session.tokens for session in snapshot.sessions)
        ends = await _second_turns(engine, histories, at_once=chats)
        preemptions = engine.engine.stats().preemptions_total
    finally:
        await engine.engine.stop()
    wrong = await _count_wrong(folder, histories, ends)
    return Held(len(ends), live, tokens, preemptions, wrong)


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
        engine = Chats(config)
        await engine.start()
        begun = time.perf_counter()
        try:
            await engine.turn([Turn(Role.USER, text_of(tokens, 0))], None)
            resident = resident_bytes()
            turns = [[Turn(Role.USER, text_of(tokens, place))] for place in range(1, sessions + 1)]
            histories = await _turn_all(engine, turns)
            report(f"{sessions} first turns after {time.perf_counter() - begun:.0f} s")
            ends = await _second_turns(engine, histories, at_once=16)
            grown = resident_bytes() - resident
            stats = engine.engine.stats()
            report(f"pages by tier: {stats.pages}")
            found = dict.fromkeys(("device", "host", "disk", "prefix"), 0)
            for end in ends:
                for source in found:
                    found[source] += getattr(end.usage.cached_from, source)
            for place in range(sessions):
                await engine.engine.drop_namespace(Namespace.user(f"user {place}"))
            snapshot = await engine.engine.snapshot()
            left = sum(page.state.value not in ("free", "prefix") for page in snapshot.pages)
            left += snapshot.host.pages + snapshot.disk.pages - sum(prefix.pages for prefix in snapshot.prefixes)
        finally:
            await engine.engine.stop()
    wrong = await _count_wrong(folder, histories[:: max(1, sessions // 50)], ends[:: max(1, sessions // 50)])
    budget = MemoryBudget.of(config, record_bytes, sessions)
    return Crowd(len(ends), wrong, found, grown, budget, left, time.perf_counter() - begun)


def question(history: Sequence[Turn]) -> Turn:
    """What a chat is asked next: for each of them something else."""
    return Turn(Role.USER, f"And what else, {history[0].text[:20]}?")


def resident_bytes() -> int:
    """Of this process, now."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))


async def _turn_all(engine: Chats, turns: Sequence[list[Turn]]) -> list[list[Turn]]:
    """One turn of everybody, four at a time; what each chat is then."""
    places = asyncio.Semaphore(4)

    async def one(place: int, asked: list[Turn]) -> list[Turn]:
        async with places:
            _, finished, text = await engine.turn(asked, Namespace.user(f"user {place}"), "chat")
        return [*asked, Turn(Role.ASSISTANT, text, finished.token_ids)]

    return list(await asyncio.gather(*(one(place, asked) for place, asked in enumerate(turns))))


async def _second_turns(engine: Chats, histories: Sequence[list[Turn]], *, at_once: int) -> list[Finished]:
    places = asyncio.Semaphore(at_once)

    async def one(place: int, history: list[Turn]) -> Finished:
        async with places:
            asked = [*history, question(history)]
            _, finished, _ = await engine.turn(asked, Namespace.user(f"user {place}"), "chat")
        return finished

    return list(await asyncio.gather(*(one(place, history) for place, history in enumerate(histories))))


async def _count_wrong(folder: Path, histories: Sequence[list[Turn]], ends: Sequence[Finished]) -> int:
    """Answers that an engine without reuse, asked one after the other, gives otherwise."""
    engine = Chats(replace(EngineConfig(folder, "capacity", threads=1), reuse=False))
    await engine.start()
    wrong = 0
    try:
        for history, end in zip(histories, ends, strict=True):
            _, finished, _ = await engine.turn([*history, question(history)], None)
            wrong += finished.token_ids != end.token_ids
    finally:
        await engine.engine.stop()
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
        print(asyncio.run(hold(folder)))
        budget = result.budget
        print(
            f"memory grew by {result.grown_bytes >> 20} MiB; {budget.total >> 20} are stated, {budget.pages >> 20} for pages"
        )
        if result.grown_bytes > budget.total or result.wrong or result.pages_not_given_back:
            raise SystemExit("the crowd did not fit into what was stated, or was not answered rightly")


if __name__ == "__main__":
    main()
