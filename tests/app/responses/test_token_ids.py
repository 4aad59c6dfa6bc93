"""Stored ids come back exactly, and only to the model that made them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.responses.token_ids import packed_token_ids, unpacked_token_ids

ids = st.lists(st.integers(0, 2**32 - 1), max_size=50)


@given(ids, st.text())
def test_ids_come_back_as_they_were(tokens: list[int], fingerprint: str) -> None:
    assert unpacked_token_ids(packed_token_ids(tokens, fingerprint), fingerprint) == tuple(tokens)


@given(ids)
def test_another_model_does_not_get_them(tokens: list[int]) -> None:
    assert unpacked_token_ids(packed_token_ids(tokens, "one"), "another") is None


def test_unknown_ids_stay_unknown() -> None:
    assert unpacked_token_ids(None, "one") is None
