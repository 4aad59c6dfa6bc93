"""What an answer cost, in OpenAI's words. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from app.openai.response_schemas import InputTokensDetails, ResponseUsage
from app.openai.schemas import CompletionUsage, PromptTokensDetails
from engine.types import Usage

TIMES = ("queue_ms", "prefill_ms", "ttft_ms", "decode_ms")


def completion_usage(usage: Usage) -> CompletionUsage:
    """The form of chat completions, with our own times and sources beside it."""
    return CompletionUsage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        prompt_tokens_details=PromptTokensDetails(usage.cached_tokens),
        kvasir=_own(usage),
    )


def response_usage(usage: Usage) -> ResponseUsage:
    """The form of responses."""
    return ResponseUsage(
        input_tokens=usage.input_tokens,
        input_tokens_details=InputTokensDetails(usage.cached_tokens),
        output_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        kvasir=_own(usage),
    )


def _own(usage: Usage) -> dict[str, Any]:
    own = {name: getattr(usage, name) for name in TIMES}
    return own | {"cached_from": msgspec.to_builtins(usage.cached_from), "dropped_turns": usage.dropped_turns}
