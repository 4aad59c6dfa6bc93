"""Users, personas, administrators and accidents in any order, in an engine whose every tier is too small.

`Operations` is the machine that `test_random_operations.py` runs, and `test_planted_bugs.py` too, with a bug in the engine. Each
rule is one operation and ends with some steps of the engine; `CheckedEngine` says what must hold after each.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from engine.core import MAX_FAILED_STEPS
from engine.snapshot import SessionState
from engine.types import Namespace, Priority
from tests.laws.checked_engine import CheckedEngine
from tests.support.small_engine import DAMAGES, SmallEngine

Item = TypeVar("Item")

USERS = (Namespace.user("anna"), Namespace.user("bert"), Namespace.user("anna", "desk"))
SHARED_OPENING = list(range(1, 21))
PERSONAS = {
    "cook": ([*SHARED_OPENING, *range(30, 60)], [*SHARED_OPENING[:10], *range(40, 71)]),
    "poet": ([*SHARED_OPENING, *range(80, 92)], list(range(120, 125))),
}
"""Two versions of each; the first ones begin alike."""
OPENINGS = {
    "none": [],
    **{f"{name} {version}": texts[version] for name, texts in PERSONAS.items() for version in range(2)},
}
MESSAGES = {
    "one token": [200],
    "short": [65, 66, 67, 68, 69, 70, 71],
    "a page": list(range(100, 116)),
    "long": list(range(150, 190)),
    "long, other end": [*range(150, 170), 9, 9],
}
"""A few that everybody says, so that the same history is many users'."""


def pick(data: st.DataObject, items: Sequence[Item]) -> Item:
    """One of these, named by its number alone: what is drawn is printed when a law is broken."""
    return items[data.draw(st.integers(0, len(items) - 1))]


