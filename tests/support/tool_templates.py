"""Chat templates with tools, in the manner of the kinds of models whose calls are read, and tokenizers that go with them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.tokenizer import ChatTokenizer
from engine.tool_dialect import ToolDialect
from tests.support.family_tokenizers import qwen_tokenizer_json
from tests.support.tiny_llama import byte_tokenizer_json, piece_tokenizer_json, write_tokenizer

HERMES_TEMPLATE = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- 'You may call these functions:\\n<tools>' }}
    {%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
    {{- '\\n</tools>\\nAnswer with <tool_call>\\n{"name": <name>, "arguments": <object>}\\n</tool_call><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first)
           or (message.role == 'assistant' and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant' }}
        {%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
        {%- for call in message.tool_calls %}
            {%- if call.function %}{%- set call = call.function %}{%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' + call.name + '", "arguments": ' }}
            {{- call.arguments if call.arguments is string else call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

LLAMA_TEMPLATE = """\
{%- if tools %}
    {{- '<|im_start|>system\\nEnvironment: ipython\\n<|im_end|>' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {{- '<|im_start|>ipython\\n\\n' + message.content + '<|im_end|>' }}
    {%- elif message.tool_calls is defined and message.tool_calls %}
        {%- if message.tool_calls | length != 1 %}
            {{- raise_exception('This model only supports single tool-calls at once!') }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|im_start|>assistant\\n\\n{"name": "' + call.name + '", "parameters": ' + (call.arguments | tojson) + '}' }}
        {{- '<|im_end|>' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n\\n' }}
        {%- if tools and loop.first and message.role == 'user' %}
            {{- 'Answer with {"name": function name, "parameters": its arguments} to call one of these.\\n\\n' }}
            {%- for tool in tools %}{{- tool | tojson(indent=4) }}{{- '\\n\\n' }}{%- endfor %}
        {%- endif %}
        {{- message.content | trim + '<|im_end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n\\n' }}{%- endif %}
"""

MISTRAL_TEMPLATE = """\
{{- bos_token }}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {%- if tools and (loop.last or not messages[loop.index0 + 1:] | selectattr('role', 'equalto', 'user') | list) %}
            {{- '[AVAILABLE_TOOLS] [' }}
            {%- for tool in tools %}{{- tool | tojson }}{{- ', ' if not loop.last else '' }}{%- endfor %}
            {{- '][/AVAILABLE_TOOLS]' }}
        {%- endif %}
        {{- '[INST] ' + message.content + '[/INST]' }}
    {%- elif message.tool_calls is defined and message.tool_calls %}
        {{- '[TOOL_CALLS] [' }}
        {%- for call in message.tool_calls %}
            {%- if call.id | length != 9 %}{{- raise_exception('Tool call IDs should have 9 characters!') }}{%- endif %}
            {{- '{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) }}
            {{- ', "id": "' + call.id + '"}' }}{{- ', ' if not loop.last else '' }}
        {%- endfor %}
        {{- ']' + eos_token }}
    {%- elif message.role == 'assistant' %}
        {{- ' ' + message.content + eos_token }}
    {%- elif message.role == 'tool' %}
        {{- '[TOOL_RESULTS] {"content": ' + message.content + ', "call_id": "' + message.tool_call_id }}
        {{- '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception('Only user, assistant and tool!') }}
    {%- endif %}
{%- endfor %}
"""

TEMPLATE_OF = {
    ToolDialect.HERMES: HERMES_TEMPLATE,
    ToolDialect.LLAMA: LLAMA_TEMPLATE,
    ToolDialect.MISTRAL: MISTRAL_TEMPLATE,
}


@cache
def tool_tokenizer(dialect: ToolDialect) -> ChatTokenizer:
    """That of a model of this kind."""
    with TemporaryDirectory() as folder:
        write_tool_tokenizer(Path(folder), dialect)
        return ChatTokenizer.from_folder(Path(folder))


def write_tool_tokenizer(folder: Path, dialect: ToolDialect) -> None:
    """With the marks among its tokens, special ones where those models have them so."""
    special = {"special": True}
    plain = {"special": False}
    match dialect:
        case ToolDialect.HERMES:
            document, names = qwen_tokenizer_json(), {"eos_token": "<|im_end|>"}
            added = {"<tool_call>": plain, "</tool_call>": plain}
        case ToolDialect.LLAMA:
            document, names = byte_tokenizer_json(), {"eos_token": "<|im_end|>"}
            added = {"<|python_tag|>": special}
        case ToolDialect.MISTRAL:
            document, names = piece_tokenizer_json(), {"bos_token": "<s>", "eos_token": "</s>"}
            marks = (
                "INST",
                "TOOL_CALLS",
                "AVAILABLE_TOOLS",
                "TOOL_RESULTS",
                "/INST",
                "/AVAILABLE_TOOLS",
                "/TOOL_RESULTS",
            )
            added = {f"[{mark}]": special for mark in marks}
    write_tokenizer(folder, with_tokens(document, added), TEMPLATE_OF[dialect], **names)


def with_tokens(document: str, added: dict[str, dict[str, bool]]) -> str:
    """The same tokenizer with more added tokens."""
    parsed = json.loads(document)
    ids = [*parsed["model"]["vocab"].values(), *(token["id"] for token in parsed["added_tokens"])]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    for token_id, (content, more) in enumerate(added.items(), start=max(ids) + 1):
        parsed["added_tokens"].append({"id": token_id, "content": content, **flags, **more})
    return json.dumps(parsed, ensure_ascii=False)
