"""Turns become the ids transformers would give them; nobody's text becomes a control token; a growing chat only appends."""

from __future__ import annotations

import json
import threading
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ModelError, TemplateRefused
from engine.model.loader import LoadedModel
from engine.tokenizer import ChatTokenizer
from engine.types import Role, Turn
from tests.support.chat_templates import TEMPLATES
from tests.support.tiny_llama import CHATML, byte_tokenizer_json, piece_tokenizer_json, write_tokenizer

DOCUMENTS = {
    "bytes": byte_tokenizer_json(),
    "pieces": piece_tokenizer_json(),
    "pieces, space first": piece_tokenizer_json("first"),
}
SPECIAL = {
    "bytes": {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"},
    "pieces": {"bos_token": "<s>", "eos_token": "</s>"},
    "pieces, space first": {"bos_token": "<s>", "eos_token": "</s>"},
}
CONTROL_SPELLINGS = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "<s>", "</s>", "<unk>", "<0x41>")
CASES = [(document, template) for document in DOCUMENTS for template in TEMPLATES]

# Text with the spellings of control tokens in it, whole and cut, as somebody would try.
hostile_text = st.lists(
    st.one_of(st.text(max_size=8), st.sampled_from(CONTROL_SPELLINGS), st.sampled_from(["<|im_", "end|>", "<", "\n"])),
    max_size=6,
).map("".join)


@cache
def tokenizer_of(document: str, template: str) -> ChatTokenizer:
    with TemporaryDirectory() as folder:
        write_tokenizer(Path(folder), DOCUMENTS[document], TEMPLATES[template], **SPECIAL[document])
        return ChatTokenizer.from_folder(Path(folder))


@cache
def transformers_tokenizer(document: str) -> Any:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(DOCUMENTS[document]), **SPECIAL[document])


def control_ids(document: str) -> set[int]:
    return {token["id"] for token in json.loads(DOCUMENTS[document])["added_tokens"]}


def chat(*texts: str, system: str | None = None) -> list[Turn]:
    """User and assistant in turn, after a system message where one is given."""
    turns = [] if system is None else [Turn(Role.SYSTEM, system)]
    return turns + [Turn((Role.USER, Role.ASSISTANT)[index % 2], text) for index, text in enumerate(texts)]


harmless = st.text(alphabet="abc xyz\n.,!?é日😀0123", min_size=1, max_size=20).map(lambda text: f"a{text}z")
"""Beginning and ending with a letter, because what stands at a message's border may be cut differently."""


@pytest.mark.parametrize(("document", "template"), CASES)
@given(texts=st.lists(harmless, min_size=1, max_size=5), system=st.none() | harmless)
@settings(max_examples=25, deadline=None)
def test_ordinary_chats_have_the_ids_of_transformers(
    document: str, template: str, texts: list[str], system: str | None
) -> None:
    turns = chat(*texts, system=system)
    messages = [{"role": turn.role.value, "content": turn.text} for turn in turns]
    expected = transformers_tokenizer(document).apply_chat_template(
        messages, chat_template=TEMPLATES[template], add_generation_prompt=True, return_dict=False
    )
    assert tokenizer_of(document, template).encode_turns(turns) == expected


@pytest.mark.parametrize(("document", "template"), CASES)
@given(texts=st.lists(hostile_text, min_size=1, max_size=4), system=st.none() | hostile_text)
@settings(max_examples=40, deadline=None)
def test_no_message_yields_a_control_token(document: str, template: str, texts: list[str], system: str | None) -> None:
    # huggingface/transformers#47822, vllm-project/vllm#31735: a user closed their turn and wrote a system message.
    tokenizer = tokenizer_of(document, template)
    controls = control_ids(document)
    hostile = tokenizer.encode_turns(chat(*texts, system=system))
    harmless_turns = chat(*("x" for _ in texts), system=None if system is None else "x")
    assert [token for token in hostile if token in controls] == [
        token for token in tokenizer.encode_turns(harmless_turns) if token in controls
    ]


@pytest.mark.parametrize("document", DOCUMENTS)
@given(text=hostile_text)
@settings(max_examples=150, deadline=None)
def test_a_messages_text_survives_the_round_trip(document: str, text: str) -> None:
    tokenizer = tokenizer_of(document, "chatml")
    with_text = tokenizer.encode_turns([Turn(Role.USER, text)], generation_prompt=False)
    # The piece family writes a space as this character, so it cannot tell the two apart.
    assert text.replace("▁", " ") in tokenizer.decode(with_text).replace("▁", " ")


