"""The books of the disk: the quota holds before a byte is written, and who goes first is known."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.tiers.segment_index import Segment, SegmentIndex
from tests.support.tiers import ANNA, BERT


def test_foreign_files_go_first_then_those_used_least_recently() -> None:
    index = SegmentIndex(100)
    index.add("new", Segment(BERT, 20, 1, 9.0))
    index.add("old", Segment(BERT, 20, 1, 1.0))
    index.add("foreign", Segment(BERT, 20, 1, 8.0, is_foreign=True))
    index.add("unknown", Segment(None, 20, 0, 7.0, is_foreign=True))
    assert index.room_for(20, ANNA) == []
    assert index.room_for(21, ANNA) == ["unknown"]
    assert index.room_for(60, ANNA) == ["unknown", "foreign"]
    assert index.room_for(61, ANNA) == ["unknown", "foreign", "old"]
    assert index.room_for(100, ANNA) == ["unknown", "foreign", "old", "new"]


def test_files_of_the_session_that_is_written_stay() -> None:
    index = SegmentIndex(100)
    index.add("own", Segment(ANNA, 60, 1, 1.0))
    index.add("other", Segment(BERT, 40, 1, 2.0))
    assert index.room_for(40, ANNA) == ["other"]
    assert index.room_for(41, ANNA) is None


def test_what_is_larger_than_the_limit_evicts_nobody() -> None:
    index = SegmentIndex(100)
    index.add("other", Segment(BERT, 40, 1, 2.0))
    assert index.room_for(101, ANNA) is None


def test_a_begun_write_has_its_room_and_gives_it_back() -> None:
    index = SegmentIndex(100)
    index.begin("a", 70)
    assert index.room_for(40, BERT) is None
    with pytest.raises(ValueError, match="40 bytes do not fit beside 70 of 100"):
        index.begin("b", 40)
    index.give_up("a")
    index.give_up("a")
    assert index.used_bytes == 0
    index.begin("b", 40)
    index.commit("b", Segment(BERT, 40, 1, 1.0))
    index.give_up("b")
    assert index.used_bytes == 40
    index.remove("b")
    index.remove("b")
    assert index.used_bytes == 0


def test_a_write_into_a_deleted_folder_is_void() -> None:
    index = SegmentIndex(100)
    index.begin("ab/c/1.kv", 10)
    index.begin("ab/cd/2.kv", 10)
    index.void("ab/c")
    assert index.is_void("ab/c/1.kv")
    assert not index.is_void("ab/cd/2.kv")


@settings(max_examples=200, deadline=None)
@given(
    limit=st.integers(0, 60),
    operations=st.lists(st.tuples(st.sampled_from("wwcgrsf"), st.integers(0, 7), st.integers(1, 40)), max_size=40),
)
def test_the_quota_holds_after_every_operation(limit: int, operations: list[tuple[str, int, int]]) -> None:
    index = SegmentIndex(limit)
    begun: dict[str, int] = {}
    whole: dict[str, int] = {}
    for time, (operation, number, size) in enumerate(operations):
        name, session = f"{number}/x/{time}.kv", (ANNA, BERT)[number % 2]
        if operation == "w" and (victims := index.room_for(size, session)) is not None:
            for victim in victims:
                index.remove(victim)
                del whole[victim]
            index.begin(name, size)
            begun[name] = size
        elif operation in "cg" and begun:
            name = sorted(begun)[number % len(begun)]
            size = begun.pop(name)
            if operation == "c":
                index.commit(name, Segment(session, size, 1, time, is_foreign=number == 3))
                whole[name] = size
            else:
                index.give_up(name)
        elif operation == "r" and whole:
            name = sorted(whole)[number % len(whole)]
            index.remove(name)
            del whole[name]
        assert index.used_bytes == sum(begun.values()) + sum(whole.values()) <= limit
        assert index.surplus() == []
        assert sorted(index) == sorted(whole)
