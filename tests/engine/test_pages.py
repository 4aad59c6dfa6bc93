from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config import PAGE_TOKENS
from engine.pages import PageId, PagePool, PagesCorrupt, PagesExhausted, pages_for


@pytest.mark.parametrize(
    ("tokens", "pages"), [(0, 0), (1, 1), (PAGE_TOKENS - 1, 1), (PAGE_TOKENS, 1), (PAGE_TOKENS + 1, 2)]
)
def test_a_page_is_needed_for_every_begun_page_of_tokens(tokens: int, pages: int) -> None:
    assert pages_for(tokens) == pages


def test_pages_are_handed_out_once_and_come_back() -> None:
    pool = PagePool(4)
    taken = pool.allocate(3)
    assert len(set(taken)) == 3
    assert pool.num_free == 1
    pool.free(taken)
    assert pool.num_free == 4
    pool.check_integrity()


def test_allocation_is_all_or_nothing() -> None:
    pool = PagePool(2)
    with pytest.raises(PagesExhausted, match="3 pages were asked for and 2 are free"):
        pool.allocate(3)
    assert pool.num_free == 2


def test_a_page_with_two_holders_is_free_when_both_let_go() -> None:
    pool = PagePool(1)
    pages = pool.allocate(1)
    pool.retain(pages)
    pool.free(pages)
    assert pool.num_free == 0
    pool.free(pages)
    assert pool.num_free == 1


def test_freeing_twice_and_retaining_a_free_page_are_bugs() -> None:
    pool = PagePool(2)
    pages = pool.allocate(1)
    pool.free(pages)
    with pytest.raises(PagesCorrupt):
        pool.free(pages)
    with pytest.raises(PagesCorrupt):
        pool.retain(pages)


def test_the_integrity_check_sees_a_page_that_nobody_gave_back() -> None:
    pool = PagePool(2)
    pages = pool.allocate(1)
    pool.check_integrity(pages)
    with pytest.raises(PagesCorrupt, match="has 0 references and the pool counts 1"):
        pool.check_integrity()


@given(st.lists(st.tuples(st.sampled_from(["allocate", "retain", "free"]), st.integers(0, 5)), max_size=60))
def test_any_order_of_operations_keeps_the_books(operations: list[tuple[str, int]]) -> None:
    pool = PagePool(12)
    held: list[list[PageId]] = []
    for operation, number in operations:
        if operation == "allocate" and number <= pool.num_free:
            held.append(pool.allocate(number))
        elif operation == "retain" and number < len(held):
            pool.retain(held[number])
            held.append(list(held[number]))
        elif operation == "free" and number < len(held):
            pool.free(held.pop(number))
        pool.check_integrity(page for pages in held for page in pages)
    for pages in held:
        pool.free(pages)
    assert pool.num_free == pool.num_pages
    pool.check_integrity()


def test_held_pages_are_those_that_somebody_beside_the_cache_holds() -> None:
    pool = PagePool(4)
    kept, shared, plain = pool.allocate(3)
    for page in (kept, shared):
        pool.keep(page)
    pool.free([kept])
    assert sorted(pool.held_pages()) == sorted([shared, plain])
    assert all(pool.num_sequences(page) for page in pool.held_pages())


def test_pages_are_used_from_the_lowest_on_and_the_pool_knows_how_far() -> None:
    pool = PagePool(10)
    assert pool.num_touched == 0
    first = pool.allocate(3)
    assert pool.num_touched == 3
    pool.free(first)
    pool.allocate(2)
    assert pool.num_touched == 3
    pool.allocate(4)
    assert pool.num_touched == 6
    pool.allocate(0)
    assert pool.num_touched == 6
