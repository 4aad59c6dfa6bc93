"""The index of pages: what is found, for whom, and what leaves first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cached_page import CachedPage, SlotId, StoredPage
from engine.config import PAGE_TOKENS
from engine.page_keys import PageKey, PageKeys
from engine.pages import PagePool, pages_for
from engine.prefix_cache import PrefixCache
from engine.prefix_match import PrefixMatch
from engine.session import Retention, Session
from engine.types import Namespace, Priority, SessionKey

ANNA, BERT = Namespace.user("anna"), Namespace.user("bert")


def session(namespace: Namespace = ANNA, name: str = "chat", priority: Priority = Priority.INTERACTIVE) -> Session:
    return Session(SessionKey(namespace, name), priority)


class ConstantKeys(PageKeys):
    """What a broken hash would do: every page has the same key."""

    def following(self, parent: PageKey, namespace: Namespace, tokens: Sequence[int]) -> PageKey:
        return PageKey(b"constant")


@dataclass
class Memory:
    """An index over a pool, and what each device page holds: the chain of tokens up to its end."""

    num_pages: int = 32
    keys: PageKeys = field(default_factory=lambda: PageKeys(b"secret", "model"))
    parked: list[CachedPage] = field(default_factory=list)
    parks: bool = False
    held: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pool = PagePool(self.num_pages)
        self.cache = PrefixCache(self.pool, self.keys)
        self.cache.move_with(park=self._park, leave_host=self._forget, forget=self._forget)

    def _park(self, pages: Sequence[CachedPage]) -> None:
        self.parked += pages
        for page in pages if self.parks else ():
            page.host = SlotId(page.device or 0)

    def _forget(self, pages: Sequence[CachedPage]) -> None:
        for page in pages:
            page.host = None

    def find(self, tokens: Sequence[int], namespace: Namespace = ANNA, public_tokens: int = 0) -> PrefixMatch:
        keys = self.cache.page_keys(tokens, namespace, public_tokens, [])
        match = self.cache.match(tokens, namespace, public_tokens, keys)
        for page in match.pages:
            if page.device is not None:
                assert self.held[page.device] == tuple(tokens[: (page.index + 1) * PAGE_TOKENS])
        if match.tail is not None and match.tail.device is not None:
            end = len(match.pages) * PAGE_TOKENS + match.tail_tokens
            assert self.held[match.tail.device][:end] == tuple(tokens[:end])
        return match

    def compute(
        self,
        tokens: Sequence[int],
        namespace: Namespace = ANNA,
        public_tokens: int = 0,
        owner: Session | None = None,
        tail: bool = True,
    ) -> None:
        """A sequence computes all of it without looking, publishes it and ends."""
        count = pages_for(len(tokens))
        self.cache.make_room(count)
        pages = self.pool.allocate(count)
        for index, page in enumerate(pages):
            self.held[page] = tuple(tokens[: (index + 1) * PAGE_TOKENS])
        keys = self.cache.page_keys(tokens, namespace, public_tokens, [])
        self.cache.publish(tokens, keys, pages, namespace, public_tokens, owner, range(len(tokens) // PAGE_TOKENS))
        if tail:
            self.cache.publish_tail(tokens, keys, pages, namespace, owner)
        self.cache.release(pages[::-1])
        self.check()

    def check(self) -> None:
        self.cache.check_integrity()
        self.pool.check_integrity(self.cache.device_pages())
        assert self.pool.num_free + self.pool.num_evictable == self.num_pages


def numbers(count: int, start: int = 0) -> list[int]:
    return list(range(start, start + count))


@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 31, 32, 33, 48, 100])
def test_everything_but_the_last_token_of_a_known_prompt_is_found(length: int) -> None:
    memory = Memory()
    memory.compute(numbers(length))
    assert memory.find(numbers(length)).num_tokens == length - 1
    assert memory.find([*numbers(length), 7]).num_tokens == length


@pytest.mark.parametrize("common", range(40))
def test_what_two_prompts_have_in_common_is_found_to_the_single_token(common: int) -> None:
    memory = Memory()
    memory.compute(numbers(40))
    assert memory.find([*numbers(common), *numbers(30, start=1000)]).num_tokens == common


def test_the_longest_of_several_beginnings_is_found() -> None:
    memory = Memory()
    for length in (18, 25, 21):
        memory.compute([*numbers(length), 500 + length])
    assert memory.find(numbers(40)).num_tokens == 25


def test_nothing_of_one_user_is_found_by_another() -> None:
    memory = Memory()
    memory.compute(numbers(50), ANNA)
    for other in (BERT, Namespace.user("anna", "part"), Namespace.public()):
        assert memory.find(numbers(50), other) == PrefixMatch()


def test_a_personas_own_tokens_are_found_by_everybody_and_only_as_far_as_they_go() -> None:
    memory = Memory()
    persona = numbers(20)
    memory.compute(persona, Namespace.public(), 20)
    memory.compute([*persona, *numbers(30, 100)], ANNA, 20)
    assert memory.find([*persona, *numbers(30, 100)], BERT, 20).num_tokens == 20
    assert memory.find([*persona, *numbers(30, 100)], ANNA, 20).num_tokens == 49
    # Who does not name the persona finds nothing of it, and cannot learn its text by trying.
    assert memory.find([*persona, *numbers(30, 100)], BERT, 0).num_tokens == 0


def test_with_a_hash_that_is_always_the_same_only_equal_tokens_are_found() -> None:
    memory = Memory(keys=ConstantKeys(b"secret", "model"))
    memory.compute(numbers(40), ANNA, tail=False)
    memory.compute(numbers(40, 100), ANNA, tail=False)
    memory.compute(numbers(40, 200), BERT, tail=False)
    assert memory.find(numbers(40, 100)).num_tokens == 0
    assert memory.find(numbers(40, 200), BERT).num_tokens == 0
    assert memory.find(numbers(40)).num_tokens == PAGE_TOKENS
    repeated = numbers(PAGE_TOKENS) * 3
    assert memory.find(repeated).num_tokens == PAGE_TOKENS


def test_a_page_that_is_published_twice_is_kept_once() -> None:
    memory = Memory()
    memory.compute(numbers(40))
    memory.compute(numbers(40))
    assert len(memory.cache) == 3
    assert memory.pool.num_free == memory.num_pages - 3


def test_the_end_of_a_turn_makes_way_for_the_longer_end_of_the_next() -> None:
    memory = Memory()
    chat = session()
    for length in (18, 20, 24, 33):
        memory.compute(numbers(length), owner=chat)
    assert sorted(len(page.tokens) for page in memory.cache) == [1, 16, 16]


def test_another_conversations_words_do_not_replace_the_end_of_a_turn() -> None:
    """Else they would stay behind when that conversation is deleted."""
    memory = Memory()
    one, other = session(name="one"), session(name="other")
    memory.compute(numbers(18), owner=one)
    memory.compute(numbers(24), owner=other)
    memory.cache.disown(other)
    assert all(page.tokens in {tuple(numbers(16)), (16, 17)} for page in memory.cache)
    assert memory.find(numbers(30)).num_tokens == 18


def test_pages_that_nobody_owns_leave_first_then_by_priority_then_by_age_from_the_end() -> None:
    memory = Memory(num_pages=12, parks=False)
    memory.compute(numbers(32, 0), owner=session(name="old"))
    memory.compute(numbers(32, 100), owner=session(name="background", priority=Priority.BACKGROUND))
    memory.compute(numbers(32, 200), owner=session(name="bot", priority=Priority.BOT))
    memory.compute(numbers(32, 300), owner=session(name="new"))
    memory.compute(numbers(32, 400))
    persona = Session.of_prefix("persona")
    memory.compute(numbers(32, 500), Namespace.public(), 32, owner=persona)
    left = []
    for _ in range(12):
        before = {page.tokens[0] for page in memory.cache}
        memory.cache.make_room(memory.pool.num_free + 1)
        left += before - {page.tokens[0] for page in memory.cache}
    assert left == [416, 400, 116, 100, 216, 200, 16, 0, 316, 300, 516, 500]


def test_the_host_gives_up_first_what_loses_nothing_then_what_was_used_longest_ago_from_the_end() -> None:
    memory = Memory(num_pages=12, parks=True)
    owners = [session(name=name) for name in ("old", "stored", "new")]
    for start, owner in zip((0, 100, 200), owners, strict=True):
        memory.compute(numbers(32, start), owner=owner)
    pages = {page.tokens[0]: page for page in memory.cache}
    memory.cache.leave_device(list(pages.values()))
    assert list(memory.cache.host.unsaved) == owners
    for index, page in enumerate((pages[100], pages[116])):
        page.disk = StoredPage("file", index)
        memory.cache.stored(page)
    pages[16].host_pins = 1
    assert [page.tokens[0] for page in memory.cache.host.victims(10)] == [116, 100, 0, 216, 200]
    # They stayed in the host all the same, so they are asked again.
    memory.cache.leave_device([])
    memory.check()
    pages[16].host_pins = 0
    memory.cache.use([pages[100]])
    assert [page.tokens[0] for page in memory.cache.host.victims(3)] == [116, 100, 16]


def test_a_page_that_has_lost_an_owner_leaves_once_and_is_parked_once() -> None:
    """It was taken twice for one page of room: the room was not there, answers failed, and one of its slots was never free."""
    memory = Memory(num_pages=6, parks=True)
    first, second = session(name="first"), session(name="second")
    memory.compute(numbers(48), owner=first)
    memory.cache.own(list(memory.cache), second)
    memory.compute(numbers(48, 1000), owner=session(name="other"))
    memory.cache.disown(first)
    memory.cache.make_room(4)
    assert memory.pool.num_free == 4
    assert len(memory.parked) == len(set(memory.parked)) == 4
    memory.check()


def test_pages_that_a_sequence_reads_do_not_leave() -> None:
    memory = Memory(num_pages=4)
    memory.compute(numbers(64))
    read = [page.device for page in memory.find(numbers(33)).pages if page.device is not None]
    memory.pool.retain(read)
    memory.cache.make_room(4)
    assert memory.pool.num_free == 2
    assert memory.find(numbers(64)).num_tokens == 32
    memory.cache.release(read)
    memory.cache.make_room(4)
    assert memory.pool.num_free == 4
    memory.check()


def test_a_sessions_pages_are_parked_when_they_leave_and_found_again() -> None:
    memory = Memory(num_pages=4, parks=True)
    memory.compute(numbers(40), owner=session())
    memory.cache.make_room(4)
    match = memory.find(numbers(60))
    assert match.num_tokens == 40
    assert all(page.device is None and page.host is not None for page in match.pages)
    memory.compute(numbers(16, 1000))
    assert len(memory.parked) == 3
    memory.check()


def test_what_nobody_owns_is_not_parked() -> None:
    memory = Memory(num_pages=4, parks=True)
    memory.compute(numbers(40))
    memory.cache.make_room(4)
    assert memory.parked == []
    assert memory.find(numbers(40)).num_tokens == 0


def test_deleting_a_session_leaves_only_what_others_own() -> None:
    memory = Memory()
    one, other = session(name="one"), session(name="other")
    memory.compute(numbers(40), owner=one)
    memory.compute([*numbers(32), 900, 901], owner=other)
    memory.cache.disown(one)
    assert memory.find(numbers(60)).num_tokens == 32
    memory.cache.disown(other)
    assert len(memory.cache) == 0
    assert memory.pool.num_free == memory.num_pages


def test_deleting_a_user_takes_everything_with_all_parts() -> None:
    memory = Memory()
    memory.compute(numbers(40), ANNA, owner=session())
    memory.compute(numbers(40), Namespace.user("anna", "shop"), owner=session(Namespace.user("anna", "shop")))
    memory.compute(numbers(40), ANNA)
    memory.compute(numbers(40), BERT)
    memory.cache.remove_namespace(ANNA)
    assert {page.namespace for page in memory.cache} == {BERT}
    memory.check()


chats = st.lists(st.integers(0, 2), min_size=1, max_size=70)


@settings(max_examples=150)
@given(st.lists(st.tuples(st.sampled_from([ANNA, BERT]), chats, st.integers(0, 40), st.booleans()), max_size=12), chats)
def test_in_any_order_the_best_of_ones_own_and_the_persona_is_found_and_no_more(
    turns: list[tuple[Namespace, list[int], int, bool]], wanted: list[int]
) -> None:
    """With a pool that holds everything: the match is what a search through all of one's own texts finds."""
    memory = Memory(num_pages=100)
    owners = {namespace: session(namespace) for namespace in (ANNA, BERT)}
    public = 20
    persona = numbers(public, 50)
    memory.compute(persona, Namespace.public(), public, owner=Session.of_prefix("persona"))
    own: dict[Namespace, list[list[int]]] = {ANNA: [], BERT: []}
    for namespace, chat, _, has_persona in turns:
        tokens = [*persona, *chat] if has_persona else chat
        memory.compute(tokens, namespace, public if has_persona else 0, owner=owners[namespace])
        own[namespace].append(tokens)
    for namespace, texts in own.items():
        for has_persona in (False, True):
            prompt = [*persona, *wanted] if has_persona else wanted
            # Pages wholly within the persona's prefix are looked up as public ones only.
            candidates = [text for text in texts if not has_persona or text[:16] == persona[:16]]
            candidates += [persona] if has_persona else []
            best = max((_common(text, prompt[:-1]) for text in candidates), default=0)
            assert memory.find(prompt, namespace, public if has_persona else 0).num_tokens == best


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def test_retention_is_the_best_of_all_owners() -> None:
    memory = Memory()
    memory.compute(numbers(16), owner=session(name="one", priority=Priority.BACKGROUND))
    memory.compute(numbers(16), owner=session(name="other"))
    (page,) = memory.cache
    assert max(owner.retention for owner in page.owners) is Retention.INTERACTIVE
