"""Turns and sessions in a whole engine with every tier, the laws checked after each step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.misses import MissReason
from engine.sequence import SequenceState
from engine.snapshot import SessionState
from engine.types import Namespace, Priority
from tests.laws.checked_engine import Chat, CheckedEngine
from tests.support.small_engine import SmallEngine

ANNA = Namespace.user("anna")
HISTORY = list(range(100, 180))
DEVICE_PAGES = 16


@pytest.fixture
def checked() -> Iterator[CheckedEngine]:
    small = SmallEngine(
        device_pages=DEVICE_PAGES, host_pages=40, disk_bytes=1 << 17, prefix_pages=6, context_tokens=240
    )
    checked = CheckedEngine(small)
    yield checked
    checked.end()
    small.close()


def say(checked: CheckedEngine, chat: Chat | None, tokens: list[int], length: int = 4) -> int:
    """A turn to its end; how many tokens were found."""
    path = chat.paths[-1] if chat is not None and chat.paths else []
    checked.ask(ANNA, chat, [*path, *tokens], length, Priority.INTERACTIVE)
    checked.drain()
    return checked.last_usage.cached_tokens


def reprefilled(checked: CheckedEngine) -> dict[MissReason, int]:
    return dict(checked.small.engine._memory.sessions.misses.reprefilled_tokens)


def test_an_answer_without_a_session_ends_too_when_its_user_is_deleted(checked: CheckedEngine) -> None:
    checked.ask(ANNA, None, HISTORY[:40], 5, Priority.INTERACTIVE)
    checked.step()
    checked.delete_user(ANNA)
    assert not checked.live


def test_a_persona_that_is_deleted_while_its_prefix_is_computed_leaves_nothing(checked: CheckedEngine) -> None:
    checked.save_persona("cook", HISTORY[:60])
    checked.step()
    assert checked.small.engine.has_work, "its prefix is longer than one step"
    checked.delete_persona("cook")
    checked.step()
    assert checked.small.engine.snapshot().prefixes == ()
    assert not [page for page in checked.small.engine._scheduler.cache if page.owners]


def test_ten_turns_compute_what_is_new_and_miss_nothing(checked: CheckedEngine) -> None:
    """ggml-org/llama.cpp#15082: every turn was read from its beginning, and nobody was told."""
    chat = checked.new_chat(ANNA, None)
    say(checked, chat, HISTORY[:30])
    for number in range(10):
        before = len(chat.paths[-1])
        # The last token of an answer was sampled and never computed.
        assert say(checked, chat, [200 + number, 7, 8]) >= before - 1
    assert reprefilled(checked) == {}


def test_what_was_computed_again_is_counted_by_its_reason(checked: CheckedEngine) -> None:
    chat = checked.new_chat(ANNA, None)
    say(checked, chat, HISTORY)
    checked.small.clock.advance(90_000)
    checked.step()
    assert say(checked, chat, [7]) == 0
    assert reprefilled(checked) == {MissReason.EXPIRED: len(HISTORY) + 3}
    checked.put_away(chat, SessionState.DISK)
    for path in checked.small.files():
        path.unlink()
    say(checked, chat, [7])
    assert reprefilled(checked)[MissReason.EVICTED] > len(HISTORY)


@pytest.mark.parametrize("is_put_away", [False, True])
def test_naming_a_session_changes_nothing_about_what_is_found(checked: CheckedEngine, is_put_away: bool) -> None:
    """ggml-org/llama.cpp#24746 and #28139: with a session, new or long put away, less was found than without one."""
    old = checked.new_chat(ANNA, None)
    say(checked, old, HISTORY)
    path = old.paths[-1][:-1]
    found = []
    for chat in (None, checked.new_chat(ANNA, None), old):
        if is_put_away:
            checked.put_away(old, SessionState.DISK)
        # Each prompt ends otherwise, so that none finds the end of the one before.
        checked.ask(ANNA, chat, [*path, 210 + len(found)], 1, Priority.INTERACTIVE)
        checked.drain()
        found.append(checked.last_usage.cached_tokens)
    assert found == [len(path)] * 3


@pytest.mark.parametrize("steps", range(9))
def test_a_turn_that_is_dropped_at_any_stage_leaves_the_session_to_the_next(checked: CheckedEngine, steps: int) -> None:
    """sgl-project/sglang#31765 and #36475: the session stayed busy, or its context was lost."""
    chat = checked.new_chat(ANNA, None)
    say(checked, chat, HISTORY)
    committed = chat.paths[-1]
    checked.ask(ANNA, chat, [*committed, *HISTORY[:50]], 6, Priority.INTERACTIVE)
    for _ in range(steps):
        checked.step()
    for live in list(checked.live.values()):
        checked.cancel(live)
    # It takes up what was shown of the dropped turn; no time has passed.
    assert say(checked, chat, [7]) >= len(committed) - 1
    assert checked.small.clock.monotonic() == 0


def test_a_turn_that_is_dropped_while_its_history_is_brought_back_leaves_it_there(checked: CheckedEngine) -> None:
    chat = checked.new_chat(ANNA, None)
    say(checked, chat, HISTORY)
    committed = chat.paths[-1]
    checked.put_away(chat, SessionState.DISK)
    checked.small.transfers.hang("reads", checked.small.clock.advance)
    checked.ask(ANNA, chat, [*committed, 7], 6, Priority.INTERACTIVE)
    checked.step()
    (live,) = checked.live.values()
    assert live.sequence.state is SequenceState.RESTORING
    checked.cancel(live)
    checked.small.transfers.go_on()
    chat.paths.append(committed)
    assert say(checked, chat, [7]) == len(committed) - 1


