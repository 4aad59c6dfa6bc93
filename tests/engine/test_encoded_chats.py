"""A chat whose last encoding is remembered gets the ids of a whole encoding, whatever was done to it in between."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.chat_layouts import ChatLayouts
from engine.chat_template import ChatTemplate
from engine.encoded_chats import EncodedChat, EncodedChats
from engine.errors import TemplateRefused
from engine.tokenizer import ChatTokenizer
from engine.types import Namespace, Role, SessionKey, Turn
from tests.support.text_families import TEXT_FAMILIES, tokenizer_of
from tests.support.tiny_llama import CHATML, write_tokenizer

text = st.lists(
    st.one_of(
        st.text(max_size=6),
        st.sampled_from(["<|im_end|>", "</s>", "<start_of", "_turn>", " ", "\n", "\n\n", "hello world", "é", "\u0301"]),
    ),
    max_size=4,
).map("".join)
# Ids a model made, ids no vocabulary has, and none at all.
ids = st.none() | st.lists(st.integers(3, 380), max_size=8).map(tuple) | st.sampled_from([(-1,), (2**33,), (10**6,)])
turn = st.builds(
    lambda role, said, made: Turn(role, said, made if role is Role.ASSISTANT else None),
    st.sampled_from(list(Role)),
    text,
    ids,
)
# What happens to a chat between two turns: it grows, a message of it is edited, it is cut (a branch), or another one comes.
change = st.one_of(
    st.tuples(st.just("append"), st.lists(turn, min_size=1, max_size=3)),
    st.tuples(st.just("edit"), st.integers(0, 8), turn),
    st.tuples(st.just("branch"), st.integers(0, 8)),
    st.tuples(st.just("replace"), st.lists(turn, max_size=5)),
)


def in_turn(turns: list[Turn]) -> list[Turn]:
    """The same texts, user and assistant in turn, which every template takes."""
    roles = (Role.USER, Role.ASSISTANT)
    return [Turn(roles[index % 2], one.text, one.token_ids if index % 2 else None) for index, one in enumerate(turns)]


def changed(turns: list[Turn], kind: str, *how: object) -> list[Turn]:
    match kind, how:
        case "append", (list(more),):
            return turns + more
        case "edit", (int(at), Turn() as edited) if turns:
            return [*turns[: at % len(turns)], edited, *turns[at % len(turns) + 1 :]]
        case "branch", (int(at),) if turns:
            return turns[: at % len(turns)]
        case "replace", (list(others),):
            return others
    return turns


@pytest.mark.parametrize("family", TEXT_FAMILIES)
@given(changes=st.lists(change, min_size=1, max_size=8), orderly=st.booleans(), opening=st.booleans())
@settings(max_examples=60, deadline=None)
def test_what_is_appended_to_the_last_encoding_equals_a_whole_encoding(
    family: str, changes: list[tuple[object, ...]], orderly: bool, opening: bool
) -> None:
    tokenizer = tokenizer_of(family)
    turns: list[Turn] = []
    before: EncodedChat | None = None
    for kind, *how in changes:
        turns = changed(turns, str(kind), *how)
        chat = in_turn(turns) if orderly else turns
        try:
            whole = tokenizer.encode_turns(chat, generation_prompt=opening)
        except TemplateRefused:
            with pytest.raises(TemplateRefused):
                tokenizer.encode_chat(chat, before, generation_prompt=opening)
            continue
        before = tokenizer.encode_chat(chat, before, generation_prompt=opening)
        assert before.ids.tolist() == whole


@pytest.mark.parametrize("family", TEXT_FAMILIES)
def test_a_turn_encodes_no_message_of_the_turns_before(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """ggml-org/llama.cpp#26398, PrimeIntellect-ai/prime-rl#1863: the history was encoded again, to other ids."""
    tokenizer = tokenizer_of(family)
    encoded: list[str] = []
    encode = tokenizer._encoder.encode
    monkeypatch.setattr(
        tokenizer._encoder, "encode", lambda text, start: (encoded.append(text), encode(text, start))[1]
    )
    rng = random.Random(26398)
    for chat in range(3):
        turns = [Turn(Role.USER, f"the first words of chat {chat}")]
        before = tokenizer.encode_chat(turns)
        for number in range(20):
            answer = tuple(rng.choices(range(3, 380), k=rng.randint(1, 20)))
            turns += [Turn(Role.ASSISTANT, tokenizer.decode(answer), answer), Turn(Role.USER, f"more words {number}")]
            encoded.clear()
            after = tokenizer.encode_chat(turns, before)
            assert not any("first" in text or f"words {number - 1}" in text for text in encoded)
            # What the engine had computed, the prompt and the answer to it, is what the next prompt begins with.
            assert after.ids[: len(before.ids) + len(answer)].tolist() == [*before.ids, *answer]
            before = after


