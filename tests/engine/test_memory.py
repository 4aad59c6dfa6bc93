"""Sessions and prefixes in the whole engine around the tiny model: what moves when, and what is found again."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core import Engine
from engine.memory import PARKED_PAGES_PER_STEP
from engine.snapshot import PagesByTier, PageState, PrefixState, PrefixStatus, SessionState
from engine.types import (
    CachedFrom,
    EngineEvent,
    EngineFailure,
    EngineState,
    Finished,
    GenerationRequest,
    Namespace,
    NamespaceKind,
    SessionKey,
    Turn,
)
from tests.support.clock import SteppedClock
from tests.support.tiers import files
from tests.support.tiny_model import SPEC, TinyTokenizer, reference_ids, request, tiny_engine

ANNA, BERT = Namespace.user("anna"), Namespace.user("bert")
CHAT = SessionKey(ANNA, "chat")
PAGE_BYTES = 2 * 16 * 2 * 4


class Talk:
    """An engine that answers one request at a time; every answer is compared with one made without any cache."""

    def __init__(self, **changes: object) -> None:
        self.clock = SteppedClock()
        self.woken = threading.Event()
        self.tokenizer = TinyTokenizer()
        self.engine: Engine = tiny_engine(
            clock=self.clock.monotonic, wake=self.woken.set, **{"num_pages": 64, "context_tokens": 2000, **changes}
        )
        self.numbers = 0

    def ask(
        self, text: str, namespace: Namespace | None = ANNA, session: str | None = "chat", **more: object
    ) -> Finished:
        self.numbers += 1
        turns = (*more.pop("before", ()), *request("", text).turns)  # type: ignore[misc]
        asked = replace(
            request(f"r{self.numbers}", text, max_tokens=4, ignore_eos=True),
            turns=turns,
            namespace=namespace,
            session=session,
            **more,
        )
        ids = self.tokenizer.encode_turns(asked.turns)
        self.engine.submit(asked, list(ids), 0.0)
        end = self.finish(asked)
        assert end.token_ids == tuple(reference_ids(ids, 4, stop_at=frozenset()))
        return end

    def finish(self, asked: GenerationRequest) -> Finished:
        for _ in range(1000):
            for event in self.step():
                if isinstance(event, Finished) and event.request_id == asked.request_id:
                    return event
        raise AssertionError("the request never ended")

    def settle(self, condition: Callable[[], bool]) -> None:
        """Step until it holds."""
        for _ in range(1000):
            self.step()
            if condition():
                return
        raise AssertionError("it never happened")

    def step(self) -> list[EngineEvent]:
        """One step; where there is nothing to compute, after the disk's threads have told that they are done."""
        if self.engine.wait_s() != 0.0 and self.engine.has_transfers:
            assert self.woken.wait(10), "the disk never answered"
            self.woken.clear()
        return self.engine.step()

    def state(self, key: SessionKey = CHAT) -> SessionState | None:
        return next((session.state for session in self.engine.snapshot().sessions if session.key == key), None)

    def pages(self, key: SessionKey = CHAT) -> PagesByTier:
        return next(session.pages for session in self.engine.snapshot().sessions if session.key == key)


def test_the_next_turn_computes_only_what_is_new() -> None:
    talk = Talk()
    first = talk.ask("x" * 100)
    assert first.usage.cached_tokens == 0
    again = talk.ask("x" * 100 + "more")
    # The role, the text so far, and not the token that ended it.
    assert again.usage.cached_from == CachedFrom(device=101)


def test_a_request_without_a_session_finds_as_much() -> None:
    talk = Talk()
    talk.ask("x" * 100)
    assert talk.ask("x" * 100 + "yy", session=None).usage.cached_tokens == 101
    assert talk.ask("x" * 100 + "zz", session="another").usage.cached_tokens == 101


def test_nothing_is_found_or_kept_without_a_namespace_or_with_reuse_off() -> None:
    talk = Talk()
    talk.ask("x" * 100, namespace=None, session=None)
    assert talk.ask("x" * 100, namespace=None, session=None).usage.cached_tokens == 0
    off = Talk(reuse=False)
    off.ask("x" * 100)
    assert off.ask("x" * 100).usage.cached_tokens == 0
    assert off.engine.snapshot().sessions == ()


