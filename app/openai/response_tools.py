"""Tools of responses: how they are asked for, what calls look like in an answer, and how turns are stored. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from app.openai.structure import Function, FunctionChoice, FunctionName, NamedTool
from engine.structure import ToolCall
from engine.types import Role, Turn


class ResponseTool(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """A function that the model may call."""

    type: Literal["function"]
    name: FunctionName
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    description: str | None = None

    @property
    def function(self) -> Function:
        return Function(self.name, self.description, self.parameters, self.strict)


class ToolChoice(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The answer is a call of this one."""

    type: Literal["function"]
    name: FunctionName

    @property
    def named(self) -> NamedTool:
        return NamedTool("function", FunctionChoice(self.name))


class FunctionCallItem(msgspec.Struct, frozen=True, kw_only=True, tag="function_call"):
    """A call in an answer. `call_id` is what its result names."""

    id: str
    status: str
    call_id: str
    name: str
    arguments: str


class StoredTurn(msgspec.Struct, frozen=True, array_like=True):
    """A message as it is stored: an array, so that a plain one is only its role and its text."""

    role: Role
    text: str
    tool_call_id: str | None = None
    tool_calls: list[tuple[str, str, str]] = []

    @classmethod
    def of(cls, turn: Turn) -> StoredTurn:
        return cls(
            turn.role, turn.text, turn.tool_call_id, [(call.id, call.name, call.arguments) for call in turn.tool_calls]
        )

    @property
    def turn(self) -> Turn:
        calls = tuple(ToolCall(*call) for call in self.tool_calls)
        return Turn(self.role, self.text, tool_calls=calls, tool_call_id=self.tool_call_id)


def call_items(response_id: str, calls: Sequence[ToolCall], *, is_whole: bool) -> list[FunctionCallItem]:
    """The calls of an answer. Where it was cut off, so was the last of them."""
    last = len(calls) - 1
    return [
        call_item(response_id, index, call, "completed" if is_whole or index < last else "incomplete")
        for index, call in enumerate(calls)
    ]


def call_item(response_id: str, index: int, call: ToolCall, status: str) -> FunctionCallItem:
    """One of them; its id follows from the response's."""
    item_id = f"fc_{response_id.removeprefix('resp_')}_{index}"
    return FunctionCallItem(id=item_id, status=status, call_id=call.id, name=call.name, arguments=call.arguments)
