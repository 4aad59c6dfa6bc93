"""A chat with tools as a chat template takes it: nothing in its tools, calls and results could pass for a control token.

Made by `engine.tokenizer`, rendered by `engine.chat_layouts`. Texts of messages are placeholders, as in every chat. What people
wrote into tools and calls stands in the template's own text, because the template writes it as JSON; there only what is spelled
like a control token is a placeholder, and comes back as plain text (vllm-project/vllm#31735). Pure.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.schema_check import is_deep, read_described
from engine.structure import Tool, ToolCall, Tools
from engine.tool_dialect import ToolDialect
from engine.types import Role, Turn

MISTRAL_ID_CHARS: Final = 9
"""Its template refuses ids of any other length."""

_MISTRAL_ID: Final = re.compile(r"[A-Za-z0-9]{9}")


@dataclass(frozen=True, slots=True)
class DefusedChat:
    """What a template is given. `needed` are the messages it must not leave out."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] | None
    needed: frozenset[int]
    literals: Sequence[str]


@dataclass(frozen=True, slots=True)
class ToolChat:
    """`controls` matches everything that is spelled like a control token."""

    turns: Sequence[Turn]
    tools: Tools | None
    dialect: ToolDialect
    controls: re.Pattern[str] | None

    def defused(self, nonce: str, first_number: int) -> DefusedChat:
        """With `NONCE-number-` for the message of that number, and numbers from `first_number` on for the literals.

        Raises ConstraintRefused for parameters that are no object, or too large.
        """
        fuse = _Fuse(self.controls, nonce, first_number)
        messages = [self._message(index, turn, nonce, fuse) for index, turn in enumerate(self.turns)]
        tools = None
        if self.tools is not None and self.tools.are_told:
            tools = [_tool(tool, fuse) for tool in self.tools.tools]
        # A template that writes calls may leave out what was said beside them.
        needed = frozenset(index for index, turn in enumerate(self.turns) if not turn.tool_calls)
        return DefusedChat(messages, tools, needed, fuse.literals)

    def _message(self, index: int, turn: Turn, nonce: str, fuse: _Fuse) -> dict[str, Any]:
        is_silent = bool(turn.tool_calls) and not turn.text
        message: dict[str, Any] = {"role": turn.role.value, "content": "" if is_silent else f"{nonce}-{index}-"}
        if turn.tool_calls:
            message["tool_calls"] = [self._call(call, fuse) for call in turn.tool_calls]
        if turn.role is Role.TOOL and turn.tool_call_id is not None:
            message["tool_call_id"] = self._id(turn.tool_call_id, fuse)
            name = self._called_name(turn.tool_call_id)
            if name is not None:
                message["name"] = fuse.defuse(name)
        return message

    def _call(self, call: ToolCall, fuse: _Fuse) -> dict[str, Any]:
        function = {"name": fuse.defuse(call.name), "arguments": fuse.defuse(_arguments(call.arguments))}
        return {"id": self._id(call.id, fuse), "type": "function", "function": function}

    def _id(self, call_id: str, fuse: _Fuse) -> Any:
        if self.dialect is ToolDialect.MISTRAL and not _MISTRAL_ID.fullmatch(call_id):
            return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:MISTRAL_ID_CHARS]
        return fuse.defuse(call_id)

    def _called_name(self, call_id: str) -> str | None:
        calls = (call for turn in self.turns for call in turn.tool_calls)
        return next((call.name for call in calls if call.id == call_id), None)


def new_call_id(dialect: ToolDialect) -> str:
    """For a call that was made just now."""
    if dialect is ToolDialect.MISTRAL:
        return secrets.token_hex(MISTRAL_ID_CHARS)[:MISTRAL_ID_CHARS]
    return f"call_{secrets.token_hex(12)}"


def has_tools(turns: Sequence[Turn], tools: Tools | None) -> bool:
    """Whether a template has to know of tools to render this chat."""
    are_told = tools is not None and tools.are_told
    return are_told or any(turn.role is Role.TOOL or turn.tool_calls for turn in turns)


class _Fuse:
    """Takes out of any JSON value what is spelled like a control token, and remembers it."""

    def __init__(self, controls: re.Pattern[str] | None, nonce: str, first_number: int) -> None:
        self._controls = controls
        self._nonce = nonce
        self._first_number = first_number
        self.literals: list[str] = []

    def defuse(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._controls.sub(self._put_away, value) if self._controls is not None else value
        if isinstance(value, dict):
            return {self.defuse(key): self.defuse(child) for key, child in value.items()}
        if isinstance(value, list):
            return [self.defuse(child) for child in value]
        return value

    def _put_away(self, found: re.Match[str]) -> str:
        spelled = found[0]
        if json.dumps(spelled, ensure_ascii=False)[1:-1] != spelled:
            # As JSON it is spelled otherwise, and so it is no control token there.
            return spelled
        self.literals.append(spelled)
        return f"{self._nonce}-{self._first_number + len(self.literals) - 1}-"


def _tool(tool: Tool, fuse: _Fuse) -> dict[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": read_described(tool.parameters, f"the parameters of the tool {tool.name!r}"),
    }
    return {"type": "function", "function": fuse.defuse(function)}


def _arguments(text: str) -> Any:
    """Templates take an object, and write it as JSON themselves; what is none goes in as it is."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) and not is_deep(value) else text
