"""Text to ids, for text that nobody vouches for: no control token can come out of it.

The tokenizer library finds control tokens wherever their spelling stands, also in what a user typed, and a user who types
`<|im_end|>` would end their turn (huggingface/transformers#47822). So the vocabulary that encodes here has no control tokens
at all, neither as added tokens nor as tokens that merges could build. Control tokens are put in by who writes the template.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

from tokenizers import Tokenizer

from engine.detokenizer import DecodingRules, VocabularyFamily, character_of_byte
from engine.errors import ModelError

REPLACEMENT = "\ufffd"

LONG_TEXT_CHARS = 4096
"""From here on the library is asked for a batch of one, which costs a hand-over to its own threads and lets all of ours run:
its call for a single text holds Python's lock to the end, 200 ms for 100,000 characters."""


class TextStart(Enum):
    """What stands before a text: nothing, a control token, or other text that was encoded apart."""

    BEGINNING = "beginning"
    AFTER_CONTROL = "after control"
    CONTINUED = "continued"


class TextEncoder:
    """Made of a parsed `tokenizer.json`. Any thread may encode. Raises ModelError for a vocabulary it cannot use."""

    def __init__(self, document: Mapping[str, Any], rules: DecodingRules, where: str) -> None:
        model = document.get("model") or {}
        if model.get("type") != "BPE":
            raise ModelError(f"{where} is a tokenizer of the type {model.get('type')!r}, and supported is BPE")
        if model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
            raise ModelError(f"{where} marks the inside or the end of words, which is not supported")
        self.control_ids: Mapping[str, int] = {token["content"]: token["id"] for token in document["added_tokens"]}
        plain = _without_control_tokens(document, frozenset(self.control_ids))
        if rules.family is VocabularyFamily.PIECES and not _has_all_bytes(model):
            raise ModelError(f"{where} has no tokens for single bytes, so it cannot encode every text")
        bytewise = rules.family is VocabularyFamily.BYTES
        self._inexpressible = _inexpressible(model["vocab"] if bytewise else None)
        continued = _without_prefix_space(plain)
        self._at_beginning = _tokenizer(plain, where)
        self._continued = self._at_beginning if continued == plain else _tokenizer(continued, where)
        spaced_after_control = not _prefixes_only_the_beginning(plain)
        self._after_control = self._at_beginning if spaced_after_control else self._continued

    def encode(self, text: str, start: TextStart) -> list[int]:
        """Characters that the vocabulary has no bytes for become U+FFFD."""
        if not text:
            return []
        match start:
            case TextStart.BEGINNING:
                tokenizer = self._at_beginning
            case TextStart.AFTER_CONTROL:
                tokenizer = self._after_control
            case TextStart.CONTINUED:
                tokenizer = self._continued
        text = self._inexpressible.sub(REPLACEMENT, text)
        if len(text) < LONG_TEXT_CHARS:
            encoding = tokenizer.encode(text, add_special_tokens=False)
        else:
            (encoding,) = tokenizer.encode_batch_fast([text], add_special_tokens=False)
        ids: list[int] = encoding.ids
        return ids


def _tokenizer(document: Mapping[str, Any], where: str) -> Tokenizer:
    try:
        return Tokenizer.from_str(json.dumps(document))
    except Exception as problem:  # the library raises no narrower type
        raise ModelError(f"{where} is not a tokenizer that can be used: {problem}") from None


def _without_control_tokens(document: Mapping[str, Any], controls: frozenset[str]) -> dict[str, Any]:
    model = dict(document["model"])
    model["vocab"] = {token: token_id for token, token_id in model["vocab"].items() if token not in controls}
    pairs = [tuple(merge.split(" ", 1)) if isinstance(merge, str) else tuple(merge) for merge in model["merges"]]
    model["merges"] = [pair for pair in pairs if controls.isdisjoint((*pair, "".join(pair)))]
    # Often the token for the unknown is one that also ends texts.
    model["unk_token"] = None
    return {
        **document,
        "model": model,
        "added_tokens": [],
        "post_processor": None,
        "padding": None,
        "truncation": None,
    }


def _without_prefix_space(document: dict[str, Any]) -> dict[str, Any]:
    """The same, but no space is put before a text."""
    changed = copy.copy(document)
    changed["normalizer"] = _changed(document.get("normalizer"), "normalizers")
    changed["pre_tokenizer"] = _changed(document.get("pre_tokenizer"), "pretokenizers")
    return changed


def _changed(step: Mapping[str, Any] | None, children: str) -> dict[str, Any] | None:
    if step is None or step.get("type") == "Prepend":
        return None
    if step.get("type") == "Sequence":
        kept = [changed for child in step[children] if (changed := _changed(child, children)) is not None]
        return {**step, children: kept}
    if step.get("type") == "Metaspace":
        return {**step, "prepend_scheme": "never"}
    if step.get("type") == "ByteLevel" and step.get("add_prefix_space"):
        return {**step, "add_prefix_space": False}
    return dict(step)


def _prefixes_only_the_beginning(document: Mapping[str, Any]) -> bool:
    step = document.get("pre_tokenizer") or {}
    steps = step.get("pretokenizers", [step])
    return any(step.get("type") == "Metaspace" and step.get("prepend_scheme") == "first" for step in steps)


def _has_all_bytes(model: Mapping[str, Any]) -> bool:
    return bool(model.get("byte_fallback")) and all(f"<0x{byte:02X}>" in model["vocab"] for byte in range(256))


def _inexpressible(vocabulary: Mapping[str, int] | None) -> re.Pattern[str]:
    """Matches the characters whose bytes are not all in a vocabulary of bytes, and lone surrogates, which have no bytes.

    A vocabulary may lack bytes: the bundled model's has none for six control characters and for planes nobody uses.
    """
    ranges = [(0xD800, 0xDFFF)]
    if vocabulary is not None:
        leading = (*range(0x80), *range(0xC2, 0xF5))
        missing = [byte for byte in leading if character_of_byte(byte) not in vocabulary]
        ranges.extend(map(_characters_beginning_with, missing))
    return re.compile("[" + "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ranges) + "]")


def _characters_beginning_with(byte: int) -> tuple[int, int]:
    """First and last code point whose UTF-8 begins with this byte."""
    if byte < 0x80:
        return byte, byte
    if byte < 0xE0:
        first = (byte & 0x1F) << 6
        return first, first + 0x3F
    if byte < 0xF0:
        first = (byte & 0x0F) << 12
        return first, first + 0xFFF
    first = (byte & 0x07) << 18
    return first, min(first + 0x3FFFF, 0x10FFFF)
