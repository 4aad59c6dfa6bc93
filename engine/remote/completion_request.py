"""A request of ours as the body of `POST /v1/chat/completions`. Pure.

What is neutral is left out, so a server is asked for no more than is meant. Roles and text go over as they are; token ids do not:
the other side has its own template and tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from engine.remote.dialect import ABILITIES, Dialect
from engine.structure import Constraint, JsonObject, JsonSchema
from engine.types import GenerationRequest, SamplingParams, Turn

OPENAI_SAMPLING: Final = frozenset({"presence_penalty", "frequency_penalty", "seed"})
ALWAYS_SENT: Final = ("temperature", "top_p")
"""A server may have defaults of its own for these, from the model's generation config."""

SENT_ABOVE: Final = frozenset({"max_tokens", "stop", "top_logprobs"})

STOPS_MAX: Final = {Dialect.OPENAI: 4}


class NotExpressible(ValueError):
    """The server has no parameter for what is wanted."""

    def __init__(self, name: str, dialect: Dialect) -> None:
        super().__init__(f"the server of the model ({dialect}) has no parameter {name}")
        self.name = name


def messages_of(turns: Sequence[Turn]) -> list[dict[str, str]]:
    """The conversation."""
    return [{"role": turn.role.value, "content": turn.text} for turn in turns]


def completion_body(dialect: Dialect, model: str, request: GenerationRequest, salt: str) -> dict[str, Any]:
    """The body. Raises NotExpressible."""
    if request.tools is not None or any(turn.tool_calls or turn.tool_call_id for turn in request.turns):
        raise NotExpressible("for tools that Kvasir could read", dialect)
    abilities, sampling = ABILITIES[dialect], request.sampling
    options: dict[str, Any] = {"include_usage": True}
    if abilities.tells_usage_early:
        options["continuous_usage_stats"] = True
    body: dict[str, Any] = {
        "model": model,
        "messages": messages_of(request.turns),
        "stream": True,
        "stream_options": options,
    }
    if sampling.max_tokens is not None:
        body["max_tokens"] = sampling.max_tokens
    if sampling.stop:
        if len(sampling.stop) > STOPS_MAX.get(dialect, len(sampling.stop)):
            raise NotExpressible(f"stop for {len(sampling.stop)} strings", dialect)
        body["stop"] = list(sampling.stop)
    if sampling.top_logprobs is not None:
        body |= {"logprobs": True, "top_logprobs": sampling.top_logprobs}
    if request.constraint is not None:
        body["response_format"] = _response_format(request.constraint)
    neutral = SamplingParams()
    for parameter in fields(SamplingParams):
        name, value = parameter.name, getattr(sampling, parameter.name)
        if name in SENT_ABOVE:
            continue
        if name in ALWAYS_SENT:
            body[name] = value
        elif value != getattr(neutral, name):
            if name not in OPENAI_SAMPLING | abilities.sampling:
                raise NotExpressible(name, dialect)
            body[name] = value
    if abilities.salt_field is not None:
        body[abilities.salt_field] = salt
    return body


def _response_format(constraint: Constraint) -> dict[str, Any]:
    match constraint:
        case JsonObject():
            return {"type": "json_object"}
        case JsonSchema(schema=schema):
            return {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": json.loads(schema), "strict": True},
            }
