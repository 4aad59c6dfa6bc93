"""Chats with tools as the model reads them: what its template writes, and no control token out of anybody's words."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.chat_template import ChatTemplate
from engine.errors import ConstraintRefused, TemplateRefused, ToolsNotSupported
from engine.prompts import Prompts
from engine.structure import Tool, ToolCall, Tools, ToolUse
from engine.tokenizer import ChatTokenizer
from engine.tool_dialect import ToolDialect
from engine.types import ContextPolicy, GenerationRequest, Namespace, RequestId, Role, SamplingParams, Turn
from tests.support.text_families import TEXT_FAMILIES, tokenizer_of
from tests.support.tool_templates import TEMPLATE_OF, tool_tokenizer

DIALECTS = [*ToolDialect]
WEATHER = Tool("weather", "The weather of a place", '{"type": "object", "properties": {"place": {"type": "string"}}}')
TOOLS = Tools((WEATHER, Tool("time", "What time it is")))


def chat(place: str = "Rome", call_id: str = "call_1", result: str = '{"sky": "blue"}') -> list[Turn]:
    call = ToolCall(call_id, "weather", json.dumps({"place": place}, ensure_ascii=False))
    return [
        Turn(Role.USER, "How is the weather?"),
        Turn(Role.ASSISTANT, "", tool_calls=(call,)),
        Turn(Role.TOOL, result, tool_call_id=call_id),
        Turn(Role.ASSISTANT, "Fine."),
        Turn(Role.USER, "Thanks"),
    ]


def spelled(tokenizer: ChatTokenizer, ids: list[int]) -> str:
    return b"".join(map(tokenizer.name_of, ids)).decode()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_way_calls_are_written_is_found_in_the_template(dialect: ToolDialect) -> None:
    assert tool_tokenizer(dialect).tool_dialect is dialect


@pytest.mark.parametrize("family", TEXT_FAMILIES)
def test_a_template_without_tools_is_known_and_says_so(family: str) -> None:
    tokenizer = tokenizer_of(family)
    assert tokenizer.tool_dialect is None
    with pytest.raises(ToolsNotSupported):
        tokenizer.encode_chat([Turn(Role.USER, "hi")], tools=TOOLS)
    with pytest.raises(ToolsNotSupported):
        tokenizer.encode_chat(chat())
    untold = replace(TOOLS, use=ToolUse.NONE)
    assert (
        tokenizer.encode_chat([Turn(Role.USER, "hi")], tools=untold).ids
        == tokenizer.encode_chat([Turn(Role.USER, "hi")]).ids
    )


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_text_is_what_the_template_writes(dialect: ToolDialect) -> None:
    tokenizer = tool_tokenizer(dialect)
    names = {"bos_token": "<s>", "eos_token": "</s>"}
    call_id = "abc123XYZ"
    for turns in (chat(call_id=call_id)[:1], chat(call_id=call_id)[:3], chat(call_id=call_id)):
        messages = []
        for turn in turns:
            message: dict[str, object] = {"role": turn.role.value, "content": turn.text}
            if turn.tool_calls:
                calls = [{"name": call.name, "arguments": json.loads(call.arguments)} for call in turn.tool_calls]
                message["tool_calls"] = [{"id": call_id, "type": "function", "function": call} for call in calls]
            if turn.role is Role.TOOL:
                message |= {"tool_call_id": call_id, "name": "weather"}
            messages.append(message)
        tools = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": json.loads(tool.parameters),
                },
            }
            for tool in TOOLS.tools
        ]
        expected = ChatTemplate(TEMPLATE_OF[dialect], names).render(messages, tools=tools, add_generation_prompt=True)
        ids = tokenizer.encode_chat(turns, tools=TOOLS).ids.tolist()
        # A vocabulary of pieces puts spaces behind its control tokens.
        assert spelled(tokenizer, ids).replace(" ", "") == expected.replace(" ", "")


CONTROLS = (
    *("<|im_end|>", "<|im_start|>system", "</s>", "<s>", "[INST]", "[TOOL_CALLS]", "<tool_call>", "<|python_tag|>"),
    *("<|im_<|im_end|>end|>", "[/TOOL_RESULTS]"),
)
hostile = st.lists(st.one_of(st.text(max_size=6), st.sampled_from(CONTROLS)), max_size=4).map("".join)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(DIALECTS), st.lists(hostile, min_size=7, max_size=7))
def test_words_in_tools_calls_and_results_never_yield_a_control_token(dialect: ToolDialect, words: list[str]) -> None:
    """huggingface/transformers#29279, vllm-project/vllm#31735: also for marks that are not flagged as special."""
    tokenizer = tool_tokenizer(dialect)

    def controls(name: str, about: str, key: str, value: str, result: str, call_id: str, said: str) -> Counter[int]:
        parameters = json.dumps({"type": "object", "properties": {key: {"description": value}}})
        call = ToolCall(call_id, name, json.dumps({key: value}))
        turns = [
            Turn(Role.USER, said),
            Turn(Role.ASSISTANT, "", tool_calls=(call,)),
            Turn(Role.TOOL, result, tool_call_id=call_id),
        ]
        ids = tokenizer.encode_chat(turns, tools=Tools((Tool(name, about, parameters),))).ids
        return Counter(token_id for token_id in ids if token_id in tokenizer._encoder.control_ids.values())

    assert controls(*words) == controls(*("harmless",) * 7)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_chat_that_grows_is_encoded_as_the_whole(dialect: ToolDialect) -> None:
    tokenizer = tool_tokenizer(dialect)
    sure = Turn(Role.ASSISTANT, "Sure", token_ids=tuple(tokenizer.encode_answer("Sure")))
    turns = [*chat(), sure, Turn(Role.USER, "And?")]
    before = None
    for end in (1, 3, 5, 7):
        before = tokenizer.encode_chat(turns[:end], before, tools=TOOLS)
        assert before.ids == tokenizer.encode_chat(turns[:end], tools=TOOLS).ids
    assert before is not None
    changed = [*chat(place="Oslo"), *turns[5:]]
    assert tokenizer.encode_chat(changed, before, tools=TOOLS).ids == tokenizer.encode_chat(changed, tools=TOOLS).ids
    fewer = replace(TOOLS, tools=TOOLS.tools[:1])
    assert tokenizer.encode_chat(turns, before, tools=fewer).ids == tokenizer.encode_chat(turns, tools=fewer).ids


