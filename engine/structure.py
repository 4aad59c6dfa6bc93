"""What an answer has to look like, and the tools it may call, as plain data.

`app` makes these values and the engine compiles them: nothing here knows a grammar library, a template or a parser. Schemas are
JSON as text, so that a request can be compared and hashed whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class JsonObject:
    """The answer is one JSON object, any."""


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """The answer is JSON that this JSON Schema (an object, as text) accepts."""

    schema: str


Constraint = JsonObject | JsonSchema
"""What the text of an answer is held to while it is sampled."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call. `parameters` is the JSON Schema of its arguments, as text.

    The arguments of a `strict` one are always what the schema accepts; for the others the model is only asked.
    """

    name: str
    description: str = ""
    parameters: str = '{"type":"object","properties":{}}'
    strict: bool = False


class ToolUse(StrEnum):
    """Whether an answer calls tools: never, as the model likes, or always."""

    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of a request. With `only` the answer is a call of that one. Without `parallel` it has one call at most."""

    tools: tuple[Tool, ...]
    use: ToolUse = ToolUse.AUTO
    only: str | None = None
    parallel: bool = True

    @property
    def are_told(self) -> bool:
        """Whether the model hears of them."""
        return bool(self.tools) and self.use is not ToolUse.NONE

    @property
    def is_forced(self) -> bool:
        return self.only is not None or self.use is ToolUse.REQUIRED

    @property
    def callable_tools(self) -> tuple[Tool, ...]:
        return tuple(tool for tool in self.tools if self.only is None or tool.name == self.only)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that an earlier answer made. `arguments` is JSON as text, as it was given out."""

    id: str
    name: str
    arguments: str
