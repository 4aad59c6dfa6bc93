"""Our rendering of chat templates is that of transformers, and a template can neither reach out nor pass an error on."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.chat_template import ChatTemplate
from engine.errors import ModelError, TemplateRefused
from tests.support.chat_templates import CHATML, TEMPLATES
from tests.support.tiny_llama import byte_tokenizer_json

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
MESSAGE = {"role": "user", "content": "hi"}
conversations = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": st.text(max_size=20)}),
    min_size=1,
    max_size=8,
)


@cache
def transformers_tokenizer() -> Any:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(byte_tokenizer_json()), **SPECIAL)


@pytest.mark.parametrize("name", TEMPLATES)
@given(messages=conversations, opening=st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_list_of_roles_renders_as_in_transformers_or_is_refused_by_both(
    name: str, messages: list[dict[str, str]], opening: bool
) -> None:
    template = ChatTemplate(TEMPLATES[name], SPECIAL)
    try:
        expected = transformers_tokenizer().apply_chat_template(
            messages, chat_template=TEMPLATES[name], tokenize=False, add_generation_prompt=opening
        )
    except Exception:
        with pytest.raises(TemplateRefused):
            template.render(messages, add_generation_prompt=opening)
    else:
        assert template.render(messages, add_generation_prompt=opening) == expected


@pytest.mark.model
def test_the_bundled_models_template_renders_as_in_transformers(bundled_folder: Path) -> None:
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(bundled_folder)
    template = ChatTemplate((bundled_folder / "chat_template.jinja").read_text(), {})
    for messages in ([MESSAGE], [{"role": "system", "content": "s"}, MESSAGE, {"role": "assistant", "content": "a"}]):
        expected = theirs.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        assert template.render(messages, add_generation_prompt=True) == expected


def test_a_template_that_raises_is_a_refusal_with_its_reason_and_the_roles() -> None:
    template = ChatTemplate(TEMPLATES["instruct"], SPECIAL)
    with pytest.raises(TemplateRefused, match=r"\[user, user\]: Roles must alternate"):
        template.render([MESSAGE, MESSAGE], add_generation_prompt=True)


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0].nothing.at_all }}",
        "{{ 1 / 0 }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ dict.__base__.__subclasses__() }}",
        "{% set n = namespace(__class__=1) %}",
        "{% set n = namespace() %}{% set n._hidden = 1 %}",
        "{% for i in range(1000000000) %}{% endfor %}",
    ],
)
def test_whatever_goes_wrong_in_a_template_is_a_refusal(source: str) -> None:
    with pytest.raises(TemplateRefused):
        ChatTemplate(source, {}).render([MESSAGE], add_generation_prompt=True)


def test_a_template_cannot_change_the_messages_it_is_given() -> None:
    messages = [dict(MESSAGE)]
    with pytest.raises(TemplateRefused):
        ChatTemplate("{{ messages[0].update({'content': 'x'}) }}", {}).render(messages, add_generation_prompt=False)
    assert messages == [MESSAGE]


def test_a_template_that_is_not_jinja_is_an_error_of_the_model() -> None:
    with pytest.raises(ModelError, match="cannot be compiled"):
        ChatTemplate("{% for %}", {})


def test_the_date_comes_from_the_clock_that_is_given() -> None:
    template = ChatTemplate("{{ strftime_now('%d %b %Y') }}", {}, now=lambda: datetime(2026, 3, 1))
    assert template.render([], add_generation_prompt=False) == "01 Mar 2026"


def test_template_code_in_a_message_is_text() -> None:
    # huggingface/transformers#29279: pasted template code broke ordinary chats.
    code = "{{ 1 / 0 }}{% raw %}{# comment"
    rendered = ChatTemplate(CHATML, {}).render([{"role": "user", "content": code}], add_generation_prompt=False)
    assert code in rendered


@pytest.mark.parametrize("name", TEMPLATES)
@given(messages=conversations, opening=st.booleans())
@settings(max_examples=30, deadline=None)
def test_messages_without_a_system_prompt_begin_with_the_one_that_is_set_where_the_template_takes_it(
    name: str, messages: list[dict[str, str]], opening: bool
) -> None:
    plain, opened = (
        ChatTemplate(TEMPLATES[name], SPECIAL),
        ChatTemplate(TEMPLATES[name], SPECIAL, system_prompt="Be kind"),
    )
    given = [messages]
    if messages[0]["role"] != "system":
        given.insert(0, [{"role": "system", "content": "Be kind"}, *messages])
    for those in given:
        try:
            expected = plain.render(those, add_generation_prompt=opening)
        except TemplateRefused:
            continue
        assert opened.render(messages, add_generation_prompt=opening) == expected
        return
    with pytest.raises(TemplateRefused):
        opened.render(messages, add_generation_prompt=opening)