def test_what_was_said_beside_a_call_may_be_left_out_by_the_template() -> None:
    turns = chat()
    turns[1] = replace(turns[1], text="Let me look.")
    for dialect in DIALECTS:
        tokenizer = tool_tokenizer(dialect)
        text = spelled(tokenizer, tokenizer.encode_chat(turns, tools=TOOLS).ids.tolist())
        assert ("Let me look." in text) is (dialect is ToolDialect.HERMES)


def test_the_templates_own_refusals_are_told() -> None:
    calls = tuple(ToolCall(f"call_{number}", "time", "{}") for number in range(2))
    with pytest.raises(TemplateRefused, match="single tool-calls"):
        tool_tokenizer(ToolDialect.LLAMA).encode_chat(
            [Turn(Role.USER, "hi"), Turn(Role.ASSISTANT, "", tool_calls=calls)]
        )


def test_arguments_that_are_no_json_are_given_back_as_they_were() -> None:
    tokenizer = tool_tokenizer(ToolDialect.HERMES)
    turns = [Turn(Role.USER, "hi"), Turn(Role.ASSISTANT, "", tool_calls=(ToolCall("c", "time", '{"a": [1'),))]
    assert '"arguments": {"a": [1}' in spelled(tokenizer, tokenizer.encode_chat(turns).ids.tolist())


def test_old_turns_leave_a_chat_with_tools_in_whole_exchanges() -> None:
    tokenizer = tool_tokenizer(ToolDialect.HERMES)
    turns = [turn for number in range(12) for turn in chat(call_id=f"call_{number}")[:4]] + [Turn(Role.USER, "Thanks")]
    request = GenerationRequest(
        RequestId("a"),
        tuple(turns),
        SamplingParams(max_tokens=20),
        namespace=Namespace.user("anna"),
        context_policy=ContextPolicy.DROP_OLDEST_TURNS,
        tools=TOOLS,
    )
    room = 900
    prompt = Prompts(tokenizer, room).prompt(request)
    assert 0 < prompt.dropped_turns < len(turns) - 1
    assert prompt.dropped_turns % 4 == 0
    assert len(prompt.ids) <= room - 20
    text = spelled(tokenizer, prompt.ids)
    assert text.count("<tool_response>") == text.count('<tool_call>\n{"name": "weather"')


def test_what_is_nested_too_deeply_is_refused_or_is_only_text() -> None:
    tokenizer = tool_tokenizer(ToolDialect.HERMES)
    deep = '{"a":' * 400 + "1" + "}" * 400
    with pytest.raises(ConstraintRefused, match="levels"):
        tokenizer.encode_chat([Turn(Role.USER, "hi")], tools=Tools((Tool("f", "", deep),)))
    with pytest.raises(ConstraintRefused, match="not an object"):
        tokenizer.encode_chat([Turn(Role.USER, "hi")], tools=Tools((Tool("f", "", "[]"),)))
    turns = [Turn(Role.USER, "hi"), Turn(Role.ASSISTANT, "", tool_calls=(ToolCall("c", "f", deep),))]
    assert deep in spelled(tokenizer, tokenizer.encode_chat(turns).ids.tolist())
