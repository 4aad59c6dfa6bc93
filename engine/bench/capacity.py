"""How many conversations live in the memory of a few whole contexts, which contiguous allocation gives to as few conversations.

Used by `ideas` and by `tests/bench/capacity`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from engine.bench.chats import Chats, chatting, words
from engine.config import PAGE_TOKENS, EngineConfig
from engine.types import Finished, Namespace, Role, Turn

CONTEXT_TOKENS: Final = 8192
CONTIGUOUS_SESSIONS: Final = 4
MEAN_TOKENS: Final = 1300
EIGHTHS: Final = (2, 3, 4, 5, 6, 8, 12, 24)
"""Lengths of the chats as eighths of their mean: from a quarter of it to three times it, and their own mean is the mean."""


@dataclass(frozen=True, slots=True)
class Held:
    """`live` of `answered` chats had every page on the device at once, `tokens` tokens in all; `preemptions` while all of them
    were answered at the same time."""

    answered: int
    live: int
    tokens: int
    preemptions: int
    histories: Sequence[Sequence[Turn]]
    ends: Sequence[Finished]


def paged_config(config: EngineConfig, page_bytes: int, context_tokens: int) -> EngineConfig:
    """The memory of CONTIGUOUS_SESSIONS whole contexts, and nothing below it: what leaves the device is gone."""
    memory = CONTIGUOUS_SESSIONS * context_tokens // PAGE_TOKENS * page_bytes
    return replace(config, kv_memory_bytes=memory, host_memory_bytes=0, disk_folder=None, prefix_memory_bytes=0)


def lengths_of(chats: int, mean_tokens: int) -> list[int]:
    """Tokens of each chat."""
    return [mean_tokens * EIGHTHS[place % len(EIGHTHS)] // 8 for place in range(chats)]


async def hold(config: EngineConfig, texts: Sequence[str]) -> Held:
    """Ask a first turn of each text, four at a time, look at the pages, then answer a second turn of all of them at once."""
    async with chatting(replace(config, max_running=max(config.max_running, len(texts)))) as chats:
        histories = await first_turns(chats, texts)
        snapshot = await chats.engine.snapshot()
        # The template's own opening is everybody's, and the last token of an answer has no KV until the next turn.
        shared = sum(prefix.tokens // PAGE_TOKENS for prefix in snapshot.prefixes)
        whole = [one for one in snapshot.sessions if (one.pages.device + shared) * PAGE_TOKENS >= one.tokens - 1]
        ends = await second_turns(chats, histories, at_once=len(histories))
        preemptions = chats.engine.stats().preemptions_total
    return Held(len(ends), len(whole), sum(one.tokens for one in whole), preemptions, histories, ends)


async def first_turns(chats: Chats, texts: Sequence[str], *, at_once: int = 4, begin: int = 0) -> list[list[Turn]]:
    """One turn of everybody, of users numbered from `begin` on; what each chat is then."""
    places = asyncio.Semaphore(at_once)

    async def one(place: int, text: str) -> list[Turn]:
        asked = [Turn(Role.USER, text)]
        async with places:
            turned = await chats.ask(asked, Namespace.user(f"user {place}"), "chat")
        return [*asked, Turn(Role.ASSISTANT, turned.text, turned.end.token_ids)]

    return list(await asyncio.gather(*(one(place, text) for place, text in enumerate(texts, begin))))


async def second_turns(chats: Chats, histories: Sequence[Sequence[Turn]], *, at_once: int) -> list[Finished]:
    """The next turn of everybody."""
    places = asyncio.Semaphore(at_once)

    async def one(place: int, history: Sequence[Turn]) -> Finished:
        async with places:
            turned = await chats.ask([*history, question(history)], Namespace.user(f"user {place}"), "chat")
        return turned.end

    return list(await asyncio.gather(*(one(place, history) for place, history in enumerate(histories))))


def question(history: Sequence[Turn]) -> Turn:
    """What a chat is asked next: for each of them something else."""
    return Turn(Role.USER, f"And what else, {history[0].text[:20]}?")


def text_of(tokens: int, seed: int, tokens_per_word: float) -> str:
    """About so many tokens."""
    return f"{seed}: {words(max(1, round(tokens / tokens_per_word)), seed)}"


async def tokens_per_word(chats: Chats) -> float:
    """What a word of these texts costs with the vocabulary of this model."""
    some, more = [await chats.tokens([Turn(Role.USER, words(number, 1))]) for number in (20, 40)]
    return (more - some) / 20
