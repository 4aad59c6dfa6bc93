"""The messages of a request, and the turns they are for the engine. Pure.

What a message may hold is what can be said to a text model: everything else is refused with its place. Fields that an answer
of ours comes with (`refusal`, `annotations` …) are taken back as long as they are empty, so that clients can send it as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from app.openai.errors import RefusedParameter, UnsupportedParameter
from engine.structure import ToolCall
from engine.types import Role, Turn

MessageRole = Literal["system", "developer", "user", "assistant", "tool", "function"]

ROLES: dict[str, Role] = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
}

MESSAGES_MAX = 100_000


class ContentPart(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A part of a message. Only text is read; `annotations` and `logprobs` are what an answer of ours comes with."""

    type: str
    text: str | None = None
    image_url: Any = None
    input_audio: Any = None
    file: Any = None
    refusal: Any = None
    annotations: Any = None
    logprobs: Any = None


class CalledFunction(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`arguments` is JSON as text, as it was given out."""

    name: str
    arguments: str


class CalledTool(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A call that an earlier answer made."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class ChatMessage(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One message. `content` is a text, or parts of type text, which are joined; the assistant's may have none where it called
    tools. A message of the role tool says which call it answers."""

    role: MessageRole
    content: str | list[ContentPart] | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[CalledTool] | None = None
    tool_call_id: str | None = None
    function_call: Any = None
    audio: Any = None
    annotations: list[Any] | None = None


Messages = Annotated[list[ChatMessage], Meta(min_length=1, max_length=MESSAGES_MAX)]


def turns_of(messages: Sequence[ChatMessage]) -> tuple[Turn, ...]:
    """What the engine reads. Raises RefusedParameter."""
    turns = tuple(_turn(message, f"messages[{index}]") for index, message in enumerate(messages))
    if turns[-1].role is Role.ASSISTANT:
        raise RefusedParameter(
            f"messages[{len(turns) - 1}].role",
            "expected a last message of somebody who wants an answer, got one of the assistant",
        )
    return turns


def _turn(message: ChatMessage, place: str) -> Turn:
    role = ROLES.get(message.role)
    if role is None:
        raise UnsupportedParameter(f"{place}.role", f"messages of the role {message.role!r} are not supported")
    for name in ("name", "refusal", "function_call", "audio", "annotations"):
        if getattr(message, name):
            raise UnsupportedParameter(f"{place}.{name}")
    if message.tool_calls and role is not Role.ASSISTANT:
        raise RefusedParameter(f"{place}.tool_calls", "only the assistant calls tools")
    if (message.tool_call_id is not None) != (role is Role.TOOL):
        raise RefusedParameter(f"{place}.tool_call_id", "a message has a tool_call_id exactly if its role is tool")
    calls = tuple(ToolCall(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ())
    text = "" if calls and message.content is None else joined_text(message.content, f"{place}.content")
    return Turn(role, text, tool_calls=calls, tool_call_id=message.tool_call_id)


def joined_text(content: str | list[ContentPart] | None, place: str) -> str:
    """The parts of a message as one text. Raises RefusedParameter for what is no text."""
    if isinstance(content, str):
        return content
    if not content:
        raise RefusedParameter(place, f"expected {place} to be a text, got none")
    texts = []
    for index, part in enumerate(content):
        if part.type not in ("text", "input_text", "output_text"):
            raise UnsupportedParameter(f"{place}[{index}].type", f"content of the type {part.type!r} is not supported")
        if part.text is None:
            raise RefusedParameter(f"{place}[{index}].text", f"expected a text in {place}[{index}], got none")
        for name in ("image_url", "input_audio", "file", "refusal", "annotations"):
            if getattr(part, name):
                raise UnsupportedParameter(f"{place}[{index}].{name}")
        texts.append(part.text)
    return "".join(texts)
