"""JSON Schemas at random, of the keywords that the engine supports, each of which something satisfies."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "name", "the city", "größe", 'quote"d'])
CONSTANTS = st.one_of(st.none(), st.booleans(), st.integers(-99, 99), st.text('abc é😀"\\', max_size=4))


@st.composite
def integers(draw: st.DrawFn) -> dict[str, Any]:
    low = draw(st.integers(-500, 500))
    schema: dict[str, Any] = {"type": "integer"}
    if draw(st.booleans()):
        schema["minimum"] = low
    if draw(st.booleans()):
        schema["maximum"] = low + draw(st.integers(0, 500))
    return schema


@st.composite
def strings(draw: st.DrawFn) -> dict[str, Any]:
    if draw(st.booleans()):
        return {"type": "string", "pattern": draw(st.sampled_from(["^[a-c]{1,4}$", "^(yes|no)$", "^[A-Z][a-z]{0,5}$"]))}
    return {"type": "string", "minLength": draw(st.integers(0, 2)), "maxLength": draw(st.integers(2, 6))}


@st.composite
def objects(draw: st.DrawFn, children: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    properties = draw(st.dictionaries(NAMES, children, max_size=4))
    required = draw(st.lists(st.sampled_from(sorted(properties)), unique=True)) if properties else []
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


@st.composite
def arrays(draw: st.DrawFn, children: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    fewest = draw(st.integers(0, 2))
    return {"type": "array", "items": draw(children), "minItems": fewest, "maxItems": fewest + draw(st.integers(0, 2))}


def schemas() -> st.SearchStrategy[dict[str, Any]]:
    leaves = st.one_of(
        integers(),
        strings(),
        st.just({"type": "number"}),
        st.just({"type": ["boolean", "null"]}),
        st.lists(CONSTANTS, min_size=1, max_size=4, unique_by=repr).map(lambda values: {"enum": values}),
        CONSTANTS.map(lambda value: {"const": value}),
    )
    return st.recursive(
        leaves,
        lambda children: st.one_of(
            objects(children),
            arrays(children),
            st.lists(children, min_size=1, max_size=3).map(lambda of: {"anyOf": of}),
        ),
        max_leaves=6,
    )
