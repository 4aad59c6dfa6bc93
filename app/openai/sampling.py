"""How one answer is sampled, out of the fields of a request; and which fields are refused. Pure.

Called by the service. Nothing is ever ignored: a field that is not supported is an error with its name, unless its value says
what happens without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.errors import InvalidInput
from app.openai.errors import RefusedParameter, UnsupportedParameter
from app.openai.schemas import ChatCompletionCreate
from app.realtime.protocol import ResponseParams
from app.responses.params import sampling_params
from app.settings import Settings
from engine.types import SamplingParams

HINTS = {
    "n": "one answer is made for each request; n has to be 1",
    "prompt_cache_key": "prompt_cache_key is not supported; the header X-Kvasir-Session keeps a session",
    "safety_identifier": "safety_identifier is not supported; user separates the customers of a key",
}

NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "logprobs": (False,),
    "top_logprobs": (),
    "logit_bias": ({},),
    "response_format": ({"type": "text"},),
    "tools": ([],),
    "tool_choice": ("none",),
    "parallel_tool_calls": (True, False),
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
    """Raises UnsupportedParameter for the first field that asks for what is not there."""
    for name, values in NEUTRAL.items():
        value = getattr(wanted, name)
        # 1 and True are equal in Python, and are not the same thing in JSON.
        if value is not None and not any(value == neutral and type(value) is type(neutral) for neutral in values):
            raise UnsupportedParameter(name, HINTS.get(name, ""))
    options = wanted.stream_options
    if options is not None:
        if not wanted.stream:
            raise RefusedParameter("stream_options", "stream_options are only for an answer that is streamed")
        if options.include_obfuscation:
            raise UnsupportedParameter("stream_options.include_obfuscation")


def sampling_of(
    wanted: ChatCompletionCreate, settings: Settings, defaults: Mapping[str, Any] | None = None
) -> SamplingParams:
    """All parameters: what the request says, then what the persona says, and the server's settings for the rest.

    Raises RefusedParameter for those that contradict each other.
    """
    limits = {wanted.max_tokens, wanted.max_completion_tokens} - {None}
    if len(limits) > 1:
        raise RefusedParameter("max_tokens", "max_tokens and max_completion_tokens differ; give one of them")
    stop = [wanted.stop] if isinstance(wanted.stop, str) else wanted.stop
    params = ResponseParams(
        max_tokens=limits.pop() if limits else None,
        temperature=wanted.temperature,
        top_p=wanted.top_p,
        top_k=None if wanted.top_k is None else max(0, wanted.top_k),
        min_p=wanted.min_p,
        repetition_penalty=wanted.repetition_penalty,
        presence_penalty=wanted.presence_penalty,
        frequency_penalty=wanted.frequency_penalty,
        seed=wanted.seed,
        stop=stop,
        min_tokens=wanted.min_tokens,
        ignore_eos=wanted.ignore_eos,
    )
    try:
        return sampling_params(params, settings, defaults)
    except InvalidInput as problem:
        name = "min_tokens" if "min_tokens" in problem.detail else "stop"
        raise RefusedParameter(name, problem.detail) from None
