"""The bound knows where in the JSON a number is."""

from __future__ import annotations

import pytest

from engine.number_bound import MOST_DIGITS, NumberBound, has_own_exponent, num_leading_digits


@pytest.mark.parametrize(
    ("text", "in_number", "most"),
    [
        ("", False, MOST_DIGITS),
        ("12", True, MOST_DIGITS),
        ("1" * 20, True, 0),
        ("[" + "1" * 20 + ",", False, MOST_DIGITS),
        ('"' + "1" * 30, False, MOST_DIGITS),
        ('"\\"' + "1" * 30, False, MOST_DIGITS),
        ('"\\\\",' + "1" * 30, True, 0),
        ("0." + "1" * 19, True, 0),
        ("1e", True, 2),
        ("1E+5", True, 1),
        ("1e-55", True, 0),
        ("[1e55,2", True, MOST_DIGITS),
        ("[true, false, 3", True, MOST_DIGITS),
    ],
)
def test_it_follows_the_json(text: str, in_number: bool, most: int) -> None:
    for pieces in ([text.encode()], [bytes([byte]) for byte in text.encode()]):
        bound = NumberBound()
        for piece in pieces:
            bound.follow(piece)
        assert (bound.is_in_number, bound.most_digits) == (in_number, most)
        assert bound.copy().most_digits == most


def test_tokens_are_known_by_their_digits() -> None:
    assert [num_leading_digits(token) for token in (b"", b"a1", b"1", b"999,", b" 1")] == [0, 0, 1, 3, 0]
    assert [has_own_exponent(token) for token in (b"e1", b"1e100", b"E+999", b"tree", b"e99")] == [
        False,
        True,
        True,
        False,
        False,
    ]
