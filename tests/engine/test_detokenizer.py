"""Pieces of text add up to the decoding of all ids, for both families of vocabularies, whatever ids come."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders

from engine.detokenizer import TokenTexts, bytes_of_spelling, character_of_byte, decoding_rules
from engine.errors import ModelError
from tests.support.tiny_llama import byte_tokenizer_json, piece_tokenizer_json

FAMILIES = {"bytes": byte_tokenizer_json(), "pieces": piece_tokenizer_json()}
LIBRARY = {name: Tokenizer.from_str(document) for name, document in FAMILIES.items()}


def texts_of(document: str) -> TokenTexts:
    parsed = json.loads(document)
    spellings = {token_id: token for token, token_id in parsed["model"]["vocab"].items()}
    spellings.update({token["id"]: token["content"] for token in parsed["added_tokens"]})
    special = frozenset(token["id"] for token in parsed["added_tokens"] if token["special"])
    tokens = [spellings.get(token_id) for token_id in range(max(spellings) + 1)]
    return TokenTexts(tokens, special, decoding_rules(parsed["decoder"], "tokenizer.json"))


TEXTS = {name: texts_of(document) for name, document in FAMILIES.items()}
families = st.sampled_from(sorted(FAMILIES))
id_lists = st.lists(st.integers(0, 620), max_size=40)
"""Ids of either vocabulary, some beyond its end."""


def streamed(family: str, ids: list[int]) -> list[str]:
    detokenizer = TEXTS[family].detokenizer()
    return [*map(detokenizer.push, ids), detokenizer.flush()]


@given(family=families, ids=id_lists)
@settings(max_examples=400, deadline=None)
def test_joined_deltas_are_the_librarys_decoding_of_all_ids(family: str, ids: list[int]) -> None:
    # vllm-project/vllm#17448: odd sequences of ids made the incremental decoder fail, and the request with it.
    assert "".join(streamed(family, ids)) == LIBRARY[family].decode(ids, skip_special_tokens=True)


@given(family=families, text=st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_ordinary_text_streams_without_a_replacement_character(family: str, text: str) -> None:
    # exo-explore/exo#1691: emoji and CJK arrived as replacement marks.
    ids = LIBRARY[family].encode(text, add_special_tokens=False).ids
    deltas = streamed(family, ids)
    assert "".join(deltas) == LIBRARY[family].decode(ids)
    if "\ufffd" not in text:
        assert not any("\ufffd" in delta for delta in deltas)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("text", ["  two spaces", "\ttab", "\n\nlines", " a", "a  b", "😀", "日本", " ", "", "é\u0301"])
def test_spaces_and_wide_characters_survive_token_by_token(family: str, text: str) -> None:
    # ml-explore/mlx-lm#1754, Lightning-AI/litgpt#1822: leading spaces were dropped per token or trimmed twice.
    ids = LIBRARY[family].encode(text, add_special_tokens=False).ids
    assert "".join(streamed(family, ids)) == text


@pytest.mark.parametrize("family", FAMILIES)
def test_a_special_token_says_nothing_and_adds_no_space(family: str) -> None:
    # huggingface/transformers#28776: a space appeared after special tokens.
    ids = LIBRARY[family].encode("hello world", add_special_tokens=False).ids
    with_special = [part for token in ids for part in (1, token, 2)]
    assert "".join(streamed(family, with_special)) == "hello world"


def test_an_unfinished_character_comes_once_at_the_end() -> None:
    emoji = "😀".encode()
    vocabulary = json.loads(FAMILIES["bytes"])["model"]["vocab"]
    ids = [vocabulary[character_of_byte(byte)] for byte in emoji]
    assert streamed("bytes", ids) == ["", "", "", "😀", ""]
    assert streamed("bytes", ids[:3]) == ["", "", "", "\ufffd"]


def test_a_run_of_byte_tokens_is_decoded_as_a_whole() -> None:
    vocabulary = json.loads(FAMILIES["pieces"])["model"]["vocab"]
    euro = [vocabulary[f"<0x{byte:02X}>"] for byte in "€".encode()]
    letter = vocabulary["a"]
    assert streamed("pieces", [*euro, letter]) == ["", "", "", "€a", ""]
    assert "".join(streamed("pieces", [*euro[:2], letter, *euro])) == "\ufffd\ufffda€"


@given(ids=st.lists(st.integers(-(2**40), 2**40), max_size=30))
def test_ids_that_do_not_exist_say_nothing(ids: list[int]) -> None:
    known = [token for token in ids if 0 <= token < 600]
    assert "".join(streamed("bytes", ids)) == "".join(streamed("bytes", known))


@pytest.mark.parametrize("family", FAMILIES)
def test_no_id_is_looked_at_twice(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Text that never becomes a character is the worst case of decoders that decode again from the last good place.
    looked_at: list[int] = []
    spelling = TokenTexts.spelling
    monkeypatch.setattr(
        TokenTexts, "spelling", lambda texts, token_id: looked_at.append(token_id) or spelling(texts, token_id)
    )
    vocabulary = json.loads(FAMILIES[family])["model"]["vocab"]
    broken = vocabulary[character_of_byte(0xF0)] if family == "bytes" else vocabulary["<0xF0>"]
    streamed(family, [broken] * 5000)
    assert len(looked_at) == 5000


@given(spelled=st.binary(max_size=20))
def test_bytes_survive_their_spelling(spelled: bytes) -> None:
    assert bytes_of_spelling("".join(map(character_of_byte, spelled))) == spelled


def test_the_spelling_of_bytes_is_the_librarys() -> None:
    decoder = decoders.ByteLevel()
    for byte in range(128):
        assert decoder.decode([character_of_byte(byte)]) == chr(byte)


@pytest.mark.parametrize(
    "decoder",
    [
        None,
        {"type": "WordPiece", "prefix": "##", "cleanup": True},
        {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "ByteFallback"}]},
        {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 1}]},
        {
            "type": "Sequence",
            "decoders": [{"type": "Replace", "pattern": {"Regex": "x"}, "content": ""}, {"type": "Fuse"}],
        },
        {"type": "ByteFallback"},
    ],
)
def test_another_kind_of_decoder_is_refused(decoder: dict[str, object] | None) -> None:
    with pytest.raises(ModelError, match=r"tokenizer\.json decodes"):
        decoding_rules(decoder, "tokenizer.json")
