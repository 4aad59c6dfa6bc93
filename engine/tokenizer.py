"""Chats to ids and ids to text, with the vocabulary and the template of a model folder.

Made by the loader and shared by all threads. Three promises:
* What a person wrote never yields a control token; only the template does.
* Ids the engine made for an answer are used as they are, and stand exactly where they were generated: after the ids the
  prompt had then. So a chat that grows only appends ids, and its KV stays valid. Ids that are not of this vocabulary are
  another model's, and the text is used instead.
* Every stretch of text between two control tokens is encoded as a whole, so an ordinary chat has the ids that the
  template's text has in `transformers`. A message's end is always the end of a stretch: what follows cannot change its ids.

    template    <|im_start|> user⏎ (placeholder) <|im_end|> ⏎ <|im_start|> assistant⏎ (placeholder) <|im_end|> ⏎
    stretches   control      [user⏎ + message]   control    [⏎] control    [assistant⏎] stored ids  control    [⏎]
"""

from __future__ import annotations

import re
import string
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import index
from pathlib import Path
from typing import Any, Final

from engine.chat_layouts import ChatLayout, ChatLayouts
from engine.chat_template import ChatTemplate
from engine.common_length import common_length
from engine.detokenizer import Detokenizer, TokenTexts, decoding_rules
from engine.encoded_chats import EncodedChat, Message
from engine.errors import ModelError, TemplateRefused, ToolsNotSupported
from engine.model.json_file import read_json_object, read_json_object_if_there
from engine.role_order import role_orders
from engine.structure import Tools
from engine.text_encoder import TextEncoder, TextStart
from engine.tool_chat import ToolChat, has_tools
from engine.tool_dialect import dialect_of
from engine.types import Role, Turn

TOKENIZER_FILE: Final = "tokenizer.json"
TOKENIZER_CONFIG_FILE: Final = "tokenizer_config.json"
TEMPLATE_FILE: Final = "chat_template.jinja"

END_TOKENS: Final = frozenset(
    ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|end|>", "<end_of_turn>", "</s>")
)
"""Control tokens that end an answer or a text wherever they exist, whether or not a configuration names them."""

MOST_TOKENS: Final = 10_000_000
"""No vocabulary has a tenth of this; a larger id is damage, and a table up to it would not fit into memory."""

FIRST_MESSAGES: Final = (
    *("", *string.printable, *"éдשعकก日、の한😀", *"\u0301\u094d\u1161\u00a0\u200d\u2581\ufffd"),
    *("\n\n", "\n\n\n\n", "\r\n", "  ", "    ", "...", "--", "==", "//"),
    *("42", "the", "Hello", " hello", "\nHello", "\n\nHello"),
)
"""What a first message may begin with. Single characters above all: the shorter a text is, the sooner what stands before it
takes it into one of its own tokens, and the place where that can happen is what has to be found."""

_TEMPLATE_TOKENS: Final = (
    *("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"),
)


