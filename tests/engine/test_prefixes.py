"""Personas' prefixes: which are kept within the budget, and how far a prompt is one of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cached_page import NOBODY, CachedPage
from engine.config import PAGE_TOKENS
from engine.packed_tokens import pack_tokens
from engine.page_keys import PageKey
from engine.pages import PagesCorrupt
from engine.prefixes import DEFAULT_OPENING, MAX_VAIN_BUILDS, Prefix, Prefixes
from engine.session import Retention, Session
from engine.snapshot import PrefixState, PrefixStatus
from engine.types import Namespace

BUILDING, READY, COLD = PrefixState.BUILDING, PrefixState.READY, PrefixState.COLD


def ids_of(pages: int, seed: int = 0) -> list[int]:
    return [seed * 1000 + number for number in range(pages * PAGE_TOKENS)]


def build(prefixes: Prefixes, source: str = "computed") -> list[str]:
    """What the engine does with what is to be built; the names in order."""
    names = []
    while (prefix := prefixes.next_to_build()) is not None:
        prefix.owner.pages.clear()
        for index in range(prefix.num_pages):
            tokens = pack_tokens(prefix.ids[index * PAGE_TOKENS : (index + 1) * PAGE_TOKENS])
            page = CachedPage(PageKey(bytes(32)), PageKey(bytes(32)), Namespace.public(), index, tokens)
            page.owners = prefix.owner.alone
            prefix.owner.pages.add(page)
        assert prefixes.built(prefix, source)
        names.append(prefix.name)
    return names


def let_go(prefixes: Prefixes, releasing: list[Session]) -> None:
    for owner in releasing:
        for page in owner.pages:
            page.owners = NOBODY
        owner.pages.clear()
    prefixes.check_integrity()


def states(prefixes: Prefixes) -> dict[str, PrefixState]:
    return {prefix.name: prefix.state for prefix in prefixes}


def test_a_prefix_is_built_and_then_ready() -> None:
    prefixes = Prefixes(budget_pages=10)
    assert prefixes.register("cook", [*ids_of(2), 7]) == []
    assert prefixes.statuses() == (PrefixStatus("cook", BUILDING, 33, 0, None),)
    assert build(prefixes, "disk") == ["cook"]
    assert prefixes.statuses() == (PrefixStatus("cook", READY, 33, 3, "disk"),)
    assert prefixes.next_to_build() is None
    prefixes.check_integrity()
    cook = prefixes.get("cook")
    assert cook is not None
    assert cook.owner.retention is Retention.PREFIX


def test_a_new_prefix_sends_the_least_recently_used_away() -> None:
    prefixes = Prefixes(budget_pages=10)
    for name in ("cook", "clerk", "poet"):
        prefixes.register(name, ids_of(3))
    build(prefixes)
    prefixes.use("cook")
    let_go(prefixes, releasing := prefixes.register("pilot", ids_of(4)))
    assert [owner.key.name for owner in releasing] == ["clerk"]
    assert states(prefixes) == {"cook": READY, "clerk": COLD, "poet": READY, "pilot": BUILDING}


def test_nothing_is_sent_away_for_one_that_does_not_fit_even_then() -> None:
    prefixes = Prefixes(budget_pages=10)
    prefixes.register("cook", ids_of(6))
    build(prefixes)
    assert prefixes.register("encyclopedia", ids_of(11)) == []
    assert states(prefixes) == {"cook": READY, "encyclopedia": COLD}
    assert prefixes.next_to_build() is None


def test_one_that_is_being_built_is_not_sent_away() -> None:
    prefixes = Prefixes(budget_pages=10)
    prefixes.register("cook", ids_of(6))
    assert prefixes.register("clerk", ids_of(6)) == []
    assert states(prefixes) == {"cook": BUILDING, "clerk": COLD}


def test_room_that_is_left_goes_to_a_cold_one_the_last_used_first() -> None:
    prefixes = Prefixes(budget_pages=10)
    for name in ("cook", "clerk", "poet"):
        prefixes.register(name, ids_of(6))
    prefixes.use("clerk")
    let_go(prefixes, prefixes.drop("cook"))
    assert states(prefixes) == {"clerk": BUILDING, "poet": COLD}
    assert build(prefixes) == ["clerk"]


def test_the_same_name_replaces_and_the_same_ids_change_nothing() -> None:
    prefixes = Prefixes(budget_pages=10)
    prefixes.register("cook", ids_of(6))
    build(prefixes)
    assert prefixes.register("cook", ids_of(6)) == []
    assert states(prefixes) == {"cook": READY}
    let_go(prefixes, releasing := prefixes.register("cook", ids_of(7, seed=1)))
    assert len(releasing) == 1
    assert states(prefixes) == {"cook": BUILDING}
    assert prefixes.public_tokens("cook", ids_of(7)) == 0


def test_a_prefix_that_is_saved_anew_keeps_its_room() -> None:
    prefixes = Prefixes(budget_pages=10)
    prefixes.register("cook", ids_of(6))
    build(prefixes)
    prefixes.register("clerk", ids_of(11))
    prefixes.register("poet", ids_of(5))
    build(prefixes)
    assert states(prefixes) == {"cook": COLD, "clerk": COLD, "poet": READY}
    prefixes.register("poet", ids_of(5, seed=1))
    assert states(prefixes) == {"cook": COLD, "clerk": COLD, "poet": BUILDING}


def test_what_was_replaced_while_it_was_built_is_not_ready() -> None:
    prefixes = Prefixes(budget_pages=10)
    prefixes.register("cook", ids_of(2))
    old = prefixes.next_to_build()
    assert old is not None
    prefixes.register("cook", ids_of(2, seed=1))
    assert not prefixes.built(old, "computed")
    assert states(prefixes) == {"cook": BUILDING}
    prefixes.drop("cook")
    assert not prefixes.built(old, "computed")


def test_a_prefix_whose_pages_have_vanished_is_built_again() -> None:
    prefixes = Prefixes(budget_pages=10)
    prefixes.register("cook", ids_of(3))
    prefixes.register("poet", ids_of(3))
    build(prefixes)
    prefixes.lost()
    assert states(prefixes) == {"cook": READY, "poet": READY}
    cook = prefixes.get("cook")
    assert cook is not None
    cook.owner.pages.pop().owners = NOBODY
    assert prefixes.lost() == [], "what is left of it is of use for building it again"
    assert states(prefixes) == {"cook": BUILDING, "poet": READY}
    assert build(prefixes) == ["cook"]


def test_a_prefix_that_vanishes_again_and_again_is_left_alone_until_it_is_used() -> None:
    prefixes = Prefixes(budget_pages=10)
    prefixes.register("cook", ids_of(3))
    cook = prefixes.get("cook")
    assert cook is not None
    for _ in range(MAX_VAIN_BUILDS):
        assert build(prefixes) == ["cook"]
        cook.owner.pages.pop().owners = NOBODY
        assert prefixes.lost() == []
    assert build(prefixes) == ["cook"]
    cook.owner.pages.pop().owners = NOBODY
    let_go(prefixes, owners := prefixes.lost())
    assert owners == [cook.owner]
    assert states(prefixes) == {"cook": COLD}
    prefixes.register("poet", ids_of(3))
    assert states(prefixes) == {"cook": COLD, "poet": BUILDING}
    prefixes.use("cook")
    assert states(prefixes) == {"cook": BUILDING, "poet": BUILDING}


def test_one_that_cannot_be_built_is_tried_a_few_times_and_then_cold() -> None:
    prefixes = Prefixes(budget_pages=10)
    prefixes.register("cook", ids_of(6))
    prefixes.register("poet", ids_of(6))
    cook = prefixes.get("cook")
    assert cook is not None
    for _ in range(MAX_VAIN_BUILDS):
        assert prefixes.next_to_build() is cook
        assert prefixes.failed(cook) == [cook.owner]
    assert prefixes.failed(cook) == [cook.owner]
    assert states(prefixes) == {"cook": COLD, "poet": BUILDING}
    prefixes.drop("poet")
    assert prefixes.next_to_build() is None
    prefixes.register("cook", ids_of(5))
    assert states(prefixes) == {"cook": BUILDING}


def test_one_that_never_can_be_built_is_not_tried_again() -> None:
    prefixes = Prefixes(budget_pages=10)
    prefixes.register("epic", ids_of(6))
    epic = prefixes.next_to_build()
    assert epic is not None
    prefixes.failed(epic, is_hopeless=True)
    prefixes.use("epic")
    assert prefixes.next_to_build() is None
    assert states(prefixes) == {"epic": COLD}


def test_an_empty_prefix_needs_nothing_and_is_never_built() -> None:
    prefixes = Prefixes(budget_pages=10)
    prefixes.register("silent", [])
    assert prefixes.next_to_build() is None
    assert prefixes.public_tokens("silent", [1, 2]) == 0


def test_a_prompt_is_public_as_far_as_its_own_persona_goes_and_no_further() -> None:
    prefixes = Prefixes(budget_pages=0)
    prefixes.register("cook", [1, 2, 3, 4])
    prefixes.register("clerk", [1, 2, 9, 9, 9])
    prefixes.register(DEFAULT_OPENING, [1])
    assert prefixes.public_tokens("cook", [1, 2, 3, 4, 5]) == 4
    assert prefixes.public_tokens("cook", [1, 2, 9, 9, 9]) == 2
    assert prefixes.public_tokens("cook", [1, 2]) == 2
    assert prefixes.public_tokens("clerk", [1, 2, 3, 4, 5]) == 2
    assert prefixes.public_tokens(None, [1, 2, 3]) == 1
    assert prefixes.public_tokens("nobody", [1, 2, 3]) == 0


def test_the_integrity_check_sees_pages_that_are_not_its_own() -> None:
    prefixes = Prefixes(budget_pages=10)
    prefixes.register("cook", ids_of(2))
    build(prefixes)
    cook = prefixes.get("cook")
    assert cook is not None
    cook.state = COLD
    with pytest.raises(PagesCorrupt, match="a cold prefix holds 2 pages"):
        prefixes.check_integrity()
    cook.state = READY
    next(iter(cook.owner.pages)).namespace = Namespace.user("anna")
    with pytest.raises(PagesCorrupt, match="not public"):
        prefixes.check_integrity()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["register", "drop", "use", "build", "lose", "fail"]),
            st.sampled_from("abcd"),
            st.integers(0, 12),
        ),
        max_size=50,
    )
)
def test_any_order_of_acts_keeps_the_budget_and_strands_nothing(acts: list[tuple[str, str, int]]) -> None:
    prefixes = Prefixes(budget_pages=10)
    for act, name, pages in acts:
        prefix: Prefix | None = prefixes.get(name)
        if act == "register":
            let_go(prefixes, prefixes.register(name, ids_of(pages)))
        elif act == "drop":
            let_go(prefixes, prefixes.drop(name))
        elif act == "use":
            prefixes.use(name)
        elif act == "build":
            build(prefixes)
        elif act == "lose" and prefix is not None and prefix.owner.pages:
            prefix.owner.pages.pop().owners = NOBODY
            let_go(prefixes, prefixes.lost())
        elif act == "fail" and prefix is not None and prefix.state is BUILDING:
            let_go(prefixes, prefixes.failed(prefix))
        prefixes.check_integrity()
        free = 10 - prefixes.pages_promised
        waiting = [each for each in prefixes if each.state is COLD and each.ids and not each.is_given_up]
        assert all(each.num_pages > free for each in waiting)
        for each in prefixes:
            assert (each.state is READY) <= (len(each.owner.pages) == each.num_pages)