def test_another_user_finds_nothing() -> None:
    talk = Talk()
    talk.ask("x" * 100)
    assert talk.ask("x" * 100, namespace=BERT).usage.cached_tokens == 0


def test_an_idle_session_goes_down_tier_by_tier_and_away(tmp_path: Path) -> None:
    talk = Talk(disk_folder=tmp_path / "kv", host_memory_bytes=64 * PAGE_BYTES)
    talk.ask("x" * 100)
    assert talk.state() is SessionState.DEVICE
    talk.clock.advance(299)
    talk.engine.step()
    assert talk.state() is SessionState.DEVICE
    talk.clock.advance(1)
    talk.engine.step()
    assert talk.state() is SessionState.HOST
    assert talk.pages() == PagesByTier(device=0, host=7)
    talk.clock.advance(1500)
    talk.settle(lambda: talk.state() is SessionState.DISK)
    assert talk.pages() == PagesByTier(disk=7)
    talk.clock.advance(86400 - 1800)
    talk.settle(lambda: files(tmp_path / "kv") == [tmp_path / "kv" / "secret"])
    assert talk.state() is None
    assert talk.engine.stats(EngineState.READY, 1).sessions_expired_total == 1


def test_a_turn_is_answered_from_every_tier(tmp_path: Path) -> None:
    talk = Talk(disk_folder=tmp_path / "kv", host_memory_bytes=64 * PAGE_BYTES)
    talk.ask("x" * 100)
    told: list[bool] = []
    talk.engine.evict_session(CHAT, told.append)
    talk.engine.step()
    assert told == [True]
    assert talk.ask("x" * 100 + "a").usage.cached_from == CachedFrom(host=101)
    for expected in (2, 3):
        talk.engine.evict_session(CHAT, told.append)
        talk.settle(lambda: len(told) == expected)  # noqa: B023
    assert talk.state() is SessionState.DISK
    assert talk.ask("x" * 100 + "b").usage.cached_from == CachedFrom(disk=101)
    assert talk.ask("x" * 100 + "c").usage.cached_from.total == 101


def test_a_session_is_found_again_after_a_restart(tmp_path: Path) -> None:
    talk = Talk(disk_folder=tmp_path / "kv")
    talk.ask("x" * 100)
    talk.engine.stop(EngineFailure("engine_stopped", "It ends."))
    again = Talk(disk_folder=tmp_path / "kv")
    assert again.state() is SessionState.DISK
    assert again.ask("x" * 100 + "more").usage.cached_from == CachedFrom(disk=101)
    assert again.ask("x" * 100, namespace=BERT).usage.cached_tokens == 0


def test_a_folder_that_cannot_be_used_costs_what_is_kept_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "kv").write_text("a file where the folder should be")
    talk = Talk(disk_folder=tmp_path / "kv")
    assert "nothing is kept on disk" in caplog.text
    talk.ask("x" * 100)
    assert talk.ask("x" * 100 + "more").usage.cached_tokens == 101
    assert talk.engine.snapshot().disk.limit_bytes == 0


def test_dropping_a_session_leaves_no_page_and_no_file_of_it(tmp_path: Path) -> None:
    talk = Talk(disk_folder=tmp_path / "kv", host_memory_bytes=64 * PAGE_BYTES)
    talk.ask("x" * 100)
    told: list[object] = []
    for expected in (1, 2):
        talk.engine.evict_session(CHAT, told.append)
        talk.settle(lambda: len(told) == expected)  # noqa: B023
    talk.ask("x" * 100 + "more")
    assert len(files(tmp_path / "kv")) > 1
    talk.engine.drop_session(CHAT, told.append)
    talk.settle(lambda: len(told) == 3)
    assert told[-1] is True
    assert files(tmp_path / "kv") == [tmp_path / "kv" / "secret"]
    snapshot = talk.engine.snapshot()
    assert (snapshot.device.pages, snapshot.host.pages, snapshot.disk.pages, snapshot.sessions) == (0, 0, 0, ())
    assert talk.ask("x" * 100).usage.cached_tokens == 0