def test_an_edit_encodes_from_the_edited_message_on(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = tokenizer_of("bytes, chatml")
    turns = [Turn((Role.USER, Role.ASSISTANT)[index % 2], f"said {index} so") for index in range(9)]
    before = tokenizer.encode_chat(turns)
    turns[6] = Turn(Role.USER, "edited")
    encoded: list[str] = []
    encode = tokenizer._encoder.encode
    monkeypatch.setattr(
        tokenizer._encoder, "encode", lambda text, start: (encoded.append(text), encode(text, start))[1]
    )
    after = tokenizer.encode_chat(turns, before)
    assert [text for text in encoded if "said" in text or "edited" in text] == [
        "user\nedited",
        "assistant\nsaid 7 so",
        "user\nsaid 8 so",
    ]
    assert after.ids.tolist() == tokenizer.encode_turns(turns)


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages %}{{ '<|im_start|>' if loop.last else 'then ' }}{{ m.content }}{% endfor %}",
        "{{ messages | length }} messages{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}",
        "{% for m in messages[::-1] %}<|im_start|>{{ m.content }}{% endfor %}",
        "{% for m in messages %}{{ m.content }}<|im_start|>{{ m.content }}{% endfor %}",
    ],
    ids=["the last is marked", "counted", "the newest first", "each said twice"],
)
def test_a_template_that_changes_what_stands_before_old_messages_is_followed(template: str, tmp_path: Path) -> None:
    """Then most of the chat is encoded again, as it has to be."""
    write_tokenizer(tmp_path, template=template)
    tokenizer = ChatTokenizer.from_folder(tmp_path)
    turns: list[Turn] = []
    before: EncodedChat | None = None
    for number in range(12):
        turns.append(Turn((Role.USER, Role.ASSISTANT)[number % 2], f"words {number}"))
        before = tokenizer.encode_chat(turns, before)
        assert before.ids.tolist() == tokenizer.encode_turns(turns)
        assert before.ids.tolist() == ChatTokenizer.from_folder(tmp_path).encode_turns(turns)


def test_a_template_that_asks_the_time_is_rendered_each_time(tmp_path: Path) -> None:
    hours = iter(range(24))
    template = ChatTemplate(
        "it is {{ strftime_now('%H') }}{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}",
        {},
        now=lambda: datetime(2026, 12, 1, next(hours), tzinfo=UTC),
    )
    layouts = ChatLayouts(template)
    texts = [layouts.layout([Role.USER], generation_prompt=True).texts[0] for _ in range(3)]
    assert texts == ["it is 00<|im_start|>", "it is 01<|im_start|>", "it is 02<|im_start|>"]


