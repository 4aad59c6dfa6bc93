"""How many tokens a conversation has for a model whose tokenizer is elsewhere, and which turns of it fit.

A server that counts is asked, once for each conversation: admission and submission ask the same. Of any other, and while that one
does not answer, the count is estimated from the bytes; then nothing is refused here, because the server knows better, and its
refusal comes as the end of the answer.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from engine.context_policy import kept_turns
from engine.errors import PromptTooLong
from engine.types import ContextPolicy, GenerationRequest, Turn

BYTES_PER_TOKEN: Final = 4
TURN_TOKENS: Final = 4
"""What a template puts around a turn, about."""

COUNTS_REMEMBERED: Final = 1024

Count = Callable[[Sequence[Turn]], Awaitable[int | None]]
"""Asks the server; None where it cannot say now. Raises TemplateRefused."""


@dataclass(frozen=True, slots=True)
class RemotePrompt:
    """What is sent. `is_counted` False: `tokens` is an estimate."""

    turns: tuple[Turn, ...]
    tokens: int
    is_counted: bool
    dropped_turns: int = 0


class RemotePrompts:
    """Owns the last counts. `context_tokens` 0: nobody knows how many fit."""

    def __init__(self, count: Count, context_tokens: int) -> None:
        self._count = count
        self._context_tokens = context_tokens
        self._counts: OrderedDict[bytes, int] = OrderedDict()

    async def prompt(self, request: GenerationRequest) -> RemotePrompt:
        """What to send. Raises PromptTooLong, where that is known."""
        prompt = await self._counted(request.turns)
        if request.context_policy is ContextPolicy.DROP_OLDEST_TURNS and self._context_tokens:
            room = self._context_tokens - self._answer_tokens(request)
            while prompt.tokens > room:
                shorter = await self._shortened(request.turns, prompt, room)
                if shorter is None:
                    break
                prompt = shorter
        if prompt.is_counted and self._context_tokens and prompt.tokens >= self._context_tokens:
            raise PromptTooLong(prompt.tokens, self._context_tokens - 1)
        return prompt

    async def shorter(self, request: GenerationRequest, prompt: RemotePrompt) -> RemotePrompt | None:
        """The server says that an estimated one is too long: one with fewer turns, where the policy allows it."""
        if request.context_policy is not ContextPolicy.DROP_OLDEST_TURNS:
            return None
        return await self._shortened(request.turns, prompt, prompt.tokens - 1)

    def answer_room(self, prompt: RemotePrompt, max_tokens: int | None) -> int | None:
        """The most tokens to ask for: a server refuses more than fit, where the engine here would end by length."""
        if not prompt.is_counted or not self._context_tokens:
            return max_tokens
        room = self._context_tokens - prompt.tokens
        return room if max_tokens is None else min(max_tokens, room)

    async def _shortened(self, turns: Sequence[Turn], prompt: RemotePrompt, room: int) -> RemotePrompt | None:
        """With at least one turn less than `prompt` has; None where no other may leave."""
        sizes = [turn_bytes(turn) for turn in turns]
        of_prompt = sum(map(turn_bytes, prompt.turns)) or 1
        # In proportion: what the whole has in tokens is known or estimated, and each turn's bytes are.
        tokens = [max(1, round(prompt.tokens * size / of_prompt)) for size in sizes]
        roles = [turn.role for turn in turns]
        fewest = len(kept_turns(roles, tokens, 0, 0))
        while len(prompt.turns) > fewest and room > 0:
            kept = kept_turns(roles, tokens, 0, room)
            if len(kept) < len(prompt.turns):
                counted = await self._counted(tuple(turns[index] for index in kept))
                return RemotePrompt(counted.turns, counted.tokens, counted.is_counted, len(turns) - len(kept))
            room = room * 7 // 8
        return None

    async def _counted(self, turns: tuple[Turn, ...]) -> RemotePrompt:
        digest = hashlib.sha256()
        for turn in turns:
            digest.update(f"{turn.role.value}{len(turn.text)}:{turn.text}".encode(errors="surrogatepass"))
        key = digest.digest()
        if (tokens := self._counts.get(key)) is None:
            if (tokens := await self._count(turns)) is None:
                return RemotePrompt(turns, estimated_tokens(turns), is_counted=False)
            self._counts[key] = tokens
            while len(self._counts) > COUNTS_REMEMBERED:
                self._counts.popitem(last=False)
        return RemotePrompt(turns, tokens, is_counted=True)

    def _answer_tokens(self, request: GenerationRequest) -> int:
        """Kept free for the answer: what it may have, and at most a quarter of the context."""
        quarter = self._context_tokens // 4
        most = request.sampling.max_tokens
        return max(1, quarter if most is None else min(most, quarter))


def turn_bytes(turn: Turn) -> int:
    """Of its text and what is around it."""
    return len(turn.text.encode(errors="replace")) + TURN_TOKENS * BYTES_PER_TOKEN


def estimated_tokens(turns: Sequence[Turn]) -> int:
    """Good enough for a queue and for a quota that is settled at the end of the answer."""
    return -(-sum(map(turn_bytes, turns)) // BYTES_PER_TOKEN)
