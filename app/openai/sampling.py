"""How one answer is sampled, out of the fields of a request; and which fields are refused. Pure.

Called by the service. Nothing is ever ignored: a field that is not supported is an error with its name, unless its value says
what happens without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from app.errors import InvalidInput
from app.openai.errors import RefusedParameter, UnsupportedParameter
from app.openai.schemas import SampledRequest
from app.realtime.protocol import ResponseParams
from app.responses.params import sampling_params
from app.settings import Settings
from engine.types import SamplingParams

HINTS = {
    "n": "one answer is made for each request; n has to be 1",
    "prompt_cache_key": "prompt_cache_key is not supported; the header X-Kvasir-Session keeps a session",
    "safety_identifier": "safety_identifier is not supported; user separates the customers of a key",
}


def require_neutral(wanted: msgspec.Struct, neutral: Mapping[str, tuple[Any, ...]]) -> None:
    """Raises UnsupportedParameter for the first of these fields that asks for what is not there. Null never does."""
    for name, values in neutral.items():
        value = getattr(wanted, name)
        # 1 and True are equal in Python, and are not the same thing in JSON.
        if value is not None and not any(value == same and type(value) is type(same) for same in values):
            raise UnsupportedParameter(name, HINTS.get(name, ""))


def sampling_of(
    wanted: SampledRequest,
    max_tokens: int | None,
    settings: Settings,
    defaults: Mapping[str, Any] | None = None,
    *,
    top_logprobs: int | None = None,
) -> SamplingParams:
    """All parameters: what the request says, then what the persona says, and the server's settings for the rest. With
    `top_logprobs`, 0 too, each token comes with how likely it was.

    Raises RefusedParameter for those that contradict each other.
    """
    stop = [wanted.stop] if isinstance(wanted.stop, str) else wanted.stop
    params = ResponseParams(
        max_tokens=max_tokens,
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
        return replace(sampling_params(params, settings, defaults), top_logprobs=top_logprobs)
    except InvalidInput as problem:
        name = "min_tokens" if "min_tokens" in problem.detail else "stop"
        raise RefusedParameter(name, problem.detail) from None
