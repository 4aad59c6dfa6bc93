"""Salts keep namespaces apart, say nothing of them, and are forgotten for good."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

from engine.remote.salts import GENERATIONS_FILE, Salts
from engine.types import Namespace, SessionKey

ANN, BOB = Namespace.user("ann"), Namespace.user("bob")
PART = Namespace.user("ann", "customer 7")


def test_no_two_namespaces_have_the_same_salt_however_they_are_spelt() -> None:
    """vllm-project/vllm#44701: one kind of name could pose as another."""
    salts = Salts(b"secret", None)
    namespaces = [
        ANN,
        BOB,
        PART,
        Namespace.public(),
        Namespace.user(""),
        Namespace.user("a", "nn"),
        Namespace.user("an", "n"),
    ]
    found = [salts.salt(namespace) for namespace in namespaces]
    assert all(one != other for one, other in combinations(found, 2))
    assert not any("ann" in salt or "customer" in salt for salt in found)
    assert all(len(salt) == 43 for salt in found)


def test_the_same_secret_gives_the_same_salts_on_every_server(tmp_path: Path) -> None:
    one, other = (Salts.opened("shared", tmp_path / name) for name in ("a", "b"))
    assert one.salt(ANN) == other.salt(ANN) != Salts.opened("another", None).salt(ANN)


def test_without_a_namespace_nothing_is_found_again() -> None:
    salts = Salts(b"secret", None)
    assert salts.salt(None) != salts.salt(None)


def test_a_session_has_a_name_of_its_own_that_is_not_its_own() -> None:
    salts = Salts(b"secret", None)
    keys = [SessionKey(ANN, "c1"), SessionKey(ANN, "c2"), SessionKey(BOB, "c1")]
    assert len({salts.session(key) for key in keys} | {salts.salt(ANN)}) == 4


def test_what_was_forgotten_stays_so_over_a_restart(tmp_path: Path) -> None:
    salts = Salts.opened("", tmp_path)
    before = {namespace: salts.salt(namespace) for namespace in (ANN, BOB, PART)}
    salts.forget(PART)
    assert salts.salt(ANN) == before[ANN]
    part = salts.salt(PART)
    assert part != before[PART]
    salts.forget(ANN)
    again = Salts.opened("", tmp_path)
    for which in (salts, again):
        assert which.salt(ANN) != before[ANN]
        assert which.salt(PART) not in (before[PART], part)
        assert which.salt(BOB) == before[BOB]
    assert again.salt(PART) == salts.salt(PART)
    assert b"ann" not in (tmp_path / GENERATIONS_FILE).read_bytes()


def test_a_damaged_file_is_as_good_as_none(tmp_path: Path) -> None:
    salts = Salts.opened("", tmp_path)
    for content in ("{", "[]", '{"x": "y"}'):
        (tmp_path / GENERATIONS_FILE).write_text(content)
        assert Salts.opened("", tmp_path).salt(ANN) == salts.salt(ANN)
