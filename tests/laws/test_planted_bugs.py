"""Bugs put into the engine on purpose: the random operations find each of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from engine.cached_page import CachedPage
from engine.core import Engine
from engine.packed_tokens import PackedTokens, unpack_tokens
from engine.page_keys import PageKey, PageKeys
from engine.scheduler import Scheduler
from engine.speculation import accepted
from engine.tiers.disk_store import DiskStore
from engine.tiers.host_memory import HostMemory
from engine.types import Namespace, RequestId
from tests.laws.random_operations import Operations

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What the engine says of the accidents would fill pages."""
    logger = logging.getLogger("engine")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(before)


def run(examples: int = 300) -> None:
    """Always the same operations; they stop at the first law that is broken, which takes a few hundred to a few thousand."""

    @seed(3)
    class Few(Operations):
        pass

    run_state_machine_as_test(
        Few,
        settings=settings(
            max_examples=examples,
            stateful_step_count=80,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


def two_bit_key(self: PageKeys, parent: PageKey, namespace: Namespace, packed: PackedTokens) -> PageKey:
    """A hash that hardly is one: four keys for all pages there are."""
    tokens = unpack_tokens(packed)
    return PageKey(bytes([(sum(tokens) + len(tokens)) & 3]) * 32)


def test_with_a_hash_that_always_collides_the_laws_hold() -> None:
    with patch.object(PageKeys, "following", two_bit_key):
        run(examples=15)


def test_such_a_hash_without_comparing_tokens_gives_itself_away() -> None:
    with (
        patch.object(PageKeys, "following", two_bit_key),
        patch.object(CachedPage, "holds", lambda self, namespace, index, packed: True),
        pytest.raises(AssertionError),
    ):
        run()


def test_pages_shared_between_users_are_seen() -> None:
    original = PageKeys.following

    def for_everybody(self: PageKeys, parent: PageKey, namespace: Namespace, packed: PackedTokens) -> PageKey:
        return original(self, parent, Namespace.public(), packed)

    with (
        patch.object(PageKeys, "following", for_everybody),
        patch.object(
            CachedPage,
            "holds",
            lambda self, namespace, index, packed: (self.index, self.packed) == (index, packed),
        ),
        pytest.raises(AssertionError, match="L5"),
    ):
        run()


def test_a_cancel_that_frees_nothing_is_seen() -> None:
    original = Engine.cancel

    def forgetful(self: Engine, request_id: RequestId) -> None:
        with patch.object(Scheduler, "_drop_pages", lambda self, sequence: None):
            original(self, request_id)

    with patch.object(Engine, "cancel", forgetful), pytest.raises(Exception, match="counted wrongly"):
        run()


def test_a_draft_token_that_is_accepted_though_it_was_not_sampled_is_seen() -> None:
    """ohdearquant/lattice#243: a first draft token was accepted unchecked."""

    def one_too_many(draft: Sequence[int], sampled: Sequence[int | None]) -> list[int | None]:
        taken = accepted(draft, sampled)
        place = len(taken)
        return [*draft[:place], sampled[place]] if place <= len(draft) else taken

    with patch("engine.core.accepted", one_too_many), pytest.raises(AssertionError, match="L2"):
        run()


def test_pages_of_rejected_drafts_that_are_kept_are_seen() -> None:
    with (
        patch.object(Scheduler, "settle", lambda self, scheduled: None),
        pytest.raises(Exception, match="more than tokens"),
    ):
        run()


def test_a_damaged_page_that_is_served_is_seen() -> None:
    with (
        patch("engine.tiers.segment_reader._check", lambda header, wanted, record: None),
        pytest.raises(AssertionError),
    ):
        run()


@pytest.mark.parametrize("deletion", ["delete_session", "delete_namespace"])
def test_files_that_are_left_behind_are_seen(deletion: str) -> None:
    with (
        patch.object(DiskStore, deletion, lambda self, whose: None),
        pytest.raises(AssertionError, match="was deleted, and has files"),
    ):
        run()


def test_a_host_copy_that_lacks_half_of_the_page_is_seen() -> None:
    """sgl-project/sglang#27504: one of two buffers was restored."""
    original = HostMemory.load

    def half(self: HostMemory, slots: Sequence[int], cache: object, pages: Sequence[int]) -> None:
        self._records[list(slots), :, 8:] = 0
        original(self, slots, cache, pages)  # type: ignore[arg-type]

    with patch.object(HostMemory, "load", half), pytest.raises(AssertionError):
        run()
