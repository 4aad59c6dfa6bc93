"""Turns sampled ids into text one token at a time, so that the pieces put together are the decoding of all ids.

Made by the tokenizer, one for each answer, and used in the engine's thread. It never raises, whatever ids come, never gives
half a character, and its work per token does not grow with the answer: no id is ever decoded twice.

Two families of vocabularies exist. In the byte family a token is a string of bytes, and text is their UTF-8. In the piece
family (SentencePiece) a token is text, except for 256 byte tokens: a run of them is decoded as a whole, and is as many U+FFFD
as it has bytes when it is not UTF-8.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from engine.errors import ModelError


class VocabularyFamily(Enum):
    """How tokens are written in the vocabulary."""

    BYTES = "bytes"
    PIECES = "pieces"


@dataclass(frozen=True, slots=True)
class DecodingRules:
    """What a `tokenizer.json` says of decoding. `replacements` and `leading_strip` (how many of which character are taken off
    the beginning of the text) are of the piece family, as is `byte_fallback`."""

    family: VocabularyFamily
    replacements: tuple[tuple[str, str], ...] = ()
    byte_fallback: bool = False
    leading_strip: tuple[str, int] = ("", 0)


def decoding_rules(decoder: Mapping[str, Any] | None, where: str) -> DecodingRules:
    """Read the `decoder` of a `tokenizer.json`. Raises ModelError for one that is not of the two families."""
    steps = [decoder or {}]
    if steps[0].get("type") == "Sequence":
        steps = list(steps[0]["decoders"])
    kinds = [str(step.get("type")) for step in steps]
    if kinds == ["ByteLevel"]:
        return DecodingRules(VocabularyFamily.BYTES)
    replacements: list[tuple[str, str]] = []
    leading_strip = ("", 0)
    for kind, step in zip(kinds, steps, strict=True):
        match step:
            case {"type": "Replace", "pattern": {"String": str(pattern)}, "content": str(content)}:
                replacements.append((pattern, content))
            case {"type": "Strip", "content": str(content), "start": int(start), "stop": 0}:
                leading_strip = (content, start)
            case {"type": "ByteFallback" | "Fuse"}:
                pass
            case _:
                raise ModelError(f"{where} decodes with {kind!r} in {kinds}, which is not supported")
    # The order decides what the text is; this is the one order these steps are used in.
    if kinds != sorted(kinds, key=["Replace", "ByteFallback", "Fuse", "Strip"].index) or "Fuse" not in kinds:
        raise ModelError(f"{where} decodes in the steps {kinds}, an order that is not supported")
    return DecodingRules(VocabularyFamily.PIECES, tuple(replacements), "ByteFallback" in kinds, leading_strip)


class TokenTexts:
    """What each id says; shared by all detokenizers of a model, and never changed.

    `tokens` are the vocabulary's own spellings by id, None where an id has no token. `silent` ids say nothing.
    """

    def __init__(self, tokens: Sequence[str | None], silent: frozenset[int], rules: DecodingRules) -> None:
        self.rules = rules
        self._tokens = tokens
        self._silent = silent

    def spelling(self, token_id: int) -> str | None:
        """None for an id that says nothing: a control token, or one that does not exist."""
        if token_id in self._silent or not 0 <= token_id < len(self._tokens):
            return None
        return self._tokens[token_id]

    def bytes_of(self, token_id: int) -> bytes:
        """What the id puts into the text, as if it stood in the middle of it; empty where it says nothing."""
        spelling = self.spelling(token_id)
        return b"" if spelling is None else self._bytes_of_spelling(spelling)

    def name_of(self, token_id: int) -> bytes:
        """The same, but a token that says nothing is called by its spelling."""
        return self.bytes_of(token_id) or (self._tokens[token_id] or "").encode()

    def _bytes_of_spelling(self, spelling: str) -> bytes:
        if self.rules.family is VocabularyFamily.BYTES:
            return bytes_of_spelling(spelling)
        for pattern, content in self.rules.replacements:
            spelling = spelling.replace(pattern, content)
        byte = _byte_token(spelling) if self.rules.byte_fallback else None
        return spelling.encode() if byte is None else bytes([byte])

    def speaking(self, token_ids: frozenset[int]) -> TokenTexts:
        """The same vocabulary, in which these ids say how they are spelled."""
        return TokenTexts(self._tokens, self._silent - token_ids, self.rules)

    def text(self, token_ids: Sequence[int]) -> str:
        """The text of all of them."""
        detokenizer = self.detokenizer()
        return "".join(map(detokenizer.push, token_ids)) + detokenizer.flush()

    def detokenizer(self) -> Detokenizer:
        """A fresh one, for one answer."""
        return ByteDetokenizer(self) if self.rules.family is VocabularyFamily.BYTES else PieceDetokenizer(self)


class Detokenizer:
    """The text of one answer as it grows. One thread; not to be used after `flush`."""

    def push(self, token_id: int) -> str:
        """The text that is certain with this token and was not before; empty while a character is unfinished."""
        raise NotImplementedError

    def flush(self) -> str:
        """What was held back, at the end of the answer: an unfinished character becomes U+FFFD."""
        raise NotImplementedError


class ByteDetokenizer(Detokenizer):
    """For vocabularies of bytes."""

    def __init__(self, texts: TokenTexts) -> None:
        self._texts = texts
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        spelling = self._texts.spelling(token_id)
        return "" if spelling is None else self._utf8.decode(bytes_of_spelling(spelling))

    def flush(self) -> str:
        return self._utf8.decode(b"", final=True)


class PieceDetokenizer(Detokenizer):
    """For vocabularies of pieces, with runs of byte tokens."""

    def __init__(self, texts: TokenTexts) -> None:
        self._texts = texts
        self._rules = texts.rules
        self._run = bytearray()
        self._to_strip = self._rules.leading_strip[1]

    def push(self, token_id: int) -> str:
        spelling = self._texts.spelling(token_id)
        if spelling is None:
            return ""
        for pattern, content in self._rules.replacements:
            spelling = spelling.replace(pattern, content)
        if self._rules.byte_fallback and (byte := _byte_token(spelling)) is not None:
            self._run.append(byte)
            return ""
        return self._stripped(self._end_of_run() + spelling)

    def flush(self) -> str:
        return self._stripped(self._end_of_run())

    def _end_of_run(self) -> str:
        run, self._run = bytes(self._run), bytearray()
        try:
            return run.decode()
        except UnicodeDecodeError:
            return "\ufffd" * len(run)

    def _stripped(self, text: str) -> str:
        character = self._rules.leading_strip[0]
        while self._to_strip and text:
            if text[0] != character:
                self._to_strip = 0
                break
            text = text[1:]
            self._to_strip -= 1
        return text


def _byte_token(spelling: str) -> int | None:
    if len(spelling) == 6 and spelling.startswith("<0x") and spelling.endswith(">"):
        try:
            return int(spelling[3:5], 16)
        except ValueError:
            return None
    return None


def bytes_of_spelling(spelling: str) -> bytes:
    """The bytes of a token in the byte family, which writes each byte as one printable character."""
    try:
        return bytes([_BYTE_OF_CHARACTER[character] for character in spelling])
    except KeyError:
        return spelling.encode()


def character_of_byte(byte: int) -> str:
    """How the byte family writes a byte: printable Latin-1 as itself, the others, in order, from U+0100 on."""
    return _CHARACTER_OF_BYTE[byte]


_PRINTABLE = frozenset((*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)))
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
_CHARACTER_OF_BYTE = {byte: chr(byte) for byte in _PRINTABLE} | {
    byte: chr(0x100 + place) for place, byte in enumerate(_OTHERS)
}
_BYTE_OF_CHARACTER = {character: byte for byte, character in _CHARACTER_OF_BYTE.items()}
