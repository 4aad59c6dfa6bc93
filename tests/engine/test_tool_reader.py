"""Calls of tools in an answer's text: found however it is cut, and nothing that is no call is lost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.tool_dialect import ToolDialect
from engine.tool_reader import Called, Piece, Said, ToolReader

HERMES, LLAMA, MISTRAL = ToolDialect.HERMES, ToolDialect.LLAMA, ToolDialect.MISTRAL

Read = tuple[str, list[tuple[str | None, str]]]
"""The text, and the calls: names and arguments."""


def read(dialect: ToolDialect, pieces: Iterable[str]) -> Read:
    reader = ToolReader(dialect)
    out: list[Piece] = [piece for text in pieces for piece in reader.push(text)] + reader.flush()
    calls: list[tuple[str | None, str]] = []
    for piece in out:
        if isinstance(piece, Called):
            if piece.name is not None:
                assert piece.index == len(calls), "calls come one after the other"
                calls.append((piece.name, ""))
            assert piece.index == len(calls) - 1
            calls[-1] = (calls[-1][0], calls[-1][1] + piece.arguments)
    assert all(piece.text for piece in out if isinstance(piece, Said))
    assert reader.num_calls == len(calls)
    return "".join(piece.text for piece in out if isinstance(piece, Said)), calls


@pytest.mark.parametrize(
    ("dialect", "answer", "text", "calls"),
    [
        (HERMES, "Just text, 1 < 2. ", "Just text, 1 < 2. ", []),
        (HERMES, " \n", " \n", []),
        (HERMES, '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>', "", [("f", '{"a": 1}')]),
        (
            HERMES,
            'Let me see.\n<tool_call>\n{"name": "f", "arguments": {"a": "}\\"{"}}\n</tool_call>\n'
            '<tool_call>{"arguments": {}, "name": "g"}</tool_call>\nDone.',
            "Let me see.\nDone.",
            [("f", '{"a": "}\\"{"}'), ("g", "{}")],
        ),
        (HERMES, '<tool_call>{"name": "f"}</tool_call>', "", [("f", "{}")]),
        (HERMES, '<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>', "", [("f", '{"a": 1}')]),
        (
            HERMES,
            '<tool_call>{"id": 7, "name": "f", "x": [1], "arguments": {"a": 1}}</tool_call>',
            "",
            [("f", '{"a": 1}')],
        ),
        # Cut off, with and without something that can be given out.
        (HERMES, '<tool_call>{"name": "f", "arguments": {"a": [1,', "", [("f", '{"a": [1,')]),
        (HERMES, '<tool_call>{"name": "f", "argu', '<tool_call>{"name": "f", "argu', []),
        (HERMES, "text <tool_", "text <tool_", []),
        # No calls.
        (HERMES, "<tool_call>nothing</tool_call>", "<tool_call>nothing</tool_call>", []),
        (HERMES, '<tool_call>{"a": 1}</tool_call> x', '<tool_call>{"a": 1}</tool_call> x', []),
        (HERMES, '<tool_call>{"name": 1}', '<tool_call>{"name": 1}', []),
        (HERMES, '<tool_call>[{"name": "f"}]</tool_call>', "]</tool_call>", [("f", "{}")]),
        # Wrong on the way: what was given out stays, and the rest of it is no text.
        (HERMES, '<tool_call>{"name": "f", "arguments": {"a": 1} x}</tool_call> yes', " yes", [("f", '{"a": 1}')]),
        (LLAMA, '{"name": "f", "parameters": {"a": 1}}', "", [("f", '{"a": 1}')]),
        (LLAMA, '\n <|python_tag|>{"name": "f", "parameters": {}}', "", [("f", "{}")]),
        (
            LLAMA,
            '{"name": "f", "parameters": {"a": 1}}; {"name": "g", "parameters": {}}',
            "",
            [("f", '{"a": 1}'), ("g", "{}")],
        ),
        (LLAMA, 'So: {"name": "f", "parameters": {}}', 'So: {"name": "f", "parameters": {}}', []),
        (LLAMA, '{"answer": 42} is JSON', '{"answer": 42} is JSON', []),
        (LLAMA, "  plain", "  plain", []),
        (
            MISTRAL,
            '[TOOL_CALLS] [{"name": "f", "arguments": {"a": [1]}}, {"name": "g", "arguments": {}}]',
            "",
            [("f", '{"a": [1]}'), ("g", "{}")],
        ),
        (MISTRAL, 'Well [1] [TOOL_CALLS][{"name": "f", "arguments": {}}] ', "Well [1]", [("f", "{}")]),
        (MISTRAL, "[TOOL_", "[TOOL_", []),
    ],
)
def test_what_is_found(dialect: ToolDialect, answer: str, text: str, calls: Sequence[tuple[str, str]]) -> None:
    expected = (text, list(calls))
    assert read(dialect, [answer]) == expected
    assert read(dialect, answer) == expected
    for size in (2, 3, 7):
        assert read(dialect, [answer[at : at + size] for at in range(0, len(answer), size)]) == expected


FRAGMENTS = (
    *("<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<|python_tag|>"),
    *("[", "]", "{", "}", '"', ",", ";", " ", "\n", "\\", "text", "1", '"name": ', '"arguments": '),
    '{"name": "f", "arguments": {"a": 1}}',
    '{"name": "g", "parameters": {"b": "<tool_call>"}}',
)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([*ToolDialect]),
    st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join),
    st.lists(st.integers(0, 300), max_size=8),
)
@example(HERMES, '<tool_call>{"name": "g", "parameters": {"b": "<tool_call>"}} <tool_call>{', [30])
def test_the_cut_changes_nothing(dialect: ToolDialect, answer: str, cuts: list[int]) -> None:
    places = sorted({0, len(answer), *(cut for cut in cuts if cut < len(answer))})
    pieces = [answer[start:end] for start, end in pairwise(places)]
    assert read(dialect, pieces) == read(dialect, [answer])


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([*ToolDialect]),
    st.lists(
        st.tuples(
            st.text("fg_1", min_size=1, max_size=5),
            st.dictionaries(
                st.text(max_size=5), st.recursive(st.text() | st.integers() | st.none(), st.lists), max_size=3
            ),
        ),
        min_size=1,
        max_size=3,
    ),
    st.booleans(),
)
def test_calls_come_out_as_they_were_written(
    dialect: ToolDialect, calls: list[tuple[str, dict[str, object]]], ensure_ascii: bool
) -> None:
    written = [
        json.dumps({"name": name, dialect.arguments_key: arguments}, ensure_ascii=ensure_ascii)
        for name, arguments in calls
    ]
    if dialect is HERMES:
        answer = "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in written)
    elif dialect is MISTRAL:
        answer = f"[TOOL_CALLS] [{', '.join(written)}]"
    else:
        answer = "; ".join(written)
    text, found = read(dialect, answer)
    assert text == ""
    assert [(name, json.loads(arguments)) for name, arguments in found] == calls


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([*ToolDialect]), st.text("<tol_ca>{}[] \n", max_size=40), st.integers(1, 9))
def test_text_without_a_call_is_the_text(dialect: ToolDialect, answer: str, size: int) -> None:
    assert read(dialect, [answer[at : at + size] for at in range(0, len(answer), size)]) == (answer, [])
