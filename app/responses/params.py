"""How one answer is sampled: what the client asked for, then what the persona says, and the server's settings for the rest.

The result is stored with the response and shown in `response.created`, so that everybody sees what was really used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import msgspec

from app.errors import InvalidInput
from app.realtime.protocol import ResponseParams
from app.settings import Settings
from app.text import require_storable
from engine.types import SamplingParams


def sampling_params(
    params: ResponseParams, settings: Settings, defaults: Mapping[str, Any] | None = None
) -> SamplingParams:
    """All parameters with their values. Raises InvalidInput for those that contradict each other or cannot be stored."""
    values: dict[str, Any] = {
        "max_tokens": settings.max_answer_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
    }
    values |= defaults or {}
    values |= {name: value for name, value in msgspec.structs.asdict(params).items() if value is not None}
    values["stop"] = tuple(require_storable(text, "stop") for text in values.get("stop", ()))
    sampling = SamplingParams(**values)
    if sampling.max_tokens is not None and sampling.min_tokens > sampling.max_tokens:
        raise InvalidInput(
            f"expected min_tokens of at most max_tokens, got {sampling.min_tokens} and {sampling.max_tokens}"
        )
    return sampling


def shown_params(sampling: SamplingParams) -> dict[str, Any]:
    """The form that is stored and shown."""
    shown = {field.name: getattr(sampling, field.name) for field in fields(sampling)}
    return shown | {"stop": list(sampling.stop)}
