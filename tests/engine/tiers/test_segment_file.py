"""The format of a file: it comes back as it was, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.packed_tokens import pack_tokens
from engine.page_keys import PageKey
from engine.tiers.segment_file import (
    PREAMBLE_BYTES,
    SegmentDamaged,
    SegmentForeign,
    SegmentHeader,
    SegmentPage,
    decode_header,
    decode_preamble,
    encode_header,
    namespace_folder,
    session_folder,
)
from engine.types import Namespace, NamespaceKind, SessionKey
from tests.support.tiers import FORMAT

texts = st.text(st.characters(exclude_categories=()), max_size=12)
namespaces = st.builds(Namespace, st.sampled_from(NamespaceKind), texts, texts)
sessions = st.builds(SessionKey, namespaces, texts)
keys = st.binary(min_size=32, max_size=32).map(PageKey)
ids = st.integers(0, 2**32 - 1)
pages = st.builds(SegmentPage, keys, keys, ids, st.lists(ids, min_size=1, max_size=16).map(pack_tokens), ids)
headers = st.builds(SegmentHeader, texts, keys, sessions, st.just(FORMAT), st.lists(pages, max_size=4).map(tuple))

HEADER = SegmentHeader(
    "fingerprint",
    PageKey(b"r" * 32),
    SessionKey(Namespace.user("anna", "customer"), "talk"),
    FORMAT,
    (SegmentPage(PageKey(b"k" * 32), PageKey(b"p" * 32), 7, pack_tokens((1, 2, 3)), 99),),
)


def decode(content: bytes) -> SegmentHeader:
    preamble = decode_preamble(content[:PREAMBLE_BYTES])
    return decode_header(preamble, content[PREAMBLE_BYTES : preamble.records_offset])


@given(headers)
@settings(max_examples=200, deadline=None)
def test_a_header_comes_back_as_it_was(header: SegmentHeader) -> None:
    content = encode_header(header)
    assert decode(content) == header
    assert decode_preamble(content[:PREAMBLE_BYTES]).records_offset == len(content)


def test_every_damaged_byte_is_noticed() -> None:
    content = encode_header(HEADER)
    for place in range(len(content)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(content)
            damaged[place] ^= flip
            with pytest.raises(SegmentDamaged):
                decode(bytes(damaged))


def test_every_cut_is_noticed() -> None:
    content = encode_header(HEADER)
    for length in range(len(content)):
        with pytest.raises(SegmentDamaged):
            decode(content[:length])


def test_a_whole_file_of_another_version_is_foreign_and_not_damaged() -> None:
    with pytest.raises(SegmentForeign, match="version 2"):
        decode(encode_header(HEADER, version=2))


def test_every_tensor_of_a_page_is_named() -> None:
    """sgl-project/sglang#27504: one of two buffers was stored, and passed for all."""
    assert FORMAT.tensors == ("keys.0", "keys.1", "keys.2", "values.0", "values.1", "values.2")
    assert FORMAT.record_bytes == 6 * 16 * 2 * 4 * 4


@given(sessions, sessions)
def test_two_sessions_never_share_a_folder(first: SessionKey, second: SessionKey) -> None:
    assert (session_folder(first) == session_folder(second)) == (first == second)
    assert session_folder(first).parent == namespace_folder(first.namespace)


def test_a_users_folder_holds_all_parts_and_names_nobody() -> None:
    whole, part = Namespace.user("anna"), Namespace.user("anna", "customer")
    assert namespace_folder(whole) == namespace_folder(part)
    assert session_folder(SessionKey(whole, "talk")) != session_folder(SessionKey(part, "talk"))
    assert session_folder(SessionKey(Namespace.user("a", "bc"), "d")) != session_folder(
        SessionKey(Namespace.user("a", "b"), "cd")
    )
    assert "anna" not in str(session_folder(SessionKey(whole, "../../etc")))
    assert len(session_folder(SessionKey(whole, "../../etc")).parts) == 2
