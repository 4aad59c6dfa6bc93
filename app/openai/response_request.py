"""What of the body of `/v1/responses` is used, and what is refused. Pure. Called by the service, before anything is looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.errors import InvalidInput
from app.openai.errors import RefusedParameter, UnsupportedParameter
from app.openai.messages import ROLES, joined_text
from app.openai.response_schemas import InputItem, ResponseCreate
from app.openai.sampling import require_neutral
from app.openai.structure import schema_text
from app.text import require_storable
from engine.structure import Constraint, JsonObject, JsonSchema
from engine.types import Role, Turn

NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "background": (False,),
    "conversation": (),
    "context_management": ([],),
    "max_tool_calls": (),
    "moderation": (),
    "parallel_tool_calls": (True, False),
    "prompt": (),
    "prompt_cache_key": (),
    "prompt_cache_retention": (),
    "reasoning": ({},),
    "safety_identifier": (),
    "service_tier": ("auto", "default"),
    "stream_options": ({}, {"include_obfuscation": False}),
    "tool_choice": ("auto", "none"),
    "tools": ([],),
}
"""Fields that are not supported, each with the values that change nothing; null is one of them everywhere."""


def require_supported(wanted: ResponseCreate) -> None:
    """Raises UnsupportedParameter or RefusedParameter for the first field that cannot be as it is."""
    require_neutral(wanted, NEUTRAL)
    for name in ("instructions", "user"):
        _require_storable(getattr(wanted, name) or "", name)


def top_logprobs_of(wanted: ResponseCreate) -> int | None:
    """None where nobody wants to know how likely the tokens were. Raises RefusedParameter."""
    if wanted.include:
        return wanted.top_logprobs or 0
    if wanted.top_logprobs:
        raise RefusedParameter(
            "top_logprobs", "top_logprobs are only given where include has message.output_text.logprobs"
        )
    return None


def constraint_of(wanted: ResponseCreate) -> Constraint | None:
    """What the text is held to. Raises RefusedParameter."""
    form = wanted.text.format if wanted.text is not None else None
    if form is None or form.type == "text":
        return None
    if form.type == "json_object":
        return JsonObject()
    if form.schema is None or form.name is None:
        raise RefusedParameter("text.format.schema", "expected a name and a schema for the type json_schema")
    return JsonSchema(schema_text(form.schema))


def turns_of(given: str | Sequence[InputItem]) -> tuple[Turn, ...]:
    """What the request itself says. Raises RefusedParameter."""
    if isinstance(given, str):
        _require_storable(given, "input")
        return (Turn(Role.USER, given),)
    turns = tuple(_turn(item, f"input[{index}]") for index, item in enumerate(given))
    if turns[-1].role is Role.ASSISTANT:
        place = f"input[{len(turns) - 1}].role"
        raise RefusedParameter(place, "expected a last message of somebody who wants an answer, got the assistant's")
    return turns


def _turn(item: InputItem, place: str) -> Turn:
    if item.type != "message":
        raise UnsupportedParameter(f"{place}.type", f"input of the type {item.type!r} is not supported")
    if item.role is None:
        raise RefusedParameter(f"{place}.role", f"expected {place} to have a role, got none")
    text = joined_text(item.content, f"{place}.content")
    _require_storable(text, f"{place}.content")
    return Turn(ROLES[item.role], text)


def _require_storable(text: str, place: str) -> None:
    try:
        require_storable(text, place)
    except InvalidInput as problem:
        raise RefusedParameter(place, problem.detail) from None
