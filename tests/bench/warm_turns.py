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
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from statistics import median

from engine.bench.chats import Turned, chatting, words
from engine.config import EngineConfig
from engine.types import Namespace, Role, SessionKey, Turn

QUESTION = "Now tell me which of all these things you like best, and why that is so."
ANNA, BERT = Namespace.user("anna"), Namespace.user("bert")


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
    times: dict[str, list[float]] = {}
    shares: dict[str, list[float]] = {}
    ids: set[tuple[int, ...] | None] = set()
    questions = count(100)
    same = Turn(Role.USER, QUESTION)
    long = SessionKey(ANNA, "long")
    persona = [Turn(Role.SYSTEM, words(persona_tokens // 3, 2))]

    def note(name: str, turned: Turned, history: int = 0) -> None:
        times.setdefault(name, []).append(turned.ttft_ms)
        if history:
            shares.setdefault(name, []).append(min(1.0, turned.end.usage.cached_tokens / history))

    def asked() -> Turn:
        """Another question each time, so that nothing of it was computed before."""
        return Turn(Role.USER, f"{next(questions)} {QUESTION}")

    with tempfile.TemporaryDirectory() as folder:
        config = replace(config, disk_folder=Path(folder) / "kv", host_memory_bytes=1 << 30)
        async with chatting(config) as chats:
            for number in range(rounds + 1):
                turned = await chats.ask([asked()], ANNA, f"empty-{number}")
                if number:
                    note("first turn", turned)
            history = [Turn(Role.USER, words(history_tokens // 3, 1))]
            turned = await chats.ask(history, ANNA, "long", max_tokens=16)
            history.append(Turn(Role.ASSISTANT, turned.text, turned.end.token_ids))
            known = await chats.tokens(history)
            report(f"history: {known} tokens")
            for _ in range(rounds):
                note("device", await chats.ask([*history, asked()], ANNA, "long"), known)
                assert await chats.engine.evict_session(long)
                note("host", await chats.ask([*history, asked()], ANNA, "long"), known)
            note("cold", await chats.ask([*history, same], BERT, "cold"))
            for namespace in (None, BERT, ANNA):
                ids.add((await chats.ask([*history, same], namespace, "long")).end.token_ids)
            assert await chats.engine.evict_session(long)
            ids.add((await chats.ask([*history, same], ANNA, "long")).end.token_ids)
            await chats.set_persona("persona", persona)
            report(f"persona: {await chats.tokens([*persona, same])} tokens with a question")
            for number in range(rounds):
                note("persona", await chats.ask([*persona, asked()], ANNA, f"persona-{number}", persona="persona"))
        for number in range(rounds):
            async with chatting(config) as chats:
                await chats.ask([Turn(Role.USER, "Hello.")], None)
                note("disk", await chats.ask([*history, asked()], ANNA, "long"), known)
                await chats.set_persona("persona", persona)
                turned = await chats.ask([*persona, asked()], BERT, f"again-{number}", persona="persona")
                note("persona after a restart", turned)
                ids.add((await chats.ask([*history, same], ANNA, "long")).end.token_ids)
    medians = {name: median(values) for name, values in times.items()}
    return Result(medians, {name: min(values) for name, values in shares.items()}, len(ids) == 1)


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
