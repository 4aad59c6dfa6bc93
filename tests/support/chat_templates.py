"""Chat templates in the styles that models of the Llama kind come with, written for the tests."""

from __future__ import annotations

from tests.support.tiny_llama import CHATML

DEFAULT_SYSTEM = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are kind.<|im_end|>\\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

INSTRUCT = """\
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set turns = messages %}
{%- endif %}
{%- for message in turns %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Roles must alternate user/assistant/user/assistant/...') }}
    {%- endif %}
    {%- if loop.index0 == 0 and system_message is defined %}
        {%- set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}
    {%- else %}
        {%- set content = message['content'] %}
    {%- endif %}
    {%- if message['role'] == 'user' %}
        {{- bos_token + '[INST] ' + content + ' [/INST]' }}
    {%- else %}
        {{- ' ' + content + ' ' + eos_token }}
    {%- endif %}
{%- endfor %}
"""
"""Puts a space before an answer that the prompt did not have, and has no opening of its own for an answer."""

PLAIN = (
    "{% for message in messages %}{{ message['role'] | capitalize }}: {{ message['content'] }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant: {% endif %}"
)
"""No control token anywhere."""

FEATURES = """\
{%- set seen = namespace(count=0) %}
{%- macro wrap(role, text) %}<|im_start|>{{ role }}
{{ text }}<|im_end|>{% endmacro %}
{% for message in messages %}
    {%- set seen.count = seen.count + 1 %}
    {%- if seen.count > 50 %}{% break %}{% endif %}
{{ wrap(message.role, message.content | trim) }}
{% generation %}{{ {'n': seen.count, 'role': message.role, 'é': '<'} | tojson }}{% endgeneration %}
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}
{{- '' if tools is none and documents is none else 'never' }}"""
"""Whatever jinja can that templates use: macros, namespaces, loop controls, generation blocks, JSON."""

TEMPLATES = {
    "chatml": CHATML,
    "default system": DEFAULT_SYSTEM,
    "instruct": INSTRUCT,
    "plain": PLAIN,
    "features": FEATURES,
}
