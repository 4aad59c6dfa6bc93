"""What each idea brings: the same work on the same engine, with the idea switched off and on in turn.

Called by `kvasir bench ideas`. Each function measures one idea into a `Comparison`, with the claim that is checked; all of them
see the engine only from outside, as the server does.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from statistics import median
from typing import Any, Final

from engine.bench.capacity import (
    CONTEXT_TOKENS,
    CONTIGUOUS_SESSIONS,
    MEAN_TOKENS,
    hold,
    lengths_of,
    paged_config,
    text_of,
    tokens_per_word,
)
from engine.bench.chats import Chats, Turned, chatting, words
from engine.bench.comparison import Claim, Comparison
from engine.bench.machine import describe_run, describe_versions
from engine.config import PAGE_TOKENS, EngineConfig
from engine.types import ModelInfo, Namespace, Role, Turn

Report = Callable[[str], None]
QUESTION: Final = "Now tell me which of all these things you like best, and why that is so."

LEAST_BATCHING: Final = 3.0
LEAST_REUSE: Final = 0.9
LEAST_SESSIONS: Final = 4.0
"""What was claimed: three to five times the throughput, nine tenths of the prefill, 16 sessions where 4 were."""


@dataclass(frozen=True, slots=True)
class IdeaSettings:
    """`answers` answers of mixed lengths, around `middle_tokens` tokens and at most `most_tokens`, `places` at a time."""

    repeats: int = 3
    seed: int = 1
    answers: int = 64
    places: int = 16
    middle_tokens: int = 32
    most_tokens: int = 400
    history_tokens: int = 1024
    persona_tokens: int = 1024
    mean_tokens: int = MEAN_TOKENS
    context_tokens: int = CONTEXT_TOKENS

    @property
    def num_measurements(self) -> int:
        """How many times `report` is called."""
        return 3 * self.repeats + 2 * self.repeats + 2 * self.repeats + 1


@dataclass(frozen=True, slots=True)
class Job:
    """One question, and how long its answer will be."""

    prompt: tuple[Turn, ...]
    tokens: int


def mixed_jobs(settings: IdeaSettings) -> list[Job]:
    """Answers as people get them: most are short, a few are many times as long (log-normal, sigma 1)."""
    chance = random.Random(settings.seed)
    jobs = []
    for number in range(settings.answers):
        tokens = round(settings.middle_tokens * chance.lognormvariate(0.0, 1.0))
        prompt = f"{number}: tell a story with these words: {words(chance.randint(5, 40), number)}"
        jobs.append(Job((Turn(Role.USER, prompt),), max(2, min(settings.most_tokens, tokens))))
    return jobs


async def measure_ideas(config: EngineConfig, settings: IdeaSettings, report: Report) -> dict[str, Any]:
    """All ideas of a running engine, one after the other. Raises EngineError."""
    async with chatting(replace(config, max_running=settings.places)) as chats:
        info = chats.engine.model
        assert info is not None, "an engine that is ready has a model"
        page_bytes = await _page_bytes(chats)
        per_word = await tokens_per_word(chats)
        found = [await batching(chats, settings, report)]
        async with chatting(replace(config, reuse=False)) as forgetful:
            found.append(await reuse(chats, forgetful, settings, per_word, report))
        found.append(await persona(chats, settings, per_word, report))
    found.append(await paging(config, info, settings, page_bytes, per_word, report))
    return results_of(info, settings, found)


def results_of(info: ModelInfo, settings: Any, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """The file: the machine, the engine, and every comparison with its verdict."""
    return {
        **describe_run(),
        "versions": describe_versions(),
        "model": info.name,
        "weights": info.weights,
        "kernels": info.kernels,
        "settings": {name: getattr(settings, name) for name in settings.__slots__},
        "ideas": [comparison.as_json() for comparison in comparisons],
    }


# --- continuous batching -------------------------------------------------------------------------------------------------


async def batching(chats: Chats, settings: IdeaSettings, report: Report) -> Comparison:
    """Static batching is how the work is handed over: the next batch only when all answers of the last have ended."""
    jobs = mixed_jobs(settings)
    await _continuous(chats, jobs[: settings.places])
    static: list[float] = []
    continuous: list[float] = []
    alone: list[float] = []
    for _ in range(settings.repeats):
        static.append(_rate(await _static(chats, jobs, settings.places)))
        report("static batches")
        continuous.append(_rate(await _continuous(chats, jobs)))
        report("continuous batching")
        alone.append(_rate(await _static(chats, jobs, 1)))
        report("one answer at a time")
    times = median(continuous) / median(static)
    beside = median(continuous) / median(alone)
    return Comparison(
        "continuous batching",
        f"{len(jobs)} answers of 2 to {max(job.tokens for job in jobs)} tokens, {settings.places} places",
        "tokens/s",
        "static batches",
        static,
        "continuous",
        continuous,
        more_is_better=True,
        claim=Claim(
            "continuous batching makes 3 to 5 times the tokens of static batches",
            f"{times:.2f} times; {beside:.2f} times one answer at a time",
            times >= LEAST_BATCHING,
        ),
    )


async def _continuous(chats: Chats, jobs: Sequence[Job]) -> list[Turned]:
    return list(await asyncio.gather(*(chats.ask(job.prompt, None, max_tokens=job.tokens) for job in jobs)))


async def _static(chats: Chats, jobs: Sequence[Job], places: int) -> list[Turned]:
    turned: list[Turned] = []
    for start in range(0, len(jobs), places):
        turned += await _continuous(chats, jobs[start : start + places])
    return turned


def _rate(turned: Sequence[Turned]) -> float:
    """Tokens of all answers over the time from the first question to the last end."""
    tokens = sum(one.end.usage.output_tokens for one in turned)
    ends = [one.ended_at for one in turned if one.ended_at is not None]
    return tokens / (max(ends) - min(one.asked_at for one in turned))


# --- reuse ---------------------------------------------------------------------------------------------------------------


async def reuse(chats: Chats, forgetful: Chats, settings: IdeaSettings, per_word: float, report: Report) -> Comparison:
    """The second turn of a conversation, on an engine that keeps KV and on one that does not (KVASIR_PREFIX_CACHE off)."""
    without: list[float] = []
    with_it: list[float] = []
    shares: list[float] = []
    for number in range(settings.repeats):
        for engine, times in ((forgetful, without), (chats, with_it)):
            turned = await _second_turn(engine, settings.history_tokens, per_word, number)
            usage = turned.end.usage
            times.append(usage.prefill_ms or 0.0)
            if engine is chats:
                shares.append(usage.cached_tokens / usage.input_tokens)
            report("with reuse" if engine is chats else "without reuse")
    saved = 1 - median(with_it) / median(without)
    return Comparison(
        "KV reuse",
        f"the prompt of a turn after {settings.history_tokens} tokens of history",
        "ms of prefill",
        "whole prompt",
        without,
        "new words",
        with_it,
        more_is_better=False,
        claim=Claim(
            f"reuse saves over 90 % of the prefill at {settings.history_tokens:,} tokens",
            f"{saved:.1%} of the time, {median(shares):.1%} of the tokens",
            saved > LEAST_REUSE,
        ),
    )


async def _second_turn(chats: Chats, history_tokens: int, per_word: float, number: int) -> Turned:
    anna = Namespace.user("anna")
    history = [Turn(Role.USER, text_of(history_tokens, number, per_word))]
    first = await chats.ask(history, anna, f"reuse {number}")
    history.append(Turn(Role.ASSISTANT, first.text, first.end.token_ids))
    return await chats.ask([*history, Turn(Role.USER, QUESTION)], anna, f"reuse {number}")


# --- personas ------------------------------------------------------------------------------------------------------------


async def persona(chats: Chats, settings: IdeaSettings, per_word: float, report: Report) -> Comparison:
    """The first turn of a new user, with a system prompt that was computed ahead and with the same one as anybody's text."""
    system = [Turn(Role.SYSTEM, text_of(settings.persona_tokens, 3, per_word))]
    await chats.set_persona("bench", system)
    users = count()
    without: list[float] = []
    with_it: list[float] = []
    for _ in range(settings.repeats):
        for name, times in ((None, without), ("bench", with_it)):
            user = Namespace.user(f"newcomer {next(users)}")
            turned = await chats.ask([*system, Turn(Role.USER, QUESTION)], user, "first", persona=name)
            times.append(turned.ttft_ms)
            report("with the persona's prefix" if name else "without the persona's prefix")
    return Comparison(
        "persona prefix",
        f"the first turn of a new user, system prompt of {settings.persona_tokens} tokens",
        "ms to first token",
        "read each time",
        without,
        "computed ahead",
        with_it,
        more_is_better=False,
    )


