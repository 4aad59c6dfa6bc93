"""A JSON Schema as a client sent it: refused where it is none, too large, or where the grammar could not keep its promise.

Called by `engine.grammar_source`, `engine.tool_grammar` and `engine.tool_chat`. What the grammar library itself does not support
it refuses by name; here is only what it would take and not hold. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from engine.errors import ConstraintRefused

MOST_CHARS: Final = 1 << 17
"""Of a schema as text. The largest that people publish are far below."""

MOST_DEPTH: Final = 64
"""Objects and lists within each other; the library's own parser gives up at twice that."""


def read_schema(text: str, what: str) -> dict[str, Any]:
    """The schema; `what` names it in a refusal. Raises ConstraintRefused."""
    schema = read_described(text, what)
    for value in _values(schema):
        if isinstance(value, dict):
            _require_counted_properties(value, what)
    # With this key of its own a schema could switch off what the library refuses.
    schema.pop("x-guidance", None)
    return schema


def read_described(text: str, what: str) -> dict[str, Any]:
    """A schema that only describes, and that nothing is held to: any object that is not too large. Raises ConstraintRefused."""
    if len(text) > MOST_CHARS:
        raise ConstraintRefused(f"{what} has {len(text)} characters, and the most is {MOST_CHARS}")
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ConstraintRefused(f"{what} is not JSON: {problem}") from None
    if not isinstance(schema, dict):
        raise ConstraintRefused(f"{what} is not an object, and a JSON Schema has to be one")
    if is_deep(schema):
        raise ConstraintRefused(f"{what} is nested more than {MOST_DEPTH} levels deep")
    return schema


def is_deep(value: object) -> bool:
    """Whether it has more levels than anybody means."""
    level = [value]
    for _ in range(MOST_DEPTH):
        level = [child for parent in level for child in _children(parent)]
    return bool(level)


def _values(schema: object) -> Iterator[object]:
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        yield value
        waiting += _children(value)


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        return [*value.values()]
    return [*value] if isinstance(value, list) else []


def _require_counted_properties(schema: dict[str, Any], what: str) -> None:
    """Names that the schema leaves open may come twice in an answer, and an object counts them once."""
    fewest, required = schema.get("minProperties"), schema.get("required")
    named = len(required) if isinstance(required, list) else 0
    if isinstance(fewest, int) and fewest > max(1, named):
        raise ConstraintRefused(
            f"{what} asks for {fewest} properties (minProperties) and requires {named} by name; those that are not named"
            " could be the same one twice, so more than one is not supported"
        )
