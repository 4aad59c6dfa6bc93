"""Where the messages of a chat stand in the template's text: the template rendered with placeholders, and cut at them.

Made and called by `engine.tokenizer`; any thread may ask. It knows roles and never a message. A layout depends on the roles
alone, so it is kept and used again: every conversation begins with the same few, and a turn is encoded twice, once to be
checked and once to be answered. A template that asks for the time is rendered each time.
"""

from __future__ import annotations

import re
import secrets
import sys
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from engine.chat_template import ChatTemplate
from engine.errors import TemplateRefused
from engine.tool_chat import ToolChat
from engine.types import Role

KEPT_MESSAGES: Final = 1 << 16
"""Messages of all the layouts kept, about 100 bytes each at most."""


@dataclass(frozen=True, slots=True)
class ChatLayout:
    """The template's own texts, and which message stands between them: always one text more than messages.

    `literals` are words of people's that stand in the template's texts, in what it says of tools, and are spelled like control
    tokens. They are counted on behind the messages.
    """

    texts: Sequence[str]
    order: Sequence[int]
    literals: Sequence[str] = ()


class ChatLayouts:
    """Owns the layouts that were asked for last. Asked for the same twice, it answers with the same object."""

    def __init__(self, template: ChatTemplate, kept_messages: int = KEPT_MESSAGES) -> None:
        self._template = template
        self._max_messages = kept_messages
        self._nonce = secrets.token_hex(16)
        self._placeholder = re.compile(rf"{self._nonce}-(\d+)-")
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, bool], ChatLayout] = OrderedDict()
        self._num_messages = 0

    def layout(self, roles: Sequence[Role], *, generation_prompt: bool) -> ChatLayout:
        """Raises TemplateRefused where the template refuses these roles or leaves a message out."""
        key = "".join([role.value[0] for role in roles]), generation_prompt
        with self._lock:
            if kept := self._kept.get(key):
                self._kept.move_to_end(key)
                return kept
        layout = self._rendered(roles, generation_prompt)
        if not self._template.asks_the_time:
            self._keep(key, layout)
        return layout

    def layout_with_tools(self, chat: ToolChat, *, generation_prompt: bool) -> ChatLayout:
        """That of a chat with tools, which is never kept: it has what people said in it. Raises TemplateRefused."""
        defused = chat.defused(self._nonce, first_number=len(chat.turns))
        text = self._template.render(defused.messages, tools=defused.tools, add_generation_prompt=generation_prompt)
        pieces = self._placeholder.split(text)
        order = [*map(int, pieces[1::2])]
        if left_out := defused.needed.difference(order):
            raise _left_out(min(left_out), chat.turns[min(left_out)].role)
        return ChatLayout(pieces[::2], order, defused.literals)

    def _rendered(self, roles: Sequence[Role], generation_prompt: bool) -> ChatLayout:
        messages = [{"role": role.value, "content": f"{self._nonce}-{index}-"} for index, role in enumerate(roles)]
        pieces = self._placeholder.split(self._template.render(messages, add_generation_prompt=generation_prompt))
        # A template has a handful of texts, each many times over in a long chat; as one object they are compared at once.
        texts, order = list(map(sys.intern, pieces[::2])), list(map(int, pieces[1::2]))
        if left_out := set(range(len(roles))).difference(order):
            raise _left_out(min(left_out), roles[min(left_out)])
        return ChatLayout(texts, order)

    def _keep(self, key: tuple[str, bool], layout: ChatLayout) -> None:
        size = len(layout.texts)
        with self._lock:
            if key in self._kept or size > self._max_messages:
                return
            self._kept[key] = layout
            self._num_messages += size
            while self._num_messages > self._max_messages:
                _, oldest = self._kept.popitem(last=False)
                self._num_messages -= len(oldest.texts)


def _left_out(index: int, role: Role) -> TemplateRefused:
    return TemplateRefused(f"the model's chat template leaves out message {index + 1} ({role})")
