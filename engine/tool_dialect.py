"""How a model writes calls of tools: found out from its chat template, which writes them into the history in the same way.

Called by `engine.tokenizer` when a model is read. Pure.

    HERMES    <tool_call>⏎{"name": "f", "arguments": {…}}⏎</tool_call>      Qwen 2.5 and 3, Hermes
    LLAMA     {"name": "f", "parameters": {…}}                              Llama 3.1 and later; maybe behind <|python_tag|>
    MISTRAL   [TOOL_CALLS] [{"name": "f", "arguments": {…}}, …]              Mistral
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from engine.errors import TemplateRefused

Render = Callable[[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]], str]
"""Messages and tools to the template's text. Raises TemplateRefused."""


class ToolDialect(Enum):
    """One way of writing calls. `opening` begins them and `closing` ends them; with LLAMA a call is the whole answer."""

    HERMES = ("<tool_call>", "</tool_call>", "arguments")
    LLAMA = ("<|python_tag|>", "", "parameters")
    MISTRAL = ("[TOOL_CALLS]", "]", "arguments")

    def __init__(self, opening: str, closing: str, arguments_key: str) -> None:
        self.opening = opening
        self.closing = closing
        self.arguments_key = arguments_key

    @property
    def begins_bare(self) -> bool:
        """Whether an answer that begins with a brace is a call, without any opening."""
        return self is ToolDialect.LLAMA


_NAME, _ARGUMENT, _RESULT = "probe_of_tools", "probe of an argument", "probe of a result"
_CALL_ID: Final = "probe0123"
_CALL: Final = re.compile(rf'\{{\s*"name":\s*"{_NAME}",\s*"(arguments|parameters)":\s*\{{\s*"probe":\s*"{_ARGUMENT}"')

_TOOLS: Final = (
    {
        "type": "function",
        "function": {
            "name": _NAME,
            "description": "",
            "parameters": {"type": "object", "properties": {"probe": {"type": "string"}}},
        },
    },
)
_MESSAGES: Final = (
    {"role": "user", "content": "probe"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": _CALL_ID,
                "type": "function",
                "function": {"name": _NAME, "arguments": {"probe": _ARGUMENT}},
            }
        ],
    },
    {"role": "tool", "content": _RESULT, "tool_call_id": _CALL_ID, "name": _NAME},
)


def dialect_of(render: Render) -> ToolDialect | None:
    """None where the template leaves tools, their calls or their results out, or writes calls in a way that is not read here."""
    try:
        told = render(_MESSAGES[:1], _TOOLS)
        text = render(_MESSAGES, _TOOLS)
    except TemplateRefused:
        return None
    found = _CALL.search(text)
    if found is None or _NAME not in told or _RESULT not in text:
        return None
    before = text[: found.start()]
    # What is nearest to the call opens it; the same word may stand in what a tool is told about.
    openings = {dialect: before.rfind(dialect.opening) for dialect in (ToolDialect.HERMES, ToolDialect.MISTRAL)}
    nearest = max(openings, key=lambda dialect: openings[dialect])
    if openings[nearest] >= 0 and not before[openings[nearest] + len(nearest.opening) :].strip(" \n["):
        return nearest
    return ToolDialect.LLAMA if found[1] == "parameters" else None
