"""The grammar of an answer that calls tools, in the language of the grammar library.

Called by `engine.grammars`. An answer that has to call one, whose arguments are promised (`strict`), or that may make one call
only, is held to it; one that may say what it likes is not. Pure: it writes text and compiles nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from engine.errors import ConstraintRefused
from engine.grammar_source import ANY_OBJECT, GrammarSource, constraint_schema, json_rule
from engine.schema_check import read_schema
from engine.structure import Constraint, Tool, Tools
from engine.tool_dialect import ToolDialect

TEXT: Final = "TEXT: /(.|\\n)*/"


def tools_source(
    tools: Tools, dialect: ToolDialect, special_ids: Mapping[str, int], constraint: Constraint | None
) -> GrammarSource | None:
    """None where nothing is promised. `special_ids` are those of the dialect's marks that are control tokens.

    `constraint` is what text has to be that is no call. Raises ConstraintRefused.
    """
    if not tools.is_forced and tools.parallel and constraint is None and not any(tool.strict for tool in tools.tools):
        return None
    schemas = [_arguments_schema(tool, tools) for tool in tools.callable_tools]
    rules = [_start(tools, dialect, special_ids, constraint)]
    rules += ["call: " + " | ".join(f"call_{number}" for number in range(len(schemas)))]
    for number, (tool, schema) in enumerate(zip(tools.callable_tools, schemas, strict=True)):
        head = f'{{"name": {json.dumps(tool.name, ensure_ascii=False)}, "{dialect.arguments_key}": '
        rules += [
            f'call_{number}: {_literal(head)} arguments_{number} "}}"',
            f"arguments_{number}: {json_rule(schema)}",
        ]
    names = ", ".join(tool.name for tool in tools.callable_tools)
    return GrammarSource("\n".join(rules) + "\n", tools.is_forced, f"the parameters of the tools [{names}]")


def _arguments_schema(tool: Tool, tools: Tools) -> dict[str, Any]:
    """Who is forced to call is held to the schema, strict or not: the model may not have wanted to."""
    schema = read_schema(tool.parameters, f"the parameters of the tool {tool.name!r}")
    return schema if tool.strict or tools.is_forced else dict(ANY_OBJECT)


def _start(tools: Tools, dialect: ToolDialect, special_ids: Mapping[str, int], constraint: Constraint | None) -> str:
    again: str | None = None
    opening, closing = (_mark(mark, special_ids) for mark in (dialect.opening, dialect.closing))
    match dialect:
        case ToolDialect.HERMES:
            inside, again = f'"\\n" call "\\n" {closing}', f'"\\n" {opening}'
        case ToolDialect.MISTRAL:
            more = ' (", " call)*' if tools.parallel else ""
            inside = f'" "? "[" call{more} {closing}'
        case ToolDialect.LLAMA:
            inside = "call"
    rules = [f"inside: {inside}"]
    is_special = dialect.opening in special_ids
    calls = "inside" if dialect.begins_bare else f"{opening} inside"
    if again is not None and tools.parallel:
        calls += f" ({again} inside)*"
    if tools.is_forced:
        return "\n".join([f"start: {calls}", *rules])
    if constraint is not None:
        if dialect.begins_bare:
            raise ConstraintRefused(
                "this model begins a call of a tool like any JSON, so its answer cannot be held to JSON where it may call one"
            )
        return "\n".join([f"start: answer | {calls}", f"answer: {json_rule(constraint_schema(constraint))}", *rules])
    if dialect.begins_bare:
        bare = f" | {opening} inside" if is_special else ""
        return "\n".join([f"start: PLAIN? | inside{bare}", r"PLAIN: /[^{](.|\n)*/", *rules])
    repeats = again is not None and tools.parallel
    if is_special:
        once = f"{opening} inside"
        return "\n".join([f"start: TEXT ({once} TEXT)*" if repeats else f"start: TEXT ({once})?", TEXT, *rules])
    start = "start: (head inside)* TEXT" if repeats else "start: TEXT | head inside"
    return "\n".join([start, f"head[lazy]: TEXT {opening}", TEXT, *rules])


def _mark(mark: str, special_ids: Mapping[str, int]) -> str:
    """A mark that is a control token is no text to the library."""
    return f"<[{special_ids[mark]}]>" if mark in special_ids else _literal(mark)


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
