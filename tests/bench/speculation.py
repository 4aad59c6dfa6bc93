"""What prompt-lookup speculation is worth: tokens per second with and without, for answers that repeat and for ordinary chat.

    python -m tests.bench.speculation MODEL_FOLDER KERNELS_FOLDER [--streams 1,4,8] [--rounds 5] [--threads 2] [--tokens 6]

Two engines in one process, one with speculation and one without, take turns at the same requests; only one computes at a time.
Each stream asks its questions one after the other, without reuse: two of three answers are greedy, one is sampled with a seed.
The rate is that of all answers' tokens from the first request to the last end, prompts included. The ids of both have to be the
same. Beside the wall clock the process's CPU time is a measure that a busy machine changes less.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median

from engine.config import EngineConfig
from engine.local import LocalEngine
from engine.types import EngineEvent, Finished, GenerationRequest, RequestId, Role, SamplingParams, Turn

PARAGRAPH = """The old lighthouse at Cape Marrow was built in 1874 by a crew of forty men who carried every stone up the cliff by
hand. Its lamp, a lens of 312 prisms made in Paris, could be seen from twenty-two miles away on a clear night. In the winter of
1901 the keeper, Agnes Holt, kept the light burning for nine days without sleep while the supply boat lay wrecked on the reef.
She wrote in her log that the sea had come over the gallery rail twice, and that she had tied herself to the stair."""

CODE = '''def load_orders(path, currency="EUR"):
    """Read orders from a file and return those in one currency."""
    orders = []
    with open(path) as file:
        for line in file:
            name, amount, code = line.strip().split(",")
            if code == currency:
                orders.append({"name": name, "amount": float(amount)})
    return orders
'''

REPEATING = (
    f"Repeat the following text word for word:\n\n{PARAGRAPH}",
    f"Here is a file:\n\n```python\n{CODE}```\n\nGive me the whole file back, with the function renamed to read_orders.",
    f"Here is a text:\n\n{PARAGRAPH}\n\nQuote the whole text back to me exactly as it is.",
    f"Add a parameter `encoding` to load_orders and print the whole changed file:\n\n```python\n{CODE}```",
    f"Correct the spelling and print the whole text again:\n\n{PARAGRAPH.replace('winter', 'wintre')}",
    f"Change the default currency to USD and print the file again:\n\n```python\n{CODE}```",
)
CHAT = (
    "What is the capital of France, and what is it known for?",
    "Explain how a bicycle stays upright.",
    "Give me three ideas for a birthday present for my mother.",
    "How do vaccines work?",
    "What is the difference between a crocodile and an alligator?",
    "Write an email to my landlord about a broken heater.",
    "Why is the sky blue?",
    "Tell me a story about a fox and a clockmaker.",
    "What should I see in Rome in two days?",
    "What are good habits for sleeping better?",
    "Who wrote Don Quixote, and what is it about?",
    "How does a refrigerator keep things cold?",
)
QUESTIONS = {"repeats": REPEATING, "chat": CHAT}
QUESTIONS_EACH = 3
MOST_TOKENS = 160


@dataclass(frozen=True)
class Timed:
    """One pass: tokens of all answers per second of the clock and of the processor, and the answers."""

    tokens_per_s: float
    tokens_per_cpu_s: float
    drafted_share: float
    accepted_share: float
    ids: dict[tuple[int, int], tuple[int, ...] | None]


class Asking:
    """An engine, and streams that ask it."""

    def __init__(self, config: EngineConfig) -> None:
        self.engine = LocalEngine(config)
        self._ended: dict[RequestId, asyncio.Future[Finished]] = {}
        self._names = count()

    async def start(self) -> None:
        await self.engine.start(self._receive)
        await self.engine.wait_ready()

    def _receive(self, events: Sequence[EngineEvent]) -> None:
        for event in events:
            if isinstance(event, Finished):
                self._ended.pop(event.request_id).set_result(event)

    async def ask(self, question: str, sampling: SamplingParams) -> Finished:
        name = RequestId(f"ask-{next(self._names)}")
        ended = self._ended[name] = asyncio.get_running_loop().create_future()
        await self.engine.submit(GenerationRequest(name, (Turn(Role.USER, question),), sampling))
        return await ended

    async def run(self, questions: Sequence[str], streams: int) -> Timed:
        """So many streams, each with its own questions one after the other."""
        ids: dict[tuple[int, int], tuple[int, ...] | None] = {}

        async def stream(number: int) -> int:
            tokens = 0
            for place in range(QUESTIONS_EACH):
                question = questions[(number * QUESTIONS_EACH + place) % len(questions)]
                is_sampled = (number + place) % 3 == 2
                sampling = SamplingParams(
                    max_tokens=MOST_TOKENS, temperature=0.7 if is_sampled else 0.0, top_p=0.9, seed=number
                )
                finished = await self.ask(question, sampling)
                ids[number, place] = finished.token_ids
                tokens += finished.usage.output_tokens
            return tokens

        before = self.engine.stats()
        begun, cpu_begun = time.perf_counter(), time.process_time()
        tokens = sum(await asyncio.gather(*map(stream, range(streams))))
        seconds, cpu_s = time.perf_counter() - begun, time.process_time() - cpu_begun
        after = self.engine.stats()
        drafted = after.drafted_tokens_total - before.drafted_tokens_total
        accepted = after.accepted_tokens_total - before.accepted_tokens_total
        return Timed(tokens / seconds, tokens / cpu_s, drafted / tokens, accepted / tokens, ids)


async def measure(config_with: EngineConfig, config_without: EngineConfig, streams: Sequence[int], rounds: int) -> None:
    """A table. Raises where the ids differ."""
    on, off = Asking(config_with), Asking(config_without)
    for asking in (on, off):
        await asking.start()
        await asking.run(CHAT, 4)
    print("| text | streams | without | with | | by CPU time | drafted | accepted |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for kind, questions in QUESTIONS.items():
        for number in streams:
            pairs = []
            for turn in range(rounds):
                order = (on, off) if turn % 2 else (off, on)
                results = {asking: await asking.run(questions, number) for asking in order}
                pairs.append((results[on], results[off]))
                assert results[on].ids == results[off].ids, "speculation changed an answer"
            plain = median(without.tokens_per_s for _, without in pairs)
            quick = median(with_.tokens_per_s for with_, _ in pairs)
            ratio = median(with_.tokens_per_s / without.tokens_per_s for with_, without in pairs)
            cpu_ratio = median(with_.tokens_per_cpu_s / without.tokens_per_cpu_s for with_, without in pairs)
            last = pairs[-1][0]
            print(
                f"| {kind} | {number} | {plain:.0f} | {quick:.0f} | {ratio:.2f} | {cpu_ratio:.2f} "
                f"| {last.drafted_share:.0%} | {last.accepted_share:.0%} |",
                flush=True,
            )
    for asking in (on, off):
        await asking.engine.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("kernels", type=Path)
    parser.add_argument("--streams", default="1,4,8")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=EngineConfig.__dataclass_fields__["speculation_tokens"].default)
    arguments = parser.parse_args()

    def config(speculation_tokens: int) -> EngineConfig:
        return EngineConfig(
            arguments.model,
            arguments.model.name,
            kernels="cpu",
            kernels_folder=arguments.kernels,
            threads=arguments.threads,
            reuse=False,
            speculation_tokens=speculation_tokens,
        )

    streams = [int(part) for part in arguments.streams.split(",")]
    asyncio.run(measure(config(arguments.tokens), config(0), streams, arguments.rounds))


if __name__ == "__main__":
    main()