@pytest.mark.parametrize("shown", range(1, 12))
def test_stopping_an_answer_costs_nothing_of_the_history(checked: CheckedEngine, shown: int) -> None:
    """ggml-org/llama.cpp#29163"""
    chat = checked.new_chat(ANNA, None)
    checked.ask(ANNA, chat, HISTORY, 20, Priority.INTERACTIVE)
    (live,) = checked.live.values()
    while len(live.output) < shown and live.request.request_id in checked.live:
        checked.step()
    if live.request.request_id in checked.live:
        checked.cancel(live)
    before = len(chat.paths[-1])
    assert say(checked, chat, [7, 8, 9]) >= before - 2


def test_idle_sessions_of_five_times_the_memory_hold_up_nobody(checked: CheckedEngine) -> None:
    """sgl-project/sglang#27024: sessions that were open and silent held all memory, and new requests hung."""
    chats = []
    for number in range(DEVICE_PAGES):
        chats.append(checked.new_chat(ANNA, None))
        say(checked, chats[-1], [number, *HISTORY])
    assert sum(len(chat.paths[-1]) for chat in chats) > 5 * DEVICE_PAGES * 16
    checked.ask(ANNA, None, [250, *HISTORY], 1, Priority.INTERACTIVE)
    for _ in range(-(-len(HISTORY) // 32)):
        checked.step()
    assert not checked.live, "as many steps as in an empty engine"
    for chat in chats:
        say(checked, chat, [7])


# --- what is computed before anybody asks ----------------------------------------------------------------------------

BETWEEN = [3, 5, 8]


@pytest.fixture
def opening() -> Iterator[CheckedEngine]:
    """An engine whose template puts `BETWEEN` before what a user says after an answer."""
    small = SmallEngine(
        device_pages=DEVICE_PAGES,
        host_pages=40,
        disk_bytes=1 << 17,
        prefix_pages=6,
        context_tokens=240,
        between_ids=BETWEEN,
    )
    checked = CheckedEngine(small)
    yield checked
    checked.end()
    small.close()


def idle(checked: CheckedEngine) -> int:
    """Steps as the thread takes them while nobody asks; how many it took."""
    steps = 0
    while checked.small.engine.wait_s() == 0.0:
        checked.step()
        steps += 1
    return steps


@pytest.mark.parametrize("length", [1, 4])
def test_an_idle_engine_opens_the_next_turn(opening: CheckedEngine, length: int) -> None:
    chat = opening.new_chat(ANNA, None)
    say(opening, chat, HISTORY, length)
    path = chat.paths[-1]
    assert idle(opening) == 1
    assert opening.small.engine.wait_s() != 0.0, "once is enough"
    # What comes is as after a turn: its sampled token is nobody's, and all that its user says is computed.
    assert say(opening, chat, [*BETWEEN, 200, 201]) == len(path) + len(BETWEEN)


def test_a_turn_that_goes_on_otherwise_is_as_if_nothing_had_been_opened(opening: CheckedEngine) -> None:
    chat = opening.new_chat(ANNA, None)
    say(opening, chat, HISTORY)
    path = chat.paths[-1]
    idle(opening)
    assert say(opening, chat, [BETWEEN[0], 99]) == len(path) + 1
    chat.paths.append(path)
    assert say(opening, chat, [98]) == len(path)


def test_whoever_asks_goes_first(opening: CheckedEngine) -> None:
    """Nothing is opened beside an answer, and a turn that comes first makes it needless."""
    chat, other = opening.new_chat(ANNA, None), opening.new_chat(ANNA, None)
    opening.ask(ANNA, other, HISTORY[40:60], 30, Priority.INTERACTIVE)
    opening.ask(ANNA, chat, HISTORY[:20], 1, Priority.INTERACTIVE)
    while len(opening.live) == 2:
        opening.step()
    computed = set(opening.small.computed)
    opening.step()
    assert set(opening.small.computed) == computed, "the other answer runs"
    assert say(opening, chat, [*BETWEEN, 7]) < len(chat.paths[0]) + len(BETWEEN)


@pytest.mark.parametrize("end", ["session", "user", "evicted", "cancelled"])
def test_nothing_is_opened_for_a_session_that_has_gone(opening: CheckedEngine, end: str) -> None:
    chat = opening.new_chat(ANNA, None)
    if end == "cancelled":
        opening.ask(ANNA, chat, HISTORY, 30, Priority.INTERACTIVE)
        for _ in range(6):
            opening.step()
        opening.cancel(*opening.live.values())
    else:
        say(opening, chat, HISTORY)
    match end:
        case "session":
            opening.delete_chat(chat)
        case "user":
            opening.delete_user(ANNA)
        case "evicted":
            opening.put_away(chat, SessionState.DISK)
    computed = set(opening.small.computed)
    if end in ("session", "user"):
        assert not opening.small.engine._groundwork._openings, "no word of what was deleted is kept"
    opening.step()
    assert set(opening.small.computed) == computed
    assert opening.small.engine.wait_s() != 0.0


@pytest.mark.parametrize("host_pages", [0, 20])
def test_an_opening_ends_with_its_session(host_pages: int) -> None:
    """Found by the random operations: it published pages in the name of a session that had gone."""
    small = SmallEngine(
        device_pages=16,
        host_pages=host_pages,
        disk_bytes=0,
        prefix_pages=6,
        context_tokens=160,
        max_step_tokens=1,
        between_ids=BETWEEN,
    )
    checked = CheckedEngine(small)
    try:
        chat = checked.new_chat(ANNA, None)
        say(checked, chat, HISTORY[:15])
        checked.step()
        assert small.engine.has_work, "the next turn is being opened"
        checked.evict(chat)
        checked.step()
        checked.step()
        assert not small.engine.has_work
        checked.end()
    finally:
        small.close()
