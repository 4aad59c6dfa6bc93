"""Cursors."""

from __future__ import annotations

import base64
import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversations.schemas import ConversationCursor, MessageCursor
from app.errors import InvalidInput
from app.pagination import decode_cursor, encode_cursor


@given(st.integers(0, 253_402_300_799_999_999), st.text(max_size=36))
def test_a_cursor_comes_back_as_it_went(updated_us: int, item_id: str) -> None:
    try:
        item_id.encode()
    except UnicodeEncodeError:
        return
    cursor = ConversationCursor(updated_us, item_id)
    text = encode_cursor(cursor)
    assert text.replace("-", "").replace("_", "").isalnum()
    assert decode_cursor(text, ConversationCursor) == cursor


@given(st.text() | st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_nothing_else_is_more_than_refused(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        assert isinstance(decode_cursor(text, MessageCursor), MessageCursor)


@pytest.mark.parametrize(
    "inside",
    [
        {"updated_us": -1, "id": "x"},
        {"updated_us": 253_402_300_800_000_000, "id": "x"},
        {"updated_us": 1.5, "id": "x"},
        {"updated_us": "1", "id": "x"},
        {"updated_us": 1, "id": "x" * 37},
        {"updated_us": 1},
        {"updated_us": 1, "id": "x", "more": 1},
        {"message_id": "x"},
        [],
        None,
    ],
)
def test_a_cursor_with_other_things_inside_is_refused(inside: object) -> None:
    text = base64.urlsafe_b64encode(msgspec.json.encode(inside)).decode()
    with pytest.raises(InvalidInput) as caught:
        decode_cursor(text, ConversationCursor)
    assert caught.value.code == "invalid_cursor"
