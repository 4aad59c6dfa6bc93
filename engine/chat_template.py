"""Renders a model's chat template: the same text `transformers` makes, without importing it, which takes two seconds.

Used by the tokenizer, for turns whose text is replaced by placeholders. A template is code out of a model file, so it runs in
jinja's sandbox, and whatever it raises becomes a TemplateRefused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from engine.errors import ModelError, TemplateRefused


class ChatTemplate:
    """A compiled template. `special_tokens` are the names it may use (`bos_token`, `eos_token`, …). Any thread may render.

    Messages that begin without a system message begin with `system_prompt`, unless it is empty or the template refuses it.
    """

    def __init__(
        self,
        source: str,
        special_tokens: Mapping[str, str],
        now: Callable[[], datetime] = datetime.now,
        system_prompt: str = "",
    ) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals.update(
            raise_exception=_refuse,
            strftime_now=lambda form: now().strftime(form),
            namespace=PlainNamespace,
            dict=lambda *args, **kwargs: dict(*args, **kwargs),  # the function, not the type and its attributes
        )
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as problem:
            raise ModelError(f"the model's chat template cannot be compiled: {problem}") from None
        self._special_tokens = dict(special_tokens)
        self._opening = [{"role": "system", "content": system_prompt}] if system_prompt else []
        self.asks_the_time = "strftime_now" in source

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> str:
        """The text of the messages, with the opening of an answer after it when asked for. Raises TemplateRefused."""
        if self._opening and messages and messages[0]["role"] != "system":
            try:
                return self._render([*self._opening, *messages], add_generation_prompt, tools)
            except TemplateRefused:
                # A template without a place for it; whether it takes the messages themselves is seen next.
                pass
        return self._render(messages, add_generation_prompt, tools)

    def _render(
        self,
        messages: Sequence[Mapping[str, Any]],
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] | None,
    ) -> str:
        try:
            return self._template.render(
                messages=[dict(message) for message in messages],
                tools=None if tools is None else [dict(tool) for tool in tools],
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._special_tokens,
            )
        except Exception as problem:
            roles = ", ".join(message["role"] for message in messages)
            raise TemplateRefused(
                f"the model's chat template does not accept messages of the roles [{roles}]: {problem}"
            ) from None


class GenerationBlock(Extension):
    """`{% generation %}…{% endgeneration %}`, with which templates mark answers for training; here only its body counts."""

    tags = {"generation"}  # noqa: RUF012  # jinja declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class PlainNamespace(Namespace):
    """A namespace without names that begin with an underscore, through which a template could reach Python's insides."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, *values = args
        names = dict(*values, **kwargs)
        for name in names:
            _refuse_private(name)
        Namespace.__init__(self, names)

    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_private(name)
        super().__setitem__(name, value)


def _refuse_private(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace has no attribute {name!r}")


def _refuse(message: str) -> NoReturn:
    raise jinja2.exceptions.TemplateError(message)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own escapes HTML, which is no business of a prompt."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
