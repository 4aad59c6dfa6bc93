"""What of the body of `/v1/responses` is used, and what is refused. Pure. Called by the service, before anything is looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.errors import InvalidInput
from app.openai.errors import RefusedParameter, UnsupportedParameter
from app.openai.messages import ROLES, joined_text
from app.openai.response_schemas import InputItem, ResponseCreate
from app.openai.sampling import require_neutral
from app.openai.structure import schema_text
from app.text import require_storable
from engine.structure import Constraint, JsonObject, JsonSchema, ToolCall
from engine.types import Role, Turn

NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "background": (False,),
    "conversation": (),
    "context_management": ([],),
    "max_tool_calls": (),
    "moderation": (),
    "prompt": (),
    "prompt_cache_key": (),
    "prompt_cache_retention": (),
    "reasoning": ({},),
    "safety_identifier": (),
    "service_tier": ("auto", "default"),
    "stream_options": ({}, {"include_obfuscation": False}),
}
"""Fields that are not supported, each with the values that change nothing; null is one of them everywhere."""


FIELDS: Mapping[str, frozenset[str]] = {
    "message": frozenset({"role", "content"}),
    "function_call": frozenset({"call_id", "name", "arguments"}),
    "function_call_output": frozenset({"call_id", "output"}),
}
"""What an item of each type has to have, and nothing else of CONTENTS."""

CONTENTS = ("role", "content", "call_id", "name", "arguments", "output")


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
    turns: list[Turn] = []
    for index, item in enumerate(given):
        turn = _turn(item, f"input[{index}]")
        if item.type == "function_call" and turns and turns[-1].role is Role.ASSISTANT:
            # Calls that one answer made, and what it said before them, are one message.
            turns[-1] = replace(turns[-1], tool_calls=(*turns[-1].tool_calls, *turn.tool_calls))
        else:
            turns.append(turn)
    if turns[-1].role is Role.ASSISTANT:
        place = f"input[{len(given) - 1}]"
        raise RefusedParameter(place, "expected a last message of somebody who wants an answer, got the assistant's")
    return tuple(turns)


def _turn(item: InputItem, place: str) -> Turn:
    fields = FIELDS.get(item.type)
    if fields is None:
        raise UnsupportedParameter(f"{place}.type", f"input of the type {item.type!r} is not supported")
    for name in CONTENTS:
        value = getattr(item, name)
        if (value is not None) != (name in fields):
            what = "has to have" if name in fields else "cannot have"
            raise RefusedParameter(f"{place}.{name}", f"an item of the type {item.type} {what} the field {name}")
        if isinstance(value, str):
            _require_storable(value, f"{place}.{name}")
    if item.type == "function_call":
        call = ToolCall(item.call_id or "", item.name or "", item.arguments or "")
        return Turn(Role.ASSISTANT, "", tool_calls=(call,))
    content = "output" if item.type == "function_call_output" else "content"
    text = joined_text(getattr(item, content), f"{place}.{content}")
    _require_storable(text, f"{place}.{content}")
    role = Role.TOOL if item.role is None else ROLES[item.role]
    return Turn(role, text, tool_call_id=item.call_id)


def _require_storable(text: str, place: str) -> None:
    try:
        require_storable(text, place)
    except InvalidInput as problem:
        raise RefusedParameter(place, problem.detail) from None