def test_layouts_are_kept_by_their_roles_and_bounded_by_their_messages() -> None:
    rendered: list[int] = []

    class Counted(ChatTemplate):
        def render(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool) -> str:
            rendered.append(len(messages))
            return super().render(messages, add_generation_prompt=add_generation_prompt)

    layouts = ChatLayouts(Counted(CHATML, {}), kept_messages=30)
    some, others = [Role.USER, Role.ASSISTANT] * 5, [Role.SYSTEM, Role.USER] * 5
    first = layouts.layout(some, generation_prompt=True)
    assert layouts.layout(some, generation_prompt=True) is first
    assert layouts.layout(some, generation_prompt=False) != first
    assert layouts.layout(others, generation_prompt=True) != first
    # The third of eleven texts did not fit beside the other two, so the first went.
    assert len(rendered) == 3
    layouts.layout(others, generation_prompt=True)
    assert layouts.layout(some, generation_prompt=True) == first
    layouts.layout([Role.USER] * 40, generation_prompt=True)
    layouts.layout(some, generation_prompt=True)
    assert len(rendered) == 5, "one that is larger than all there is room for drove out another"


# --- what is remembered ----------------------------------------------------------------------------------------------


def key(name: str, user: str = "u", part: str = "") -> SessionKey:
    return SessionKey(Namespace.user(user, part), name)


def chat_of(words: int) -> EncodedChat:
    return tokenizer_of("bytes, chatml").encode_chat([Turn(Role.USER, "word " * words)])


def test_the_last_encoding_of_a_session_takes_the_place_of_the_one_before() -> None:
    chats = EncodedChats()
    for words in (10, 20, 5):
        chats.remember(key("a"), chat_of(words))
    assert chats.last_of(key("a")) == chat_of(5)
    assert chats.last_of(key("b")) is None
    assert (len(chats), chats.num_bytes) == (1, chat_of(5).num_bytes)


def test_memory_is_bounded_and_the_chat_used_longest_ago_leaves_first() -> None:
    size = chat_of(50).num_bytes
    chats = EncodedChats(max_bytes=3 * size)
    for name in ("a", "b", "c"):
        chats.remember(key(name), chat_of(50))
    chats.remember(key("a"), chat_of(50))
    chats.remember(key("d"), chat_of(50))
    assert [name for name in "abcd" if chats.last_of(key(name))] == ["a", "c", "d"]
    chats.remember(key("huge"), chat_of(1000))
    assert chats.last_of(key("huge")) is None, "it would have driven out everything else and still not fit"
    assert chats.num_bytes == 3 * size


def test_what_a_chat_costs_is_not_estimated_too_low() -> None:
    tokenizer = tokenizer_of("bytes, chatml")

    def fresh_turns() -> list[Turn]:
        rng = random.Random(5)
        turns = []
        for index in range(400):
            made = tuple(rng.randint(300, 380) for _ in range(40))
            said = "".join(rng.choices("abcdefgh ", k=60))
            turns.append(Turn(Role.ASSISTANT, said, made) if index % 2 else Turn(Role.USER, said))
        return turns

    tokenizer.encode_chat(fresh_turns())
    tracemalloc.start()
    try:
        chat = tokenizer.encode_chat(fresh_turns())
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used / 2 < chat.num_bytes
    assert used < chat.num_bytes * 1.2


def test_a_session_is_forgotten_and_a_namespace_with_all_its_parts() -> None:
    chats = EncodedChats()
    keys = [key("a"), key("b"), key("a", part="customer"), key("a", user="other")]
    for one in keys:
        chats.remember(one, chat_of(3))
    chats.forget(key("b"))
    chats.forget(key("never heard of"))
    assert [one for one in keys if chats.last_of(one)] == [keys[0], keys[2], keys[3]]
    chats.forget_namespace(Namespace.user("u", "customer"))
    assert [one for one in keys if chats.last_of(one)] == [keys[0], keys[3]]
    chats.remember(keys[2], chat_of(3))
    chats.forget_namespace(Namespace.user("u"))
    assert [one for one in keys if chats.last_of(one)] == [keys[3]]
    chats.forget(keys[3])
    assert (len(chats), chats.num_bytes) == (0, 0)
