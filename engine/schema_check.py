"""A JSON Schema as a client sent it: refused where it is none, too large, or where the grammar could not keep its promise.

Called by `engine.grammar_source`. What the grammar library itself does not support it refuses by name; here is only what it would
take and not hold. Pure.
"""

from __future__ import annotations

import json
from typing import Any, Final

from engine.errors import ConstraintRefused

MOST_CHARS: Final = 1 << 17
"""Of a schema as text. The largest that people publish are far below."""

MOST_DEPTH: Final = 64
"""Objects and lists within each other; the library's own parser gives up at twice that."""


def read_schema(text: str, what: str) -> dict[str, Any]:
    """The schema; `what` names it in a refusal. Raises ConstraintRefused."""
    if len(text) > MOST_CHARS:
        raise ConstraintRefused(f"{what} has {len(text)} characters, and the most is {MOST_CHARS}")
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ConstraintRefused(f"{what} is not JSON: {problem}") from None
    if not isinstance(schema, dict):
        raise ConstraintRefused(f"{what} is not an object, and a JSON Schema has to be one")
    _check(schema, what)
    # With this key of its own a schema could switch off what the library refuses.
    schema.pop("x-guidance", None)
    return schema


def _check(schema: object, what: str) -> None:
    waiting: list[tuple[object, int]] = [(schema, 1)]
    while waiting:
        value, depth = waiting.pop()
        if depth > MOST_DEPTH:
            raise ConstraintRefused(f"{what} is nested more than {MOST_DEPTH} levels deep")
        if isinstance(value, dict):
            _require_counted_properties(value, what)
            waiting += [(child, depth + 1) for child in value.values()]
        elif isinstance(value, list):
            waiting += [(child, depth + 1) for child in value]


def _require_counted_properties(schema: dict[str, Any], what: str) -> None:
    """Names that the schema leaves open may come twice in an answer, and an object counts them once."""
    fewest, required = schema.get("minProperties"), schema.get("required")
    named = len(required) if isinstance(required, list) else 0
    if isinstance(fewest, int) and fewest > max(1, named):
        raise ConstraintRefused(
            f"{what} asks for {fewest} properties (minProperties) and requires {named} by name; those that are not named"
            " could be the same one twice, so more than one is not supported"
        )
