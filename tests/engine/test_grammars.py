"""What is compiled, what is refused and how quickly, and what is kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from engine.errors import ConstraintRefused
from engine.grammars import KEPT_GRAMMARS, Grammars
from engine.schema_check import MOST_CHARS, MOST_DEPTH
from engine.structure import JsonSchema
from tests.support.constrained import constrained, schema_of
from tests.support.tiny_model import PIECES, TinyTokenizer

LONGEST_REFUSAL_S = 30.0
"""A refusal takes less than a second where nobody else computes, and without bounds some take for ever."""


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"not": {"type": "string"}}, "not"),
        ({"if": {"type": "string"}, "then": {"maxLength": 3}}, "if"),
        ({"type": "string", "format": "palindrome"}, "palindrome"),
        ({"type": "strin"}, "strin"),
        ({"type": "string", "pattern": "("}, "regex"),
        ({"type": "string", "pattern": "(?=a)b"}, "regex"),
        ({"$ref": "http://example.com/schema"}, "example.com"),
        ({"$ref": "#/$defs/none"}, "none"),
        ({"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 3}]}, "oneOf"),
        ({"type": "integer", "minimum": 5, "maximum": 4}, "minimum"),
        ({"type": "object", "minProperties": 3}, "minProperties"),
        ({"type": "array", "uniqueItems": True, "x-guidance": {"lenient": True}}, "uniqueItems"),
        ({"$ref": "#"}, "nothing satisfies it"),
        (nested(MOST_DEPTH), "levels"),
    ],
)
def test_what_cannot_be_held_to_is_refused_by_name(schema: dict[str, Any], said: str) -> None:
    with pytest.raises(ConstraintRefused, match="the JSON Schema") as refused:
        Grammars(TinyTokenizer()).grammar(constrained("a", schema_of(schema)))
    assert said in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "true", "null", '"x"', "[" * 10_000])
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(ConstraintRefused):
        Grammars(TinyTokenizer()).grammar(constrained("a", JsonSchema(text)))


BOMBS: dict[str, Callable[[], dict[str, Any]]] = {
    "long": lambda: {"enum": ["x" * MOST_CHARS]},
    "wide": lambda: {"type": "object", "properties": {f"p{place}": {"type": "string"} for place in range(9000)}},
    "a pattern of patterns": lambda: {"type": "string", "pattern": "^((a{1000}){1000}){1000}$"},
    "every combination": lambda: {
        "allOf": [
            {"anyOf": [{"type": "object", "properties": {f"p{one}{two}": {"type": "integer"}}} for two in range(4)]}
            for one in range(12)
        ]
    },
    "a large divisor": lambda: {"type": "integer", "multipleOf": 982451653},
    "in circles": lambda: {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_quickly(name: str) -> None:
    grammars = Grammars(TinyTokenizer())
    begun = time.monotonic()
    with pytest.raises(ConstraintRefused):
        grammars.grammar(constrained("a", schema_of(BOMBS[name]())))
    assert time.monotonic() - begun < LONGEST_REFUSAL_S


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "integer"}, "minItems": 1_000_000},
        {"type": "string", "maxLength": 1_000_000_000},
        {"$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, "$ref": "#/$defs/tree"},
        {
            "type": "object",
            "additionalProperties": {"type": "number"},
            "description": "unknown words say nothing",
            "x": 1,
        },
    ],
)
def test_large_numbers_and_trees_are_no_bombs(schema: dict[str, Any]) -> None:
    assert Grammars(TinyTokenizer()).grammar(constrained("a", schema_of(schema))) is not None


def test_a_grammar_is_compiled_once_and_the_ones_used_longest_ago_leave() -> None:
    grammars = Grammars(TinyTokenizer())
    first = {"const": 0}
    for number in range(KEPT_GRAMMARS - 1):
        grammars.grammar(constrained("a", schema_of({"const": number})))
    kept = grammars._kept[next(iter(grammars._kept))]
    grammars.grammar(constrained("a", schema_of(first)))
    assert next(reversed(grammars._kept.values())) is kept
    for number in range(1000, 1002):
        grammars.grammar(constrained("a", schema_of({"const": number})))
    assert len(grammars._kept) == KEPT_GRAMMARS
    assert kept in grammars._kept.values()
    assert grammars._num_chars == sum(len(source.text) for source in grammars._kept)


def test_two_answers_of_one_schema_do_not_know_of_each_other() -> None:
    grammars = Grammars(TinyTokenizer())
    one, other = (grammars.grammar(constrained(name, schema_of({"enum": ["ab", "cd"]}))) for name in "ab")
    assert one is not None
    assert other is not None
    for token in b'"ab"':
        one.append(token)
    assert one.is_complete
    assert not other.is_complete
    assert other.num_allowed([*b'"cd"']) == 4
    # A piece of two letters is as good as the letters.
    assert other.num_allowed([ord('"'), PIECES.index(b"ab"), ord('"')]) == 3
    assert other.num_allowed([*b'"ad"']) == 2


def test_masks_along_a_draft_are_those_of_the_tokens_one_by_one() -> None:
    grammars = Grammars(TinyTokenizer())
    request = constrained("a", schema_of({"type": "array", "items": {"type": "integer"}}))
    ahead, step_by_step = grammars.grammar(request), grammars.grammar(request)
    assert ahead is not None
    assert step_by_step is not None
    draft = [*b"[1, 23]"]
    masks = ahead.masks(draft, [True] * (len(draft) + 1))
    for place, token in enumerate(draft):
        assert (masks[place] == step_by_step.masks((), [True])[0]).all()
        step_by_step.append(token)
    assert (masks[-1] == step_by_step.masks((), [True])[0]).all()
    assert (ahead.masks((), [True])[0] == masks[0]).all()
    broken = ahead.masks([*b"[x1]"], [True] * 5)
    assert [bool(mask.any()) for mask in broken] == [True, True, False, False, False]


def test_a_schema_says_the_same_however_it_is_written() -> None:
    schema = {"type": "object", "properties": {"a": {"const": "ü"}}, "required": ["a"], "additionalProperties": False}
    for text in (json.dumps(schema), json.dumps(schema, ensure_ascii=False, indent=3)):
        grammar = Grammars(TinyTokenizer()).grammar(constrained("a", JsonSchema(text)))
        assert grammar is not None
        answer = [*'{"a":"ü"}'.encode()]
        assert grammar.num_allowed(answer) == len(answer)