@pytest.mark.parametrize(("document", "template"), CASES)
@given(
    texts=st.lists(hostile_text, min_size=2, max_size=7),
    generated=st.lists(st.lists(st.integers(3, 380), max_size=12), min_size=4, max_size=4),
    system=st.none() | hostile_text,
)
@settings(max_examples=40, deadline=None)
def test_a_chat_that_grows_only_appends_ids(
    document: str, template: str, texts: list[str], generated: list[list[int]], system: str | None
) -> None:
    # ggml-org/llama.cpp#26398, mlc-ai/mlc-llm#3179: history that was encoded again had other ids.
    tokenizer = tokenizer_of(document, template)
    turns = [] if system is None else [Turn(Role.SYSTEM, system)]
    before: list[int] = []
    for index, text in enumerate(texts):
        if index % 2 == 0:
            turns.append(Turn(Role.USER, text))
            prompt = tokenizer.encode_turns(turns)
        else:
            answer = tuple(generated[index // 2])
            prompt = [*prompt, *answer]
            turns.append(Turn(Role.ASSISTANT, tokenizer.decode(answer), answer))
            after = tokenizer.encode_turns(turns, generation_prompt=False)
            assert after[: len(prompt)] == prompt, "the answer is not where it was generated"
        ids = tokenizer.encode_turns(turns, generation_prompt=False)
        assert len(ids) > len(before)
        # Without a control token at a message's end, the last newline may be one token with what follows it.
        assert ids[: len(before)] == before or template == "plain"
        before = ids


@pytest.mark.parametrize(("document", "template"), CASES)
@given(roles=st.lists(st.sampled_from(list(Role)), max_size=7))
@settings(max_examples=40, deadline=None)
def test_any_order_of_roles_is_encoded_or_refused_with_a_reason(
    document: str, template: str, roles: list[Role]
) -> None:
    # vllm-project/vllm#6862: an unusual order of roles gave a 500 and the chat could not go on.
    tokenizer = tokenizer_of(document, template)
    try:
        tokenizer.encode_turns([Turn(role, "x", (5, 6) if role is Role.ASSISTANT else None) for role in roles])
    except TemplateRefused as refused:
        assert str(refused)  # noqa: PT017  # both outcomes are right, and this one needs words
    assert tokenizer.encode_turns([Turn(Role.USER, "and the next valid turn works")])


STRICT = (
    "{% for m in messages %}{% if m.role != ('user', 'assistant')[loop.index0 % 2] %}"
    "{{ raise_exception('only user and assistant in turn') }}{% endif %}"
    "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' }}{% endfor %}"
)
"""As Gemma's and the first of Mistral's: no system role, and nobody speaks twice."""


def tokenizer_with(template: str) -> ChatTokenizer:
    with TemporaryDirectory() as name:
        write_tokenizer(Path(name), template=template)
        return ChatTokenizer.from_folder(Path(name))


@pytest.mark.parametrize(
    ("turns", "accepted"),
    [
        ([("user", "a"), ("user", "b")], [("user", "a\n\nb")]),
        (
            [("user", "a"), ("assistant", "x"), ("user", "b"), ("user", "c"), ("user", "d")],
            [("user", "a"), ("assistant", "x"), ("user", "b\n\nc\n\nd")],
        ),
        ([("user", "a"), ("assistant", "x"), ("assistant", "y")], [("user", "a"), ("assistant", "x\n\ny")]),
        ([("system", "s"), ("user", "a")], [("user", "s\n\na")]),
        ([("assistant", "x"), ("user", "a")], [("user", ""), ("assistant", "x"), ("user", "a")]),
        ([("system", "s"), ("assistant", "x"), ("user", "a")], [("user", "s\n\n"), ("assistant", "x"), ("user", "a")]),
        ([("system", "s"), ("system", "t"), ("user", "a"), ("user", "b")], [("user", "s\n\nt\n\na\n\nb")]),
        (
            [("user", "a"), ("assistant", "x"), ("system", "s"), ("user", "b")],
            [("user", "a"), ("assistant", "x"), ("user", "s\n\nb")],
        ),
    ],
)
def test_a_chat_goes_on_where_a_strict_template_refuses_its_order_of_roles(
    turns: list[tuple[str, str]], accepted: list[tuple[str, str]]
) -> None:
    """mistralai/mistral-vibe#1006: after an answer that was stopped before its first word, every turn was refused."""
    tokenizer = tokenizer_with(STRICT)
    asked, taken = ([Turn(Role(role), text) for role, text in chat] for chat in (turns, accepted))
    assert tokenizer.encode_turns(asked) == tokenizer.encode_turns(taken)


def test_an_order_that_the_template_takes_is_not_changed() -> None:
    tokenizer = tokenizer_of("bytes", "chatml")
    apart = tokenizer.encode_turns([Turn(Role.USER, "a"), Turn(Role.USER, "b")])
    assert apart != tokenizer.encode_turns([Turn(Role.USER, "a\n\nb")])


@pytest.mark.parametrize("roles", [["system"], ["user", "assistant", "system"]])
def test_an_order_that_no_rule_helps_is_refused_in_the_templates_words(roles: list[str]) -> None:
    with pytest.raises(TemplateRefused, match=rf"\[{', '.join(roles)}\]: only user and assistant in turn"):
        tokenizer_with(STRICT).encode_turns([Turn(Role(role), "x") for role in roles])


def test_a_template_that_leaves_a_message_out_is_refused() -> None:
    tokenizer = tokenizer_with("{% for m in messages if m.role != 'user' %}{{ m.content }}{% endfor %}")
    with pytest.raises(TemplateRefused, match=r"leaves out message 2 \(user\)"):
        tokenizer.encode_turns([Turn(Role.SYSTEM, "be kind"), Turn(Role.USER, "hi")])


@pytest.mark.parametrize("stored", [(5, 404), (-1,), (2**32 - 1,)])
def test_stored_ids_that_this_vocabulary_does_not_have_give_way_to_the_text(stored: tuple[int, ...]) -> None:
    """They are another model's. Computed, they would end the step and every answer in it."""
    tokenizer = tokenizer_of("bytes", "chatml")
    assert tokenizer.vocabulary_size <= 404
    with_ids = tokenizer.encode_turns([Turn(Role.USER, "q"), Turn(Role.ASSISTANT, "yes", stored)])
    assert with_ids == tokenizer.encode_turns([Turn(Role.USER, "q"), Turn(Role.ASSISTANT, "yes")])


def test_a_long_text_is_encoded_like_a_short_one_and_lets_other_threads_run() -> None:
    """The event loop is one of them: it stood still for as long as a long message was encoded."""
    tokenizer = tokenizer_of("bytes", "chatml")
    piece = "日本語のテキスト and more words " * 10
    long = tokenizer.encode_turns([Turn(Role.USER, piece * 2000)])
    assert piece * 2000 in tokenizer.decode(long)

    def longest_standstill() -> float:
        gaps: list[float] = []
        done = threading.Event()

        def tick() -> None:
            before = time.perf_counter()
            while not done.wait(0.001):
                now = time.perf_counter()
                gaps.append(now - before)
                before = now

        ticking = threading.Thread(target=tick)
        ticking.start()
        began = time.perf_counter()
        tokenizer.encode_turns([Turn(Role.USER, piece * 2000)])
        took = time.perf_counter() - began
        done.set()
        ticking.join()
        return max(gaps, default=took) / took

    # As a part of the whole, and the best of a few, because other processes use this machine too.
    assert min(longest_standstill() for _ in range(5)) < 0.5


def test_stored_ids_are_used_as_they_are() -> None:
    tokenizer = tokenizer_of("bytes", "chatml")
    stored = (2, 399, 1, 77)
    ids = tokenizer.encode_turns([Turn(Role.USER, "q"), Turn(Role.ASSISTANT, "other text", stored)])
    assert any(tuple(ids[start : start + 4]) == stored for start in range(len(ids)))


def test_a_lone_surrogate_and_an_inexpressible_byte_become_replacement_characters() -> None:
    document = json.loads(byte_tokenizer_json())
    spelled = "\u0104"  # how the byte family writes byte 4
    del document["model"]["vocab"][spelled]
    with TemporaryDirectory() as name:
        write_tokenizer(Path(name), json.dumps(document), CHATML, eos_token="<|im_end|>")
        tokenizer = ChatTokenizer.from_folder(Path(name))
    text = tokenizer.decode(tokenizer.encode_turns([Turn(Role.USER, "a\x04b\ud800c\x05d")]))
    assert "a\ufffdb\ufffdc\x05d" in text


def test_decoding_takes_any_id() -> None:
    tokenizer = tokenizer_of("bytes", "chatml")
    ids = tokenizer.encode_turns([Turn(Role.USER, "hello")])
    assert tokenizer.decode([-1, 10**12, *ids, tokenizer.vocabulary_size]) == tokenizer.decode(ids)


def test_the_end_tokens_are_those_of_all_configurations_and_the_known_names() -> None:
    # sgl-project/sglang#31378: end tokens that only the generation settings list were forgotten.
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_tokenizer(folder, byte_tokenizer_json(), eos_token={"content": "<tool_call>", "special": False})
        tokenizer = ChatTokenizer.from_folder(folder, end_token_ids=[77])
    spelled = {token["content"]: token["id"] for token in json.loads(byte_tokenizer_json())["added_tokens"]}
    assert tokenizer.end_token_ids == {77, spelled["<tool_call>"], spelled["<|im_end|>"], spelled["<|endoftext|>"]}


def test_a_tokenizer_without_any_end_token_has_an_empty_set() -> None:
    document = json.loads(byte_tokenizer_json())
    document["added_tokens"] = []
    with TemporaryDirectory() as name:
        write_tokenizer(Path(name), json.dumps(document), TEMPLATES["plain"], eos_token=None)
        assert ChatTokenizer.from_folder(Path(name)).end_token_ids == frozenset()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("tokenizer.json", None, "has no tokenizer.json"),
        ("tokenizer.json", "{", "is not JSON"),
        ("tokenizer.json", "[]", "holds list where a JSON object was expected"),
        ("tokenizer.json", "{}", "is not a tokenizer"),
        ("tokenizer.json", '{"added_tokens": [1], "model": {}}', "tokenizer.json is damaged: TypeError"),
        (
            "tokenizer.json",
            '{"added_tokens": [], "model": {"type": "BPE"}, "decoder": {"type": "ByteLevel"}}',
            "tokenizer.json is damaged: KeyError: 'vocab'",
        ),
        (
            "tokenizer.json",
            '{"added_tokens": [], "model": {"type": "Unigram"}, "decoder": {"type": "ByteLevel"}}',
            "supported is BPE",
        ),
        ("tokenizer_config.json", None, "has no chat template"),
        ("chat_template.jinja", "\xff", r"chat_template\.jinja cannot be read"),
        ("tokenizer_config.json", '{"chat_template": "{% for %}"}', "cannot be compiled"),
    ],
)
def test_a_folder_that_is_wrong_is_one_clear_sentence(
    tmp_path: Path, name: str, content: str | None, sentence: str
) -> None:
    write_tokenizer(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    if content is not None:
        (tmp_path / name).write_text(content, encoding="latin-1")
    with pytest.raises(ModelError, match=sentence):
        ChatTokenizer.from_folder(tmp_path)


def test_a_template_is_found_in_its_own_file_and_in_a_list_of_named_ones(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, template=[{"name": "tools", "template": "t"}, {"name": "default", "template": "default"}])
    plain = ChatTokenizer.from_folder(tmp_path)
    with pytest.raises(TemplateRefused, match="leaves out message 1"):
        plain.encode_turns([Turn(Role.USER, "hi")])
    assert plain.decode(plain.encode_turns([])) == "default"
    (tmp_path / "chat_template.jinja").write_text("from the file")
    tokenizer = ChatTokenizer.from_folder(tmp_path)
    assert tokenizer.decode(tokenizer.encode_turns([])) == "from the file"


@pytest.mark.model
@given(texts=st.lists(hostile_text, min_size=1, max_size=3), system=st.none() | hostile_text)
@settings(max_examples=40, deadline=None)
def test_the_bundled_tokenizer_keeps_control_tokens_to_the_template(
    bundled_model: LoadedModel, texts: list[str], system: str | None
) -> None:
    ids = bundled_model.tokenizer.encode_turns(chat(*texts, system=system))
    messages = len(texts) + 1  # a system message is there in any case
    assert ids.count(1) == messages + 1
    assert ids.count(2) == messages
    assert not set(ids) & {0, *range(3, 17)}


@pytest.mark.model
def test_the_bundled_tokenizer_gives_an_ordinary_chat_the_ids_of_transformers(
    bundled_model: LoadedModel, bundled_folder: Path
) -> None:
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(bundled_folder)
    turns = chat("What is 2 + 2, in words?", "Four.", "\n\nThanks! 日本 😀", system="Be brief.\n")
    messages = [{"role": turn.role.value, "content": turn.text} for turn in turns]
    expected = theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert bundled_model.tokenizer.encode_turns(turns) == expected
    assert bundled_model.tokenizer.end_token_ids == {0, 2}
