"""What reuse is worth, in one run: the first token of a turn after a long history, from every tier, and with a persona.

    python -m tests.bench.warm_turns MODEL_FOLDER [--history-tokens 3000] [--persona-tokens 1000] [--rounds 5] [--kernels FOLDER]

TTFT is taken from outside, from `submit` to the first text. Everything is greedy. Of each kind the median of the rounds is
printed, and beside it the ratio to a first turn of 20 tokens in an empty conversation. A cold run of the same history, by another
user, is the measure of what restoring saves; its ids have to be those of every warm run.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from statistics import median

from engine.config import EngineConfig
from engine.local import LocalEngine
from engine.snapshot import PrefixState
from engine.types import (
    EngineEvent,
    Finished,
    GenerationRequest,
    Namespace,
    RequestId,
    Role,
    SamplingParams,
    SessionKey,
    TextDelta,
    Turn,
)

WORDS = ["river", "stone", "lamp", "winter", "paper", "cloud", "garden", "bridge", "copper", "violin"]
QUESTION = "Now tell me which of all these things you like best, and why that is so."
ANNA, BERT = Namespace.user("anna"), Namespace.user("bert")


def words(number: int, seed: int) -> str:
    """So many words, other ones for each seed."""
    return " ".join(f"{WORDS[(seed + place * (seed + 3)) % len(WORDS)]}{seed % 7}" for place in range(number))


@dataclass
class Turned:
    """One turn, seen from outside."""

    first_text_at: float | None = None
    text: str = ""
    finished: Finished | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Chats:
    """An engine, and whoever talks to it one turn at a time."""

    def __init__(self, config: EngineConfig) -> None:
        self.engine = LocalEngine(config)
        self._turns: dict[RequestId, Turned] = {}
        self._names = count()

    async def start(self) -> None:
        await self.engine.start(self._receive)
        await self.engine.wait_ready()

    def _receive(self, events: Sequence[EngineEvent]) -> None:
        now = time.perf_counter()
        for event in events:
            turned = self._turns[event.request_id]
            if isinstance(event, TextDelta):
                turned.first_text_at = turned.first_text_at or now
                turned.text += event.text
            elif isinstance(event, Finished):
                turned.finished = event
                turned.done.set()

    async def turn(
        self,
        turns: Sequence[Turn],
        namespace: Namespace | None,
        session: str | None = None,
        *,
        persona: str | None = None,
        max_tokens: int = 8,
    ) -> tuple[float, Finished, str]:
        """Milliseconds to the first text, the end, and the text."""
        name = RequestId(f"turn-{next(self._names)}")
        turned = self._turns[name] = Turned()
        sampling = SamplingParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True)
        begun = time.perf_counter()
        await self.engine.submit(
            GenerationRequest(name, tuple(turns), sampling, namespace=namespace, session=session, persona=persona)
        )
        await turned.done.wait()
        assert turned.finished is not None
        assert turned.first_text_at is not None
        return (turned.first_text_at - begun) * 1000, turned.finished, turned.text

    async def tokens(self, turns: Sequence[Turn]) -> int:
        return await self.engine.check(GenerationRequest(RequestId("count"), tuple(turns)))


@dataclass(frozen=True)
class Result:
    """Medians in milliseconds, and what was reused."""

    ttft_ms: dict[str, float]
    cached_share: dict[str, float]
    same_ids: bool

    def ratio(self, name: str, to: str = "first turn") -> float:
        return self.ttft_ms[name] / self.ttft_ms[to]


async def measure(
    config: EngineConfig,
    *,
    history_tokens: int,
    persona_tokens: int,
    rounds: int,
    report: Callable[[str], None] = print,
) -> Result:
    """All of it, with a disk tier in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        config = replace(config, disk_folder=Path(folder) / "kv", host_memory_bytes=1 << 30)
        chats = Chats(config)
        await chats.start()
        times: dict[str, list[float]] = {}
        shares: dict[str, list[float]] = {}
        ids: set[tuple[int, ...] | None] = set()

        def note(name: str, result: tuple[float, Finished, str], history: int = 0) -> None:
            ttft_ms, finished, _ = result
            times.setdefault(name, []).append(ttft_ms)
            if history:
                shares.setdefault(name, []).append(min(1.0, finished.usage.cached_tokens / history))

        def asked() -> Turn:
            """Another question each time, so that nothing of it was computed before."""
            return Turn(Role.USER, f"{next(questions)} {QUESTION}")

        questions = count(100)
        same = Turn(Role.USER, QUESTION)
        for number in range(rounds + 1):
            result = await chats.turn([asked()], ANNA, f"empty-{number}")
            if number:
                note("first turn", result)
        history = [Turn(Role.USER, words(history_tokens // 3, 1))]
        _, finished, text = await chats.turn(history, ANNA, "long", max_tokens=16)
        history.append(Turn(Role.ASSISTANT, text, finished.token_ids))
        known = await chats.tokens(history)
        report(f"history: {known} tokens")
        long = SessionKey(ANNA, "long")
        for _ in range(rounds):
            note("device", await chats.turn([*history, asked()], ANNA, "long"), known)
            assert await chats.engine.evict_session(long)
            note("host", await chats.turn([*history, asked()], ANNA, "long"), known)
        note("cold", await chats.turn([*history, same], BERT, "cold"), 0)
        for namespace in (None, BERT, ANNA):
            _, finished, _ = await chats.turn([*history, same], namespace, "long")
            ids.add(finished.token_ids)
        assert await chats.engine.evict_session(long)
        _, finished, _ = await chats.turn([*history, same], ANNA, "long")
        ids.add(finished.token_ids)
        persona = [Turn(Role.SYSTEM, words(persona_tokens // 3, 2))]
        await _set_persona(chats, persona)
        report(f"persona: {await chats.tokens([*persona, same])} tokens with a question")
        for number in range(rounds):
            note("persona", await chats.turn([*persona, asked()], ANNA, f"persona-{number}", persona="persona"))
        await chats.engine.stop()
        for number in range(rounds):
            chats = Chats(config)
            await chats.start()
            await chats.turn([Turn(Role.USER, "Hello.")], None)
            note("disk", await chats.turn([*history, asked()], ANNA, "long"), known)
            await _set_persona(chats, persona)
            result = await chats.turn([*persona, asked()], BERT, f"again-{number}", persona="persona")
            note("persona after a restart", result)
            _, finished, _ = await chats.turn([*history, same], ANNA, "long")
            ids.add(finished.token_ids)
            await chats.engine.stop()
        medians = {name: median(values) for name, values in times.items()}
        return Result(medians, {name: min(values) for name, values in shares.items()}, len(ids) == 1)


async def _set_persona(chats: Chats, turns: Sequence[Turn]) -> None:
    await chats.engine.set_prefix("persona", turns)
    while True:
        states = {prefix.name: prefix.state for prefix in (await chats.engine.snapshot()).prefixes}
        if states["persona"] is PrefixState.READY:
            return
        await asyncio.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--history-tokens", type=int, default=3000)
    parser.add_argument("--persona-tokens", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--kernels", type=Path, default=None, help="folder of the compiled kernels, built if they are not"
    )
    arguments = parser.parse_args()
    result = asyncio.run(
        measure(
            EngineConfig(
                arguments.model,
                "bench",
                kernels="auto" if arguments.kernels is None else "cpu",
                kernels_folder=arguments.kernels,
            ),
            history_tokens=arguments.history_tokens,
            persona_tokens=arguments.persona_tokens,
            rounds=arguments.rounds,
        )
    )
    for name, ttft_ms in result.ttft_ms.items():
        share = f"{result.cached_share[name]:7.2%} of the history reused" if name in result.cached_share else ""
        print(f"{name:24s} {ttft_ms:8.1f} ms  {result.ratio(name):6.2f} x  {share}")
    print(f"the same ids everywhere: {result.same_ids}")


if __name__ == "__main__":
    main()