def test_dropping_a_session_ends_its_running_turn_and_nothing_of_it_is_kept() -> None:
    talk = Talk()
    asked = replace(request("running", "x" * 100, max_tokens=50, ignore_eos=True), namespace=ANNA, session="chat")
    talk.engine.submit(asked, talk.tokenizer.encode_turns(asked.turns), 0.0)
    for _ in range(6):
        talk.engine.step()
    told: list[object] = []
    talk.engine.drop_session(CHAT, told.append)
    assert talk.finish(asked).reason.value == "cancelled"
    assert told == [True]
    assert talk.engine.snapshot().device.pages == 0


def test_a_cancelled_turn_keeps_the_history_and_what_was_shown() -> None:
    """ggml-org/llama.cpp#29163"""
    talk = Talk()
    asked = replace(request("long", "x" * 100, max_tokens=50, ignore_eos=True), namespace=ANNA, session="chat")
    ids = talk.tokenizer.encode_turns(asked.turns)
    talk.engine.submit(asked, list(ids), 0.0)
    for _ in range(12):
        talk.engine.step()
    talk.engine.cancel(asked.request_id)
    end = talk.finish(asked)
    assert end.token_ids
    answered = Turn(asked.turns[0].role.ASSISTANT, "", end.token_ids)
    following = talk.ask("next", before=(*asked.turns, answered))
    assert following.usage.cached_tokens >= 102


def test_a_personas_prefix_is_computed_ahead_and_shared_by_everybody() -> None:
    talk = Talk()
    persona = (Turn(request("").turns[0].role.SYSTEM, "p" * 60),)
    talk.engine.set_prefix("guide", talk.tokenizer.prefix_ids(persona))
    talk.settle(lambda: all(prefix.state is PrefixState.READY for prefix in talk.engine.snapshot().prefixes))
    for number, who in enumerate((ANNA, BERT)):
        end = talk.ask(f"{number} hello", namespace=who, before=persona, persona="guide")
        assert end.usage.cached_from == CachedFrom(prefix=63)
    assert talk.ask("hello", namespace=Namespace.user("carl"), before=persona).usage.cached_tokens == 0


def test_a_prefix_comes_from_disk_after_a_restart(tmp_path: Path) -> None:
    persona = (Turn(request("").turns[0].role.SYSTEM, "p" * 60),)
    sources = []
    for _ in range(2):
        talk = Talk(disk_folder=tmp_path / "kv")
        talk.engine.set_prefix("guide", talk.tokenizer.prefix_ids(persona))
        talk.settle(lambda: talk.engine.snapshot().prefixes[0].state is PrefixState.READY)  # noqa: B023
        sources.append(talk.engine.snapshot().prefixes[0].source)
        asked = f"{len(sources)} hello"
        assert talk.ask(asked, before=persona, persona="guide").usage.cached_from == CachedFrom(prefix=63)
        talk.engine.stop(EngineFailure("engine_stopped", "It ends."))
    assert sources == ["computed", "disk"]


def test_a_prefix_that_nobody_asks_for_again_is_seen_and_can_be_dropped(tmp_path: Path) -> None:
    talk = Talk(disk_folder=tmp_path / "kv")
    persona = (Turn(request("").turns[0].role.SYSTEM, "p" * 60),)
    talk.engine.set_prefix("guide", talk.tokenizer.prefix_ids(persona))
    talk.settle(lambda: talk.engine.snapshot().prefixes[0].state is PrefixState.READY)
    talk.engine.stop(EngineFailure("engine_stopped", "It ends."))
    again = Talk(disk_folder=tmp_path / "kv")
    assert again.engine.snapshot().prefixes == (PrefixStatus("guide", PrefixState.COLD, 63, 4, "disk"),)
    told: list[object] = []
    again.engine.drop_prefix("guide", told.append)
    again.settle(lambda: told == [True])
    assert again.engine.snapshot().prefixes == ()
    assert not list((tmp_path / "kv").rglob("*.kv"))


