"""An engine whose laws are checked after every step: whatever is done with it, it says at once what was broken.

`random_operations.py` plays users, administrators and accidents with it. What it is compared with is `reference_ids`, the answer
without any cache, and `ReuseModel`, what each user may find.

    L2  every id is the one that the whole history gives without any cache
    L3  the joined deltas are the decoded ids
    L4  the books agree after every step, and at idle all pages are cached or free
    L5  what is found was this very user's own, or its persona's; what was deleted is not found, and has no file
    L7  whatever is asked ends, or is answered, within a bounded number of steps
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from engine.errors import EngineError
from engine.sequence import Sequence
from engine.session import rank
from engine.snapshot import SessionState
from engine.types import (
    EngineEvent,
    Finished,
    FinishReason,
    GenerationRequest,
    Namespace,
    Priority,
    PromptProgress,
    RequestId,
    SamplingParams,
    SessionKey,
    TextDelta,
    Usage,
)
from tests.support.reuse_model import ReuseModel, Said
from tests.support.small_engine import SmallEngine, check_books
from tests.support.tiny_model import END, TinyTokenizer, reference_ids

STEPS_BEYOND_WORK = 40
"""What a request may wait for besides tokens: pages from other tiers, a disk that hangs, passing others by."""


@dataclass(eq=False)
class Chat:
    """A conversation as the server would store it: `paths` are what its turns have come to."""

    key: SessionKey
    persona: str | None
    paths: list[list[int]] = field(default_factory=list)


@dataclass(eq=False)
class Live:
    """A request that has not ended. `expected` are the ids that it has to have, all of them."""

    request: GenerationRequest
    chat: Chat | None
    sequence: Sequence
    said: Said
    public_tokens: int
    expected: list[int]
    own_tokens: int = 0
    """The most of its prompt that its user had said by the time it began."""
    cached_tokens: int | None = None
    text: list[str] = field(default_factory=list)
    is_cancelled: bool = False

    @property
    def prompt(self) -> list[int]:
        return self.sequence.tokens[: self.sequence.num_prompt_tokens]

    @property
    def output(self) -> list[int]:
        return self.sequence.tokens[self.sequence.num_prompt_tokens :]


def nothing() -> None:
    """Where there is nothing to be done or checked."""


@dataclass(eq=False)
class Question:
    """Something that was asked of the engine besides answers. `again` asks it again after a restart; `check` is for the reply."""

    name: str
    again: Callable[[], None] = nothing
    check: Callable[[], None] = nothing


class CheckedEngine:
    """Owns the engine and what is known about it from outside. Every method but `step` does one thing and steps not at all."""

    def __init__(self, small: SmallEngine) -> None:
        self.small = small
        self.tokenizer = TinyTokenizer()
        self.model = ReuseModel({"": tuple(self.tokenizer.prefix_ids(()))})
        self.chats: list[Chat] = []
        self.live: dict[RequestId, Live] = {}
        self.unanswered: list[Question] = []
        self.found: Counter[str] = Counter()
        """Tokens that were not computed again, by where they came from. Finding nothing breaks no law, and shows nothing."""
        self.last_usage = Usage()
        """Of the request that ended last."""
        self._num_requests = 0
        self._may_fail = False

    # --- what users do -----------------------------------------------------------------------------------------------

    def new_chat(self, user: Namespace, persona: str | None) -> Chat:
        self.chats.append(Chat(SessionKey(user, f"chat {self._num_requests}"), persona))
        return self.chats[-1]

    def ask(
        self, user: Namespace | None, chat: Chat | None, prompt: list[int], length: int, priority: Priority
    ) -> None:
        prompt = prompt[: self.small.context_tokens - 1]
        self._num_requests += 1
        request = GenerationRequest(
            RequestId(f"request {self._num_requests}"),
            (),
            SamplingParams(temperature=0.0, max_tokens=length),
            namespace=user,
            session=chat.key.name if chat is not None else None,
            persona=chat.persona if chat is not None else None,
            priority=priority,
        )
        engine = self.small.engine
        engine.submit(request, list(prompt), self.small.clock.monotonic())
        sequence = engine._answers[request.request_id].sequence
        expected = reference_ids(prompt, min(length, self.small.context_tokens - len(prompt)))
        public_tokens = self.model.public_tokens(request.persona, prompt) if user is not None else 0
        said = Said(user, request.session_key, sequence.tokens)
        self.model.said.append(said)
        self.live[request.request_id] = Live(request, chat, sequence, said, public_tokens, expected)

    def cancel(self, live: Live) -> None:
        live.is_cancelled = True
        self.small.engine.cancel(live.request.request_id)
        self._take(self.small.engine.take_events())
        assert live.request.request_id not in self.live, "a cancel takes effect at once"

    # --- what administrators do --------------------------------------------------------------------------------------

    def evict(self, chat: Chat) -> None:
        self.small.engine.evict_session(chat.key, self._reply(Question("evict")))

    def put_away(self, chat: Chat, to: SessionState) -> None:
        """Evict until it is there, as far as that is possible now."""
        for _ in range(2):
            session = self.small.engine._memory.sessions.get(chat.key)
            if session is not None and rank(session.state) < rank(to):
                self.evict(chat)
                self.step()
                self.step()

    def delete_chat(self, chat: Chat) -> None:
        self._expect_cancelled(lambda live: live.chat is chat)
        self._drop_session(chat)
        self.chats.remove(chat)
        self.model.forget(lambda said: said.session == chat.key)
        owners = {owner.key for page in self.small.engine._scheduler.cache for owner in page.owners}
        assert chat.key not in owners, "L5: a conversation was deleted, and owns pages"

    def _drop_session(self, chat: Chat) -> None:
        def check() -> None:
            assert not self.small.has_files_of(chat.key), "L5: a conversation was deleted, and has files"

        question = Question("delete a chat", lambda: self._drop_session(chat), check)
        self.small.engine.drop_session(chat.key, self._reply(question))
        self._take(self.small.engine.take_events())

    def delete_user(self, user: Namespace) -> None:
        self._expect_cancelled(lambda live: live.request.namespace is not None and user.covers(live.request.namespace))

        def check() -> None:
            assert user.part or not self.small.has_files_of_user(user), "L5: a user was deleted, and has files"

        question = Question("delete a user", lambda: self.delete_user(user), check)
        self.small.engine.drop_namespace(user, self._reply(question))
        self._take(self.small.engine.take_events())
        self.chats = [chat for chat in self.chats if not user.covers(chat.key.namespace)]
        self.model.forget(lambda said: said.namespace is not None and user.covers(said.namespace))
        left = [page for page in self.small.engine._scheduler.cache if user.covers(page.namespace)]
        assert not left, "L5: a user was deleted, and has pages"

    def save_persona(self, name: str, ids: list[int]) -> None:
        self.small.engine.set_prefix(name, list(ids), self._reply(Question("save a persona")))
        self.model.prefixes[name] = tuple(ids)

    def delete_persona(self, name: str) -> None:
        def again() -> None:
            if name not in self.model.prefixes:
                self.delete_persona(name)

        self.small.engine.drop_prefix(name, self._reply(Question("delete a persona", again)))
        self.model.prefixes.pop(name, None)

    def restart(self, *, in_order: bool, seconds: float) -> None:
        """The server is stopped, or killed, and started again after so much time."""
        if in_order:
            self._may_fail = True
            self._take(self.small.stop())
            self._may_fail = False
            assert not self.live
        else:
            self.small.kill()
            for live in list(self.live.values()):
                self._end(live, None)
        unanswered, self.unanswered = self.unanswered, []
        self.small.clock.advance(seconds)
        self.small.start()
        for name, ids in self.model.prefixes.items():
            if name:
                self.save_persona(name, list(ids))
        # As the server does at a start: what was to be deleted, and may not have been, is deleted again.
        for question in unanswered:
            question.again()

    def fail_a_step(self) -> None:
        """The model fails in the next step, if there is one now."""
        self._may_fail = self.small.decoder.fail_next = True
        self.step()
        self._may_fail = self.small.decoder.fail_next = False

    # --- what is checked ---------------------------------------------------------------------------------------------

    def step(self) -> None:
        """One step, and all that must hold after it."""
        engine = self.small.engine
        # As the engine's thread does: it sleeps until something is due.
        wait_s = engine.wait_s()
        assert wait_s is not None or not self.live, "L7: requests wait, and nothing is due"
        if self.live and wait_s:
            self.small.clock.advance(wait_s)
        for live in self.live.values():
            if live.cached_tokens is None:
                own = self.model.own_tokens(live.request.namespace, live.prompt, but=live.said)
                live.own_tokens = max(live.own_tokens, own)
        self._take(engine.step())
        assert engine.failure is None
        check_books(engine)
        assert self.small.disk_bytes() <= self.small.config.disk_bytes
        # A session that is not there any more is found by nobody, unless somebody else of its user said the same.
        there = {session.key for session in engine._memory.sessions}
        self.model.forget(lambda said: said.is_over and said.session is not None and said.session not in there)

    def drain(self) -> None:
        """Until every request has ended and every question is answered. Each token costs a step at most, and as often again
        as memory is short."""
        work = sum(len(live.prompt) + len(live.expected) for live in self.live.values())
        bound = STEPS_BEYOND_WORK + 4 * work
        for _ in range(bound):
            if not self.live:
                break
            self.step()
        assert not self.live, f"L7: {len(self.live)} requests have not ended within {bound} steps"

    def end(self) -> None:
        """Everybody goes, and nothing is left: no page, no slot, no file."""
        self.drain()
        self.small.transfers.go_on()
        for user in (Namespace.user("anna"), Namespace.user("bert")):
            self.delete_user(user)
        for name in list(self.model.prefixes):
            self.delete_persona(name)
        for _ in range(3):
            self.step()
        assert not self.unanswered, f"L7: nobody answered {self.unanswered}"
        public = [page for page in self.small.engine._scheduler.cache if page.owners]
        assert not public, "a persona was deleted, and owns pages"
        assert not self.small.files(), "L5: everything was deleted, and has files"
        assert self.small.engine._memory.tiers.disk.pages == 0
        self.small.stop()

    def _take(self, events: Iterable[EngineEvent]) -> None:
        for live in self.live.values():
            output = live.output
            assert output == live.expected[: len(output)], "L2: ids differ from those without a cache"
        for event in events:
            assert event.request_id in self.live, "an event of a request that has ended"
            live = self.live[event.request_id]
            match event:
                case TextDelta(text=text):
                    live.text.append(text)
                case PromptProgress(cached_tokens=cached_tokens):
                    live.cached_tokens = cached_tokens
                case Finished():
                    self._end(live, event)

    def _end(self, live: Live, event: Finished | None) -> None:
        """A request is over; without an event, because the process was killed."""
        del self.live[live.request.request_id]
        live.said.is_over = True
        shown = [token for token in live.output if token != END]
        if live.chat is not None:
            live.chat.paths.append([*live.prompt, *shown])
        if event is None:
            return
        if event.token_ids is not None:
            assert list(event.token_ids) == shown[: len(event.token_ids)]
            assert "".join(live.text) == self.tokenizer.decode(event.token_ids), "L3: deltas and ids differ"
        if event.reason in (FinishReason.STOP, FinishReason.LENGTH):
            if live.chat is not None:
                # The engine may have opened the next turn by itself.
                live.said.tokens = [*live.prompt, *shown, *self.small.between_ids]
            assert live.output == live.expected, "L2: the answer is not whole"
            if not live.sequence.num_preemptions:
                places = self.small.computed.pop(event.request_id)
                needed = range(event.usage.cached_tokens, len(live.prompt) + len(live.output) - 1)
                computed = [place for place in sorted(places) if place < needed.stop]
                assert computed == [*needed], (
                    f"{len(computed)} tokens were computed, and {needed.start} of {len(live.prompt)} found"
                )
                assert max(places.values()) == 1, "a token was computed twice"
        assert live.is_cancelled == (event.reason is FinishReason.CANCELLED)
        assert self._may_fail or event.reason is not FinishReason.FAILED, f"{event.failure} and nothing was done to it"
        self.last_usage = event.usage
        found = event.usage.cached_from
        assert event.usage.cached_tokens == found.total < event.usage.input_tokens
        assert live.cached_tokens in (None, found.total), "the count of what was found changed midway"
        assert found.prefix <= live.public_tokens, f"L5: {found} of a persona that allows {live.public_tokens}"
        assert found.total <= max(live.own_tokens, live.public_tokens), (
            f"L5: {found}, and {live.own_tokens} tokens are the user's own, {live.public_tokens} the persona's"
        )
        self.found.update(device=found.device, host=found.host, disk=found.disk, prefix=found.prefix)

    def _expect_cancelled(self, is_meant: Callable[[Live], bool]) -> None:
        for live in self.live.values():
            live.is_cancelled = live.is_cancelled or is_meant(live)

    def _reply(self, question: Question) -> Callable[[object], None]:
        self.unanswered.append(question)

        def reply(result: object) -> None:
            assert question in self.unanswered, f"{question} was answered twice"
            self.unanswered.remove(question)
            assert not isinstance(result, EngineError), f"{question}: {result}"
            question.check()

        return reply