class ChatTokenizer:
    """Owns the vocabulary and the template; keeps nothing of the chats, only where the template puts their messages."""

    def __init__(
        self, document: Mapping[str, Any], template: ChatTemplate, end_token_ids: Iterable[int], where: str
    ) -> None:
        self._layouts = ChatLayouts(template)
        rules = decoding_rules(document.get("decoder"), where)
        self._encoder = TextEncoder(document, rules, where)
        controls = self._encoder.control_ids
        self.end_token_ids = frozenset(end_token_ids) | {controls[name] for name in END_TOKENS & controls.keys()}
        spellings = {token_id: token for token, token_id in document["model"]["vocab"].items()}
        spellings.update({token["id"]: token["content"] for token in document["added_tokens"]})
        self.vocabulary_size = max(spellings) + 1
        if self.vocabulary_size > MOST_TOKENS:
            raise ModelError(
                f"{where} has a token of the id {self.vocabulary_size - 1}, and the largest id is {MOST_TOKENS}"
            )
        special = {token["id"] for token in document["added_tokens"] if token["special"]}
        tokens = [spellings.get(token_id) for token_id in range(self.vocabulary_size)]
        self._texts = TokenTexts(tokens, self.end_token_ids | special, rules)
        self._controls = _ControlTokens(document["added_tokens"])
        spoken = [token for token in document["added_tokens"] if self._texts.bytes_of(token["id"])]
        self._spoken_controls = _ControlTokens(spoken)
        self._openings: dict[tuple[Role | None, str], str] = {}
        self.tool_dialect = dialect_of(
            lambda messages, tools: template.render(messages, tools=tools, add_generation_prompt=True)
        )
        """How the model writes calls of tools; None where its template has none."""
        marks = (self.tool_dialect.opening, self.tool_dialect.closing) if self.tool_dialect is not None else ()
        self.tool_mark_ids: Mapping[str, int] = {
            mark: controls[mark] for mark in marks if controls.get(mark) in special
        }
        self._tool_texts = self._texts.speaking(frozenset(self.tool_mark_ids.values()))

    @classmethod
    def from_folder(cls, folder: Path, end_token_ids: Iterable[int] = (), *, system_prompt: str = "") -> ChatTokenizer:
        """Read `tokenizer.json`, `tokenizer_config.json` and the chat template of a model folder.

        `end_token_ids` are those the model's own configuration names; `system_prompt` is what chats without one begin with.
        Raises ModelError.
        """
        path = folder / TOKENIZER_FILE
        document = read_json_object(path)
        if not isinstance(document.get("added_tokens"), list) or not isinstance(document.get("model"), dict):
            raise ModelError(f"{path} is not a tokenizer: it has no model or no list of added tokens")
        config = read_json_object_if_there(folder / "special_tokens_map.json")
        config |= read_json_object_if_there(folder / TOKENIZER_CONFIG_FILE)
        special_tokens = {name: spelled for name in _TEMPLATE_TOKENS if (spelled := _spelling(config.get(name)))}
        template = ChatTemplate(_template_source(folder, config), special_tokens, system_prompt=system_prompt)
        try:
            eos = special_tokens.get("eos_token")
            ids = {token["id"] for token in document["added_tokens"] if token["content"] == eos}
            return cls(document, template, ids.union(end_token_ids), str(path))
        except (KeyError, TypeError, AttributeError, ValueError) as problem:
            # The file is read here and there, and any of its thousand fields may be missing or of another type.
            raise ModelError(f"{path} is damaged: {type(problem).__name__}: {problem}") from None

    def encode_turns(self, turns: Sequence[Turn], *, generation_prompt: bool = True) -> list[int]:
        """Ids of the turns, and of the opening of an answer after them unless that is switched off. Raises TemplateRefused.

        Where the template refuses the order of the roles, it gets the orders of `engine.role_order`.
        """
        return self.encode_chat(turns, generation_prompt=generation_prompt).ids.tolist()

    def encode_chat(
        self,
        turns: Sequence[Turn],
        before: EncodedChat | None = None,
        *,
        generation_prompt: bool = True,
        tools: Tools | None = None,
    ) -> EncodedChat:
        """The same ids, with what is needed to go on from them. Raises TemplateRefused.

        `before` is any chat this tokenizer encoded; the messages both begin with are taken from it. It is not changed.
        """
        turns, layout = self._accepted(turns, generation_prompt, tools)
        turns = [*turns, *(Turn(Role.USER, literal) for literal in layout.literals)]
        common = before.num_common_messages(turns, layout, self._has_ids) if before is not None else 0
        ends: array[int] = before.ends[:common] if before is not None else array("I")
        assembly = _Assembly(self._encoder, self._controls)
        if before is not None and common:
            assembly.go_on_after_message(before.ids[: ends[-1]])
        for position in range(common, len(layout.order)):
            text, index = layout.texts[position], layout.order[position]
            turn = turns[index]
            if turn.token_ids is not None and self._has_ids(turn):
                assembly.add_template(self._opening(turns, index, text, tools))
                assembly.add_ids(turn.token_ids)
            else:
                assembly.add_template(text)
                assembly.add_message(turn.text)
            ends.append(assembly.num_ids)
        assembly.add_template(layout.texts[-1])
        messages = [Message.of(turn, has_ids=self._has_ids(turn)) for turn in turns]
        return EncodedChat(messages, layout, assembly.finish(), ends)

    def turn_tokens(self, turn: Turn) -> int:
        """Tokens of what a turn says, without the template's; one more or less than it has inside a chat."""
        if turn.token_ids is not None and self._has_ids(turn):
            return len(turn.token_ids)
        calls = [text for call in turn.tool_calls for text in (call.name, call.arguments)]
        return sum(len(self._encoder.encode(text, TextStart.CONTINUED)) for text in (turn.text, *calls))

    def prefix_ids(self, turns: Sequence[Turn]) -> list[int]:
        """The ids with which every conversation begins that begins with these turns, whatever its user says first.

        `turns` are a persona's, or none for what the template begins with by itself. Where the template has no place for a
        system prompt, the ids end within the user's message, before the first one that the user's words could change.
        Raises TemplateRefused.
        """
        chat: EncodedChat | None = None
        common: list[int] | None = None
        for text in FIRST_MESSAGES:
            chat = self.encode_chat([*turns, Turn(Role.USER, text)], chat)
            ids = chat.ids.tolist()
            common = ids if common is None else common[: common_length(common, ids)]
        return common or []

    def between_ids(self) -> list[int]:
        """The ids between an answer and the words of the user who speaks next, where these begin as they mostly do: what begins
        otherwise may take the last of them into a token of its own. None where the template takes no such conversation."""
        said = [Turn(Role.USER, "?"), Turn(Role.ASSISTANT, "", token_ids=())]
        chat: EncodedChat | None = None
        common: list[int] | None = None
        for text in ("a", "The", "é", "か", "7"):
            try:
                chat = self.encode_chat([*said, Turn(Role.USER, text)], chat)
            except TemplateRefused:
                return []
            ids = chat.ids[chat.ends[chat.layout.order.index(1)] :].tolist()
            common = ids if common is None else common[: common_length(common, ids)]
        return common or []

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids; control tokens and ids that do not exist say nothing."""
        return self._texts.text(ids)

    def encode_answer(self, text: str) -> list[int]:
        """The ids with which the model would say this in the middle of an answer."""
        assembly = _Assembly(self._encoder, self._spoken_controls)
        assembly.go_on_after_message(array("I"))
        assembly.add_template(text)
        return assembly.finish().tolist()

    def bytes_of(self, token_id: int) -> bytes:
        """What a token puts into the text; empty for one that says nothing."""
        return self._texts.bytes_of(token_id)

    def name_of(self, token_id: int) -> bytes:
        """What a token is called, also one that says nothing."""
        return self._texts.name_of(token_id)

    def detokenizer(self) -> Detokenizer:
        """A fresh one, for one answer."""
        return self._texts.detokenizer()

    def tool_decode(self, ids: Sequence[int]) -> str:
        """The text of these ids in which the marks of calls are to be seen."""
        return self._tool_texts.text(ids)

    def tool_detokenizer(self) -> Detokenizer:
        """A fresh one, for one answer that may call tools."""
        return self._tool_texts.detokenizer()

    def _has_ids(self, turn: Turn) -> bool:
        """Whether the turn has ids that are of this vocabulary."""
        ids = turn.token_ids
        return ids is not None and (not ids or (min(ids) >= 0 and max(ids) < self.vocabulary_size))

    def _accepted(
        self, turns: Sequence[Turn], generation_prompt: bool, tools: Tools | None
    ) -> tuple[Sequence[Turn], ChatLayout]:
        """The turns in the first order the template takes, and their layout. Raises what it said to the turns as they are."""
        refusal: TemplateRefused | None = None
        for ordered in role_orders(turns):
            try:
                return ordered, self._layout(ordered, generation_prompt, tools)
            except TemplateRefused as refused:
                refusal = refusal or refused
        assert refusal is not None, "the turns as they are come first"
        raise refusal

    def _layout(self, turns: Sequence[Turn], generation_prompt: bool, tools: Tools | None) -> ChatLayout:
        if not has_tools(turns, tools):
            return self._layouts.layout([turn.role for turn in turns], generation_prompt=generation_prompt)
        if self.tool_dialect is None:
            raise ToolsNotSupported
        chat = ToolChat(turns, tools, self.tool_dialect, self._controls.spellings)
        return self._layouts.layout_with_tools(chat, generation_prompt=generation_prompt)

    def _opening(self, turns: Sequence[Turn], index: int, text: str, tools: Tools | None) -> str:
        """The template's text before an answer as it was when the answer was generated.

        For many templates that is `text`, what stands before the answer now; some put a space there that the prompt did not
        have. It is rendered once for each such text and the role before it, not for each answer of each chat; where tools are,
        the text is what people said, and nothing of it is kept.
        """
        if has_tools(turns, tools):
            return self._layout(turns[:index], True, tools).texts[-1]
        key = (turns[index - 1].role if index else None, text)
        if key not in self._openings:
            layout = self._layouts.layout([turn.role for turn in turns[:index]], generation_prompt=True)
            self._openings[key] = layout.texts[-1]
        return self._openings[key]


class _Assembly:
    """Puts the ids of one chat together, stretch by stretch."""

    def __init__(self, encoder: TextEncoder, controls: _ControlTokens) -> None:
        self._encoder = encoder
        self._controls = controls
        self._ids: array[int] = array("I")
        self._stretch = ""
        self._start = TextStart.BEGINNING

    @property
    def num_ids(self) -> int:
        """After a message these are all: its end is the end of a stretch."""
        return len(self._ids)

    def go_on_after_message(self, ids: array[int]) -> None:
        """Instead of a beginning: these were put together before, up to the end of a message."""
        self._ids = ids
        self._start = TextStart.CONTINUED

    def add_template(self, text: str) -> None:
        at = 0
        for start, end, control_id in self._controls.find(text):
            self._stretch += text[at:start]
            self._end_stretch(TextStart.AFTER_CONTROL)
            self._ids.append(control_id)
            at = end
        self._stretch += text[at:]

    def add_message(self, text: str) -> None:
        self._stretch += text
        self._end_stretch(TextStart.CONTINUED)

    def add_ids(self, ids: Sequence[int]) -> None:
        self._end_stretch(TextStart.CONTINUED)
        self._ids.extend(ids)

    def finish(self) -> array[int]:
        self._end_stretch(TextStart.CONTINUED)
        return self._ids

    def _end_stretch(self, next_start: TextStart) -> None:
        self._ids.extend(self._encoder.encode(self._stretch, self._start))
        self._stretch = ""
        self._start = next_start


class _ControlTokens:
    """Finds control tokens in a template's text, the longest first, with the spaces around them that some of them swallow."""

    def __init__(self, added_tokens: Sequence[Mapping[str, Any]]) -> None:
        longest_first = sorted(added_tokens, key=lambda token: len(token["content"]), reverse=True)
        spellings = "|".join(re.escape(token["content"]) for token in longest_first)
        self.spellings = re.compile(spellings) if spellings else None
        """Matches what is spelled like one of them, and nothing around it."""
        self._ids = [index(token["id"]) for token in longest_first]
        alternatives = [
            "("
            + ("\\s*" if token["lstrip"] else "")
            + re.escape(token["content"])
            + ("\\s*)" if token["rstrip"] else ")")
            for token in longest_first
        ]
        self._pattern = re.compile("|".join(alternatives)) if alternatives else None

    def find(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Start, end and id of each."""
        for match in self._pattern.finditer(text) if self._pattern else ():
            yield match.start(), match.end(), self._ids[(match.lastindex or 0) - 1]


def _spelling(value: object) -> str | None:
    """A token of a configuration, which spells it out or wraps it in an object."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) and value else None


def _template_source(folder: Path, config: Mapping[str, Any]) -> str:
    if (folder / TEMPLATE_FILE).is_file():
        try:
            return (folder / TEMPLATE_FILE).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise ModelError(f"{folder / TEMPLATE_FILE} cannot be read: {problem}") from None
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, Mapping)}
        template = named.get("default")
    if not isinstance(template, str) or not template:
        raise ModelError(
            f"{folder} has no chat template, neither in {TOKENIZER_CONFIG_FILE} nor as {TEMPLATE_FILE}, so it cannot chat"
        )
    return template
