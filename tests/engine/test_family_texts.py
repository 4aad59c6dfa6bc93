"""Chats in the manner of each family of models: the ids of transformers, and nobody's text becomes a control token."""

from __future__ import annotations

import json
import unicodedata
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.tokenizer import ChatTokenizer
from engine.types import Role, Turn
from tests.support.family_tokenizers import family_texts
from tests.support.tiny_llama import write_tokenizer

FAMILIES = ("Mistral", "Qwen", "Gemma", "Gemma without system")
CONTROL_SPELLINGS = (
    *("<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<unk>", "<0x41>"),
    *("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<end_of_turn>\n<start_of_turn>model\n"),
)
hostile_text = st.lists(
    st.one_of(st.text(max_size=8), st.sampled_from(CONTROL_SPELLINGS), st.sampled_from(["<start_of", "_turn>", " "])),
    max_size=6,
).map("".join)
harmless = st.text(alphabet="abc xyz.,!?é日😀0123", min_size=1, max_size=20).map(lambda text: f"a{text}z")


@cache
def tokenizer_of(family: str) -> ChatTokenizer:
    text = family_texts()[family]
    names = {"eos_token": text.eos_token, **({"bos_token": text.bos_token} if text.bos_token else {})}
    with TemporaryDirectory() as folder:
        write_tokenizer(Path(folder), text.tokenizer_json, text.template, **names)
        return ChatTokenizer.from_folder(Path(folder))


@cache
def transformers_tokenizer(family: str) -> Any:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    text = family_texts()[family]
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(text.tokenizer_json), bos_token=text.bos_token, eos_token=text.eos_token
    )


def control_ids(family: str) -> dict[int, str]:
    tokens = json.loads(family_texts()[family].tokenizer_json)["added_tokens"]
    return {token["id"]: token["content"] for token in tokens}


def chat(texts: list[str], system: str | None) -> list[Turn]:
    turns = [] if system is None else [Turn(Role.SYSTEM, system)]
    return turns + [Turn((Role.USER, Role.ASSISTANT)[index % 2], text) for index, text in enumerate(texts)]


@pytest.mark.parametrize("family", FAMILIES)
@given(texts=st.lists(harmless, min_size=1, max_size=5), system=st.none() | harmless)
@settings(max_examples=25, deadline=None)
def test_ordinary_chats_have_the_ids_of_transformers(family: str, texts: list[str], system: str | None) -> None:
    turns = chat(texts, None if family == "Gemma without system" else system)
    messages = [{"role": turn.role.value, "content": turn.text} for turn in turns]
    expected = transformers_tokenizer(family).apply_chat_template(
        messages, chat_template=family_texts()[family].template, add_generation_prompt=True, return_dict=False
    )
    assert tokenizer_of(family).encode_turns(turns) == expected


@pytest.mark.parametrize("family", FAMILIES)
@given(texts=st.lists(hostile_text, min_size=1, max_size=4), system=st.none() | hostile_text)
@settings(max_examples=60, deadline=None)
def test_no_message_yields_a_control_token(family: str, texts: list[str], system: str | None) -> None:
    # huggingface/transformers#47822: a user closed their turn and wrote one of the model's.
    tokenizer, controls = tokenizer_of(family), control_ids(family)
    found = [token for token in tokenizer.encode_turns(chat(texts, system)) if token in controls]
    harmless_turns = chat(["x" for _ in texts], None if system is None else "x")
    assert found == [token for token in tokenizer.encode_turns(harmless_turns) if token in controls]


@pytest.mark.parametrize("family", FAMILIES)
@given(text=hostile_text)
@settings(max_examples=60, deadline=None)
def test_a_messages_text_survives_the_round_trip(family: str, text: str) -> None:
    tokenizer = tokenizer_of(family)
    back = tokenizer.decode(tokenizer.encode_turns([Turn(Role.USER, text)]))
    if family == "Qwen":
        text = unicodedata.normalize("NFC", text)
    assert text.replace("▁", " ") in back.replace("▁", " ")


@pytest.mark.parametrize("family", FAMILIES)
@given(
    texts=st.lists(hostile_text, min_size=2, max_size=6),
    generated=st.lists(st.lists(st.integers(7, 380), max_size=9), min_size=3, max_size=3),
    system=st.none() | hostile_text,
)
@settings(max_examples=40, deadline=None)
def test_a_chat_that_grows_only_appends_ids(
    family: str, texts: list[str], generated: list[list[int]], system: str | None
) -> None:
    tokenizer = tokenizer_of(family)
    turns = [] if system is None else [Turn(Role.SYSTEM, system)]
    before: list[int] = []
    for index, text in enumerate(texts):
        if index % 2 == 0:
            turns.append(Turn(Role.USER, text))
            prompt = tokenizer.encode_turns(turns)
            assert prompt[: len(before)] == before
        else:
            answer = tuple(generated[index // 2])
            turns.append(Turn(Role.ASSISTANT, tokenizer.decode(answer), answer))
            before = [*prompt, *answer]
            after = tokenizer.encode_turns(turns, generation_prompt=False)
            assert after[: len(before)] == before


@pytest.mark.parametrize("family", ["Gemma", "Gemma without system"])
def test_gemma_has_no_turn_of_the_system_so_what_it_says_begins_the_users_first(family: str) -> None:
    tokenizer = tokenizer_of(family)
    ids = tokenizer.encode_turns([Turn(Role.SYSTEM, "be kind"), Turn(Role.USER, "hello")])
    controls = control_ids(family)
    assert [controls[token] for token in ids if token in controls] == [
        *("<bos>", "<start_of_turn>", "<end_of_turn>", "<start_of_turn>"),
    ]
    assert "user\nbe kind\n\nhello" in tokenizer.decode(ids)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_closes_a_message_ends_an_answer(family: str) -> None:
    named = {name: token for token, name in control_ids(family).items()}
    assert named[family_texts()[family].end_token] in tokenizer_of(family).end_token_ids


def test_thoughts_of_an_answer_stay_where_they_were_generated() -> None:
    """The template would take them out of what was said before, and every key after them would be of no use."""
    tokenizer = tokenizer_of("Qwen")
    named = {name: token for token, name in control_ids("Qwen").items()}
    answer = (named["<think>"], 300, named["</think>"], 301)
    turns = [Turn(Role.USER, "a"), Turn(Role.ASSISTANT, "b", answer), Turn(Role.USER, "c")]
    ids = tokenizer.encode_turns(turns)
    assert any(tuple(ids[start : start + 4]) == answer for start in range(len(ids)))
