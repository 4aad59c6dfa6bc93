"""What an answer has to be, and the tools it may call: from the words of a request to those of the engine. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from app.openai.errors import RefusedParameter, UnsupportedParameter
from engine.structure import Constraint, JsonObject, JsonSchema, Tool, Tools, ToolUse
from engine.types import ModelInfo, Role, Turn

TOOLS_MAX = 128

FunctionName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$(?!\n)")]


class SchemaFormat(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A JSON Schema with a name. The answer is held to it while it is sampled, so it is always strict."""

    name: FunctionName
    schema: dict[str, Any]
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`text`: anything. `json_object`: one JSON object. `json_schema`: JSON that the schema accepts."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: SchemaFormat | None = None


class Function(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A function that the model may call. The arguments of a `strict` one are always what the schema accepts."""

    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ChatTool(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    type: Literal["function"]
    function: Function


class FunctionChoice(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: FunctionName


class NamedTool(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The answer is a call of this one."""

    type: Literal["function"]
    function: FunctionChoice


ChatTools = Annotated[list[ChatTool], Meta(max_length=TOOLS_MAX)]


def constraint_of(wanted: ResponseFormat | None) -> Constraint | None:
    """What the text is held to. Raises RefusedParameter."""
    if wanted is None or wanted.type == "text":
        if wanted is not None and wanted.json_schema is not None:
            raise RefusedParameter("response_format.json_schema", "a json_schema is only for the type json_schema")
        return None
    if wanted.type == "json_object":
        return JsonObject()
    if wanted.json_schema is None:
        raise RefusedParameter("response_format.json_schema", "expected a json_schema for the type json_schema")
    return JsonSchema(schema_text(wanted.json_schema.schema))


def tools_of(
    functions: Sequence[Function],
    choice: str | NamedTool | None,
    *,
    parallel: bool | None,
    model: ModelInfo,
) -> Tools | None:
    """What may be called. Raises RefusedParameter, also where the model's template knows of no tools."""
    if not functions:
        if choice not in (None, "none", "auto"):
            raise RefusedParameter("tool_choice", "tool_choice names a call, and there are no tools")
        return None
    if not model.has_tools:
        raise UnsupportedParameter("tools", _no_tools(model))
    names = [function.name for function in functions]
    if len(set(names)) < len(names):
        raise RefusedParameter("tools", "two tools have the same name")
    only = choice.function.name if isinstance(choice, NamedTool) else None
    if only is not None and only not in names:
        raise RefusedParameter("tool_choice", f"there is no tool {only!r} among the tools")
    use = ToolUse.AUTO if not isinstance(choice, str) else ToolUse(choice)
    return Tools(tuple(map(_tool, functions)), use, only, parallel is not False)


def require_told(turns: Sequence[Turn], field: str, model: ModelInfo) -> None:
    """Raises UnsupportedParameter for a history with calls of tools that the model's template cannot tell it of."""
    for index, turn in enumerate(turns):
        if (turn.tool_calls or turn.role is Role.TOOL) and not model.has_tools:
            raise UnsupportedParameter(f"{field}[{index}]", _no_tools(model))


def _no_tools(model: ModelInfo) -> str:
    return f"the model {model.name} has no tools: its chat template cannot tell it of any"


def _tool(function: Function) -> Tool:
    parameters = {"type": "object", "properties": {}} if function.parameters is None else function.parameters
    return Tool(function.name, function.description or "", schema_text(parameters), function.strict is True)


def schema_text(schema: dict[str, Any]) -> str:
    """A JSON Schema as the engine takes it."""
    return msgspec.json.encode(schema).decode()
