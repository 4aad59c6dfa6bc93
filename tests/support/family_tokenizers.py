"""Tokenizers and chat templates in the manner of Mistral, Qwen and Gemma, written for the tests: same steps, tiny vocabulary."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from tests.support.chat_templates import INSTRUCT
from tests.support.tiny_llama import CORPUS, piece_tokenizer_json

QWEN_TEMPLATE = """\
{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set last = namespace(query=messages | length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages | length - 1) - loop.index0 %}
    {%- if message.role == 'user' and last.query == messages | length - 1
           and not message.content.startswith('<tool_response>') %}
        {%- set last.query = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {%- set content = message.content %}
        {%- if '</think>' in message.content %}
            {%- set content = message.content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n' + content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
GEMMA_TEMPLATE = """\
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- if messages[0]['content'] is string %}
        {%- set first_prefix = messages[0]['content'] + '\\n\\n' %}
    {%- else %}
        {%- set first_prefix = messages[0]['content'][0]['text'] + '\\n\\n' %}
    {%- endif %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set first_prefix = '' %}
    {%- set turns = messages %}
{%- endif %}
{%- for message in turns %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
    {%- endif %}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] %}
    {{- '<start_of_turn>' + role + '\\n' + (first_prefix if loop.first else '') }}
    {{- message['content'] | trim }}
    {{- '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<start_of_turn>model\\n' }}
{%- endif %}
"""
"""It has no turn of the system: what such a message says stands before the first message of the user."""

GEMMA_WITHOUT_SYSTEM = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}"
    "{% endif %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content | trim }}<end_of_turn>\n"
    "{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
"""The older one, which refuses a message of the system."""


@cache
def gemma_tokenizer_json(vocabulary: int = 700) -> str:
    """Pieces with byte fallback, spaces merged with the word before them, nothing put before a text."""
    controls = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>", "<end_of_turn>"]
    all_bytes = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=[*controls, *all_bytes], show_progress=False)
    tokenizer.train_from_iterator([word + "▁" for line in CORPUS[:2] for word in line.split()], trainer)
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = [token for token in document["added_tokens"] if token["content"] in controls]
    return json.dumps(document, ensure_ascii=False)


@cache
def qwen_tokenizer_json(vocabulary: int = 400) -> str:
    """Bytes of composed characters, digits one by one; some control tokens are not flagged as special."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    words = Regex(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(words, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    document = json.loads(tokenizer.to_str())
    for token in document["added_tokens"]:
        token["special"] = "think" not in token["content"]
    return json.dumps(document, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class FamilyText:
    """What a folder of this family has for text."""

    tokenizer_json: str
    template: str
    bos_token: str | None
    eos_token: str
    end_token: str
    """What closes a message."""


def family_texts() -> dict[str, FamilyText]:
    """By the name of the family."""
    gemma = gemma_tokenizer_json()
    return {
        "Mistral": FamilyText(piece_tokenizer_json(), INSTRUCT, "<s>", "</s>", "</s>"),
        "Qwen": FamilyText(qwen_tokenizer_json(), QWEN_TEMPLATE, None, "<|im_end|>", "<|im_end|>"),
        "Gemma": FamilyText(gemma, GEMMA_TEMPLATE, "<bos>", "<eos>", "<end_of_turn>"),
        "Gemma without system": FamilyText(gemma, GEMMA_WITHOUT_SYSTEM, "<bos>", "<eos>", "<end_of_turn>"),
    }
