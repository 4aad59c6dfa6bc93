from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.packed_tokens import pack_tokens
from engine.page_keys import PageKey, PageKeys
from engine.types import Namespace, NamespaceKind

# Texts that try to pass for something else: parts of keys, separators, nothing.
names = st.text(alphabet="ab\x00:|", max_size=4)
namespaces = st.builds(Namespace, st.sampled_from(NamespaceKind), names, names)
tokens = st.lists(st.integers(0, 3), min_size=1, max_size=4)
identities = st.tuples(st.binary(max_size=3), names, namespaces, st.lists(tokens, max_size=3), tokens)


def key_of(secret: bytes, model: str, namespace: Namespace, before: list[list[int]], last: list[int]) -> PageKey:
    keys = PageKeys(secret, model)
    parent = keys.root
    for page in before:
        parent = keys.following(parent, namespace, pack_tokens(page))
    return keys.following(parent, namespace, pack_tokens(last))


@given(identities, identities)
def test_pages_have_one_key_exactly_when_everything_about_them_is_the_same(
    one: tuple[bytes, str, Namespace, list[list[int]], list[int]],
    other: tuple[bytes, str, Namespace, list[list[int]], list[int]],
) -> None:
    """Parts of one kind never pass for another, however they are spelled (vllm-project/vllm#44701, sgl-project/sglang#24638)."""
    assert (key_of(*one) == key_of(*other)) == (one == other)


def test_a_users_page_differs_from_a_public_one_and_from_one_of_a_part_of_the_user() -> None:
    keys = PageKeys(b"secret", "model")
    spaces = [
        Namespace.public(),
        Namespace(NamespaceKind.PUBLIC, "anna"),
        Namespace.user("anna"),
        Namespace.user("", "anna"),
        Namespace.user("anna", "anna"),
    ]
    assert len({keys.following(keys.root, space, pack_tokens([1, 2])) for space in spaces}) == len(spaces)


def test_a_key_cannot_be_made_without_the_servers_secret() -> None:
    assert PageKeys(b"one", "model").root != PageKeys(b"other", "model").root