# --- paging --------------------------------------------------------------------------------------------------------------


async def paging(
    config: EngineConfig, info: ModelInfo, settings: IdeaSettings, page_bytes: int, per_word: float, report: Report
) -> Comparison:
    """Chats of mixed lengths in the memory of four whole contexts, as many as go in before a page of one has to leave."""
    context = min(settings.context_tokens, info.context_tokens)
    room = CONTIGUOUS_SESSIONS * context
    lengths: list[int] = []
    for length in lengths_of(room // PAGE_TOKENS, settings.mean_tokens):
        # Each chat has its answer and the template around it besides, and its last page is never full.
        if sum(lengths) + length + (len(lengths) + 1) * 4 * PAGE_TOKENS > room:
            break
        lengths.append(length)
    texts = [text_of(length, place, per_word) for place, length in enumerate(lengths)]
    held = await hold(paged_config(config, page_bytes, context), texts)
    report("paged capacity")
    times = held.live / CONTIGUOUS_SESSIONS
    return Comparison(
        "paging",
        f"chats of {min(lengths)} to {max(lengths)} tokens in the memory of {CONTIGUOUS_SESSIONS} x {context:,}",
        "sessions",
        "contiguous",
        [float(CONTIGUOUS_SESSIONS)],
        "paged",
        [float(held.live)],
        more_is_better=True,
        claim=Claim(
            "pages hold 2 to 3 times the sessions; 16 instead of 4 at 8k",
            f"{held.live} sessions with {held.tokens:,} tokens ({times:.1f} times)",
            times >= LEAST_SESSIONS,
        ),
    )


async def _page_bytes(chats: Chats) -> int:
    """Of the device, as the engine itself says."""
    device = (await chats.engine.snapshot()).device
    return device.limit_bytes // chats.engine.stats().pages_total
