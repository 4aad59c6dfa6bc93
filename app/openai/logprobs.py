"""How likely the tokens of an answer were, in OpenAI's words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from engine.types import TokenLogprob

LEAST = -9999.0
"""What OpenAI writes for a token that could not have been: JSON has no number for its logarithm."""


class TopLogprob(msgspec.Struct, frozen=True):
    """A token that was among the likeliest. `bytes` are its own, which need not be whole characters."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprobBody(msgspec.Struct, frozen=True):
    """A token of the answer, and those that were the likeliest in its place."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


def token_logprobs(logprobs: Sequence[TokenLogprob]) -> list[TokenLogprobBody]:
    """One for each token."""
    return [TokenLogprobBody(*_token(each), [TopLogprob(*_token(top)) for top in each.top]) for each in logprobs]


def chat_logprobs(logprobs: Sequence[TokenLogprob]) -> dict[str, Any]:
    """The form of chat completions."""
    return {"content": token_logprobs(logprobs), "refusal": None}


def _token(each: TokenLogprob) -> tuple[str, float, list[int]]:
    return each.text, max(each.logprob, LEAST), list(each.bytes)
