"""What a request's constraint is as a grammar, in the language of the grammar library.

Called by `engine.grammars`. Pure: it writes text and compiles nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from engine.schema_check import read_schema
from engine.structure import Constraint, JsonObject

SCHEMA_NAME: Final = "the JSON Schema"

ANY_OBJECT: Final = {"type": "object"}

WHITESPACE: Final = r" |\n[ \t]{0,16}"
"""What may stand between two parts of the JSON, once: without a bound a model that loops writes spaces to the end of its tokens
(vllm-project/vllm#52011)."""

OPTIONS: Final = {
    "whitespace_pattern": WHITESPACE,
    # Without \u: half of a surrogate pair is JSON by the letter, and text that no program can store.
    "json_allowed_escapes": 'nrbtf\\"',
    "lenient": False,
    "coerce_one_of": False,
}


@dataclass(frozen=True, slots=True)
class GrammarSource:
    """The text of a grammar. `is_json`: nothing but JSON is said, so its numbers can be found and bounded. `what` names it in a
    refusal."""

    text: str
    is_json: bool
    what: str


def constraint_source(constraint: Constraint) -> GrammarSource:
    """Raises ConstraintRefused."""
    return GrammarSource(f"start: {json_rule(constraint_schema(constraint))}\n", True, SCHEMA_NAME)


def constraint_schema(constraint: Constraint) -> dict[str, Any]:
    """Raises ConstraintRefused."""
    return dict(ANY_OBJECT) if isinstance(constraint, JsonObject) else read_schema(constraint.schema, SCHEMA_NAME)


def json_rule(schema: dict[str, Any]) -> str:
    """A value that the schema accepts."""
    return "%json " + json.dumps({**schema, "x-guidance": OPTIONS})