def test_a_changed_persona_leaves_nothing_of_the_old_one(tmp_path: Path) -> None:
    talk = Talk(disk_folder=tmp_path / "kv")
    for letter in "pq":
        persona = (Turn(request("").turns[0].role.SYSTEM, letter * 60),)
        talk.engine.set_prefix("guide", talk.tokenizer.prefix_ids(persona))
        talk.settle(lambda: talk.engine.snapshot().prefixes[0].state is PrefixState.READY)
    talk.settle(lambda: talk.engine.snapshot().disk.pages == 4)
    assert talk.engine.snapshot().device.pages == 4


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("replaced", [True, False])
@pytest.mark.parametrize("is_running", [True, False])
def test_a_persona_that_is_gone_leaves_no_page_of_its_users_either(
    is_kept: bool, replaced: bool, is_running: bool
) -> None:
    """Also where its prefix had no room and was only published by those who asked, or by one who was still being answered."""
    talk = Talk(prefix_memory_bytes=PAGE_BYTES * (8 if is_kept else 0))
    persona = (Turn(request("").turns[0].role.SYSTEM, "p" * 60),)
    talk.engine.set_prefix("guide", talk.tokenizer.prefix_ids(persona))
    asked = replace(request("running", "hello", max_tokens=30, ignore_eos=True), namespace=ANNA, persona="guide")
    asked = replace(asked, turns=(*persona, *asked.turns))
    talk.engine.submit(asked, talk.tokenizer.encode_turns(asked.turns), 0.0)
    if is_running:
        talk.engine.step()
    else:
        talk.finish(asked)
    told: list[object] = []
    if replaced:
        talk.engine.set_prefix("guide", [])
    else:
        talk.engine.drop_prefix("guide", told.append)
    if is_running:
        talk.finish(asked)
    talk.engine.drop_namespace(ANNA, told.append)
    talk.settle(lambda: len(told) == 1 + (not replaced) and not talk.engine.has_work)
    assert talk.engine.snapshot().device.pages == 0


def test_a_long_session_is_parked_in_parts() -> None:
    pages = 3 * PARKED_PAGES_PER_STEP
    talk = Talk(num_pages=2 * pages, context_tokens=4000, host_memory_bytes=pages * PAGE_BYTES)
    talk.ask("x" * (16 * pages - 20))
    talk.clock.advance(300)
    left = [pages]
    while talk.state() is not SessionState.HOST:
        talk.engine.step()
        left.append(talk.pages().device)
    assert left == [pages, 2 * pages // 3, pages // 3, 0]
    assert talk.ask("x" * (16 * pages - 20) + "y").usage.cached_from.host == 16 * pages - 19


def test_a_spec_of_the_tiny_model_has_the_page_size_the_tests_count_with() -> None:
    assert 2 * SPEC.layers * 16 * SPEC.kv_heads * SPEC.head_size * SPEC.dtype.itemsize == PAGE_BYTES * SPEC.layers


def test_the_page_map_says_of_every_page_what_it_is_and_whose_kind() -> None:
    talk = Talk()
    talk.ask("x" * 100)
    talk.ask("y" * 40, namespace=BERT, session=None)
    asked = replace(request("running", "z" * 20, max_tokens=40, ignore_eos=True), namespace=ANNA, session="other")
    talk.engine.submit(asked, list(talk.tokenizer.encode_turns(asked.turns)), 0.0)
    talk.step()
    snapshot = talk.engine.snapshot()
    found = Counter((page.state, page.namespace) for page in snapshot.pages)
    counted = {state: pages for tier, state, pages in talk.engine.stats(EngineState.READY, 1).pages if tier == "device"}
    assert {state.value: pages for (state, _), pages in found.items()} == counted
    users = NamespaceKind.USER
    assert set(found) == {
        (PageState.FREE, None),
        (PageState.RUNNING, users),
        (PageState.LEASED, users),
        (PageState.CACHED, users),
    }
    assert len(snapshot.pages) == 64
