"""What an answer cost, in OpenAI's words. Pure."""

from __future__ import annotations

import msgspec

from app.openai.schemas import CompletionUsage, PromptTokensDetails
from engine.types import Usage

TIMES = ("queue_ms", "prefill_ms", "ttft_ms", "decode_ms")


def completion_usage(usage: Usage) -> CompletionUsage:
    """The form of chat completions, with our own times and sources beside it."""
    own = {name: getattr(usage, name) for name in TIMES}
    return CompletionUsage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        prompt_tokens_details=PromptTokensDetails(usage.cached_tokens),
        kvasir=own | {"cached_from": msgspec.to_builtins(usage.cached_from)},
    )
