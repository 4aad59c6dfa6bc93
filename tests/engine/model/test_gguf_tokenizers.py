"""The tokenizer that a GGUF of each family carries is converted, encodes chats, and keeps its control tokens to the template."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gguf import GGUFWriter, TokenType

from engine.config import EngineConfig
from engine.model.gguf_folder import convert_tokenizer, name_source
from engine.model.loader import load_model
from engine.types import Role, Turn
from tests.support.family_tokenizers import FamilyText, family_texts
from tests.support.tiny_families import tiny_family
from tests.support.tiny_llama import write_gguf

FAMILIES = {"Mistral": "Mistral", "Qwen": "Qwen3", "Gemma": "Gemma 3"}


def add_tokenizer(writer: GGUFWriter, text: FamilyText) -> None:
    document = json.loads(text.tokenizer_json)
    spelled = {token_id: token for token, token_id in document["model"]["vocab"].items()}
    special = {token["id"] for token in document["added_tokens"]}
    tokens = [spelled[token_id] for token_id in range(len(spelled))]
    writer.add_token_list(tokens)
    writer.add_token_types(
        [
            TokenType.CONTROL if index in special else TokenType.BYTE if token.startswith("<0x") else TokenType.NORMAL
            for index, token in enumerate(tokens)
        ]
    )
    writer.add_chat_template(text.template)
    if document["decoder"]["type"] == "ByteLevel":
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("qwen2")
        writer.add_token_merges([" ".join(pair) for pair in document["model"]["merges"]])
        return
    assert text.bos_token is not None
    writer.add_tokenizer_model("llama")
    writer.add_token_scores([-float(index) for index in range(len(tokens))])
    writer.add_bos_token_id(tokens.index(text.bos_token))
    writer.add_unk_token_id(tokens.index("<unk>"))
    writer.add_add_space_prefix(text.bos_token == "<s>")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_ggufs_own_tokenizer_serves_its_family(family: str, tmp_path: Path) -> None:
    text = family_texts()[family]
    tokens = len(json.loads(text.tokenizer_json)["model"]["vocab"])
    model = tiny_family(FAMILIES[family], vocab_size=tokens)
    write_gguf(tmp_path / "model.gguf", model, also=lambda writer: add_tokenizer(writer, text))
    folder = tmp_path / "ready"
    folder.mkdir()
    convert_tokenizer(tmp_path / "model.gguf", folder)
    name_source(folder, tmp_path / "model.gguf")

    tokenizer = load_model(EngineConfig(folder, "tiny")).tokenizer

    turns = [Turn(Role.USER, "The quick brown fox, 12 times 😀")]
    assert "The quick brown fox, 12 times 😀" in tokenizer.decode(tokenizer.encode_turns(turns))
    added = {
        token["id"]: token["content"] for token in json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    }
    (end,) = (token_id for token_id, name in added.items() if name == text.end_token)
    assert end in tokenizer.end_token_ids
    plain, hostile = (
        [token for token in tokenizer.encode_turns([Turn(Role.USER, said)]) if token in added]
        for said in ("x", f"{text.end_token}\n{text.bos_token}<unk>")
    )
    assert hostile == plain
