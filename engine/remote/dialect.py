"""What the servers behind OpenAI's API understand beyond it, as far as we use it. Pure.

A parameter that a server does not know is not sent to it: an answer that needs it fails by its name, and never without it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Dialect(StrEnum):
    """Which server it is. `OPENAI` is any other: it cannot keep one person's cache from another's, so it is never guessed."""

    VLLM = "vllm"
    SGLANG = "sglang"
    KVASIR = "kvasir"
    OPENAI = "openai"


@dataclass(frozen=True, slots=True)
class Abilities:
    """`salt_field` is where the namespace's salt goes. `sampling` are parameters of `SamplingParams` beyond OpenAI's.

    `counts_prompts`: it has `/tokenize`, for messages. `tells_usage_early`: with each piece, not only at the end.
    """

    salt_field: str | None = None
    sampling: frozenset[str] = field(default_factory=frozenset)
    counts_prompts: bool = False
    tells_usage_early: bool = False


_EXTENSIONS: Final = frozenset({"top_k", "min_p", "repetition_penalty", "min_tokens", "ignore_eos"})

ABILITIES: Final = {
    Dialect.VLLM: Abilities("cache_salt", _EXTENSIONS, counts_prompts=True, tells_usage_early=True),
    Dialect.SGLANG: Abilities("cache_salt", _EXTENSIONS, tells_usage_early=True),
    Dialect.KVASIR: Abilities("user", _EXTENSIONS),
    Dialect.OPENAI: Abilities(),
}


def dialect_of(owned_by: str) -> Dialect | None:
    """The server that calls itself so in its list of models."""
    return {"vllm": Dialect.VLLM, "sglang": Dialect.SGLANG, "kvasir": Dialect.KVASIR}.get(owned_by)
