"""What of a chat completion's body is used, and what is refused. Pure. Called by the service, before anything is looked up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.openai.errors import RefusedParameter, UnsupportedParameter
from app.openai.sampling import require_neutral
from app.openai.schemas import ChatCompletionCreate

NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "logit_bias": ({},),
    "functions": ([],),
    "function_call": ("none",),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "reasoning_effort": ("none",),
    "verbosity": ("medium",),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "metadata": ({},),
    "web_search_options": (),
    "moderation": (),
    "safety_identifier": (),
    "prompt_cache_key": (),
    "prompt_cache_retention": (),
}
"""Fields that are not supported, each with the values that change nothing; null is one of them everywhere."""


def require_supported(wanted: ChatCompletionCreate) -> None:
    """Raises UnsupportedParameter or RefusedParameter for the first field that cannot be as it is."""
    require_neutral(wanted, NEUTRAL)
    if wanted.top_logprobs is not None and not wanted.logprobs:
        raise RefusedParameter("top_logprobs", "top_logprobs are only given where logprobs is true")
    options = wanted.stream_options
    if options is not None:
        if not wanted.stream:
            raise RefusedParameter("stream_options", "stream_options are only for an answer that is streamed")
        if options.include_obfuscation:
            raise UnsupportedParameter("stream_options.include_obfuscation")


def max_tokens_of(wanted: ChatCompletionCreate) -> int | None:
    """The most tokens of the answer, by whichever name. Raises RefusedParameter for two that differ."""
    limits = {limit for limit in (wanted.max_tokens, wanted.max_completion_tokens) if limit is not None}
    if len(limits) > 1:
        raise RefusedParameter("max_tokens", "max_tokens and max_completion_tokens differ; give one of them")
    return limits.pop() if limits else None