class Operations(RuleBasedStateMachine):
    num_operations: ClassVar[int] = 0
    found: ClassVar[Counter[str]] = Counter()

    steps = st.sampled_from([0, 0, 1, 2, 4, 40])
    users = st.sampled_from(USERS)
    messages = st.sampled_from(list(MESSAGES))
    lengths = st.integers(1, 24)
    priorities = st.sampled_from(Priority)
    personas = st.sampled_from(list(PERSONAS))

    @initialize(
        device_pages=st.sampled_from([11, 16, 40]),
        host_pages=st.sampled_from([0, 6, 20]),
        disk_pages=st.sampled_from([0, 40, 200]),
        max_step_tokens=st.sampled_from([5, 32, 32]),
        batch_window_ms=st.sampled_from([0, 20]),
        speculation_tokens=st.sampled_from([0, 0, 2, 6]),
        between=st.sampled_from(["", *MESSAGES]),
    )
    def start(
        self,
        device_pages: int,
        host_pages: int,
        disk_pages: int,
        max_step_tokens: int,
        batch_window_ms: int,
        speculation_tokens: int,
        between: str,
    ) -> None:
        self.small = SmallEngine(
            device_pages=device_pages,
            host_pages=host_pages,
            disk_bytes=disk_pages * 600,
            prefix_pages=6,
            context_tokens=160,
            max_step_tokens=max_step_tokens,
            batch_window_ms=batch_window_ms,
            speculation_tokens=speculation_tokens,
            between_ids=MESSAGES.get(between, [])[:7],
        )
        self.checked = CheckedEngine(self.small)
        self.hanging_for = 0

    def teardown(self) -> None:
        if not hasattr(self, "checked"):
            return
        type(self).found.update(self.checked.found)
        try:
            # Where a law was broken already, that is what is to be reported.
            if sys.exc_info()[0] is None:
                self.checked.end()
        finally:
            self.small.close()

    def go_on(self, steps: int) -> None:
        """The end of every operation."""
        type(self).num_operations += 1
        self.hanging_for -= 1
        if not self.hanging_for:
            self.small.transfers.go_on()
        for _ in range(steps):
            self.checked.step()

    # --- turns -------------------------------------------------------------------------------------------------------

    @rule(
        user=users,
        persona=st.sampled_from([None, *PERSONAS]),
        opening=st.sampled_from(["its own", "its own", *OPENINGS]),
        message=messages,
        length=lengths,
        priority=priorities,
        steps=steps,
    )
    def create(
        self,
        user: Namespace,
        persona: str | None,
        opening: str,
        message: str,
        length: int,
        priority: Priority,
        steps: int,
    ) -> None:
        """A new conversation, mostly with its persona's own text, and sometimes with one that it has no right to."""
        chat = self.checked.new_chat(user, persona)
        registered = list(self.checked.model.prefixes.get(persona or "", ()))
        prompt = [*OPENINGS.get(opening, registered), *MESSAGES[message]]
        self.checked.ask(user, chat, prompt, length, priority)
        self.go_on(steps)

    @precondition(lambda self: self.checked.chats)
    @rule(data=st.data(), message=messages, length=lengths, priority=priorities, steps=steps)
    def turn(self, data: st.DataObject, message: str, length: int, priority: Priority, steps: int) -> None:
        """The next turn of a conversation, also while another one is still being answered."""
        chat = pick(data, self.checked.chats)
        path = chat.paths[-1] if chat.paths else []
        self.checked.ask(chat.key.namespace, chat, [*path, *MESSAGES[message]], length, priority)
        self.go_on(steps)

    @precondition(lambda self: any(chat.paths for chat in self.checked.chats))
    @rule(data=st.data(), message=st.sampled_from(["", *MESSAGES]), length=lengths, steps=steps)
    def edit(self, data: st.DataObject, message: str, length: int, steps: int) -> None:
        """Another wording somewhere in one of the branches, or the same prompt again."""
        chat = pick(data, [chat for chat in self.checked.chats if chat.paths])
        path = pick(data, chat.paths)
        prompt = [*path[: data.draw(st.integers(1, len(path)))], *MESSAGES.get(message, [])]
        self.checked.ask(chat.key.namespace, chat, prompt, length, Priority.INTERACTIVE)
        self.go_on(steps)

    @rule(
        user=st.sampled_from([None, *USERS]),
        opening=st.sampled_from(list(OPENINGS)),
        message=messages,
        length=lengths,
        steps=steps,
    )
    def ask_once(self, user: Namespace | None, opening: str, message: str, length: int, steps: int) -> None:
        """A request without a session, or even without anybody's name."""
        self.checked.ask(user, None, [*OPENINGS[opening], *MESSAGES[message]], length, Priority.BOT)
        self.go_on(steps)

    @precondition(lambda self: self.checked.live)
    @rule(data=st.data(), steps=steps)
    def cancel(self, data: st.DataObject, steps: int) -> None:
        live = pick(data, list(self.checked.live.values()))
        self.checked.cancel(live)
        self.small.engine.cancel(live.request.request_id)
        assert self.small.engine.take_events() == [], "the second time nothing happens"
        self.go_on(steps)

    @rule()
    def drain(self) -> None:
        self.checked.drain()
        self.go_on(0)

    @precondition(lambda self: self.checked.chats)
    @rule(data=st.data(), messages=st.lists(messages, min_size=1, max_size=3))
    def talk(self, data: st.DataObject, messages: list[str]) -> None:
        """Some turns of one conversation, each after the answer to the one before."""
        chat = pick(data, self.checked.chats)
        for message in messages:
            path = chat.paths[-1][:100] if chat.paths else []
            self.checked.ask(chat.key.namespace, chat, [*path, *MESSAGES[message]], 6, Priority.INTERACTIVE)
            self.checked.drain()
        self.go_on(0)

    @precondition(lambda self: any(chat.paths for chat in self.checked.chats))
    @rule(
        data=st.data(),
        to=st.sampled_from([SessionState.HOST, SessionState.DISK]),
        damage=st.sampled_from([None, None, *DAMAGES]),
        seed=st.integers(0, 999),
    )
    def come_back(self, data: st.DataObject, to: SessionState, damage: str | None, seed: int) -> None:
        """A conversation is put away and goes on from there, though something may have happened to it."""
        chat = pick(data, [chat for chat in self.checked.chats if chat.paths])
        self.checked.drain()
        self.checked.put_away(chat, to)
        if damage is not None:
            self.small.damage(damage, seed, chat.key)
        self.checked.ask(chat.key.namespace, chat, [*chat.paths[-1][:140], 7], 4, Priority.INTERACTIVE)
        self.checked.drain()
        self.go_on(0)

    # --- what becomes of sessions ------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1, 100, 301, 301, 1801, 86_401]), steps=steps)
    def wait(self, seconds: int, steps: int) -> None:
        self.small.clock.advance(seconds)
        self.go_on(1 + steps)

    @precondition(lambda self: self.checked.chats)
    @rule(data=st.data(), steps=steps)
    def evict(self, data: st.DataObject, steps: int) -> None:
        self.checked.evict(pick(data, self.checked.chats))
        self.go_on(steps)

    @precondition(lambda self: self.checked.chats)
    @rule(data=st.data(), is_everything=st.sampled_from([False, False, True]), is_on_disk=st.booleans(), steps=steps)
    def delete(self, data: st.DataObject, is_everything: bool, is_on_disk: bool, steps: int) -> None:
        """A conversation, or everything of its user."""
        chat = pick(data, self.checked.chats)
        if is_on_disk:
            self.checked.put_away(chat, SessionState.DISK)
        if is_everything:
            self.checked.delete_user(chat.key.namespace)
        else:
            self.checked.delete_chat(chat)
        self.go_on(steps)

    @rule(name=personas, version=st.integers(0, 1), steps=steps)
    def save_persona(self, name: str, version: int, steps: int) -> None:
        self.checked.save_persona(name, PERSONAS[name][version])
        self.go_on(steps)

    @rule(name=personas, steps=steps)
    def delete_persona(self, name: str, steps: int) -> None:
        self.checked.delete_persona(name)
        self.go_on(steps)

    @rule()
    def look(self) -> None:
        """What a dashboard asks for changes nothing and contradicts nothing."""
        snapshot = self.small.engine.snapshot()
        assert len(snapshot.pages) == self.small.engine._scheduler.pool.num_pages
        assert {status.key for status in snapshot.sessions} == {
            session.key for session in self.small.engine._memory.sessions
        }
        self.go_on(0)

    # --- accidents ---------------------------------------------------------------------------------------------------

    @rule(how=st.sampled_from(DAMAGES), seed=st.integers(0, 999), steps=steps)
    def damage_a_file(self, how: str, seed: int, steps: int) -> None:
        self.small.damage(how, seed)
        self.go_on(steps)

    @rule(lane=st.sampled_from(["reads", "writes"]), operations=st.integers(2, 6), steps=steps)
    def let_the_disk_hang(self, lane: str, operations: int, steps: int) -> None:
        self.small.transfers.hang(lane, self.small.clock.advance)
        self.hanging_for = operations
        self.go_on(steps)

    @precondition(lambda self: self.small.engine._failed_steps < MAX_FAILED_STEPS - 1)
    @rule()
    def fail_a_step(self) -> None:
        self.checked.fail_a_step()
        self.go_on(1)

    @rule(in_order=st.booleans(), seconds=st.sampled_from([0, 0, 100, 1801, 86_401]), steps=steps)
    def restart(self, in_order: bool, seconds: int, steps: int) -> None:
        self.checked.restart(in_order=in_order, seconds=seconds)
        self.go_on(steps)
