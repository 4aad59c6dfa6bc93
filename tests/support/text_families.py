"""Every kind of tokenizer with every chat template of the tests: what has to hold for text holds for each of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.tokenizer import ChatTokenizer
from tests.support.chat_templates import TEMPLATES
from tests.support.family_tokenizers import FamilyText, family_texts
from tests.support.tiny_llama import byte_tokenizer_json, piece_tokenizer_json, write_tokenizer


def _texts() -> dict[str, FamilyText]:
    bytewise = byte_tokenizer_json(), "<|im_start|>", "<|im_end|>"
    pieces = piece_tokenizer_json(), "<s>", "</s>"
    pieces_first = piece_tokenizer_json("first"), "<s>", "</s>"
    return {
        f"{kind}, {name}": FamilyText(document, template, bos, eos, eos)
        for kind, (document, bos, eos) in {"bytes": bytewise, "pieces": pieces, "pieces first": pieces_first}.items()
        for name, template in TEMPLATES.items()
    } | family_texts()


TEXT_FAMILIES = tuple(_texts())


@cache
def tokenizer_of(family: str) -> ChatTokenizer:
    """The tokenizer of a folder of this family; the same one every time."""
    text = _texts()[family]
    names = {"eos_token": text.eos_token, **({"bos_token": text.bos_token} if text.bos_token else {})}
    with TemporaryDirectory() as folder:
        write_tokenizer(Path(folder), text.tokenizer_json, text.template, **names)
        return ChatTokenizer.from_folder(Path(folder))
