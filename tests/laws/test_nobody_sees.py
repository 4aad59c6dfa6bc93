"""Law 5: what one user sees does not depend on what another has said, except personas.

Anna and Bert use one engine. In one world Anna says exactly what Bert is going to say; in the other she says as much, in other
words. Everything Bert can see has to be the same in both, step by step: the ids, the progress, his place in the queue, the number
of steps until his first token, and `cached_tokens`. The clock goes by the tokens that are computed, as a real one does.

That is without speculation. With it an answer that repeats its own conversation is computed in fewer and longer steps, and Bert
feels that as he feels how long Anna's answers are: on the clock, and in nothing that he is given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.core import Engine
from engine.types import EngineEvent, EngineState, Finished, GenerationRequest, Namespace, Priority, TextDelta, Turn
from tests.support.tiny_model import (
    TinyDecoder,
    TinyTokenizer,
    repeating_logits,
    request,
    tiny_engine,
    tiny_logits,
)

ANNA, BERT = Namespace.user("anna"), Namespace.user("bert")
OTHER_WORDS = str.maketrans("abc", "xyz")
PERSONA = (replace(request("", "p" * 40).turns[0], role=request("").turns[0].role.SYSTEM),)


@dataclass(frozen=True)
class Saying:
    """Something said by one of the two, in one of their chats, with the persona or without, so many steps after the last one."""

    is_anna: bool
    text: str
    chat: int
    has_persona: bool
    priority: Priority
    steps_before: int


sayings = st.builds(
    Saying,
    st.booleans(),
    st.text(alphabet="abc", min_size=1, max_size=60),
    st.integers(0, 1),
    st.booleans(),
    st.sampled_from(Priority),
    st.integers(0, 12),
)


class World:
    """One engine, and all that Bert sees of it."""

    def __init__(
        self,
        num_pages: int,
        anna_speaks_otherwise: bool,
        *,
        one_namespace: bool = False,
        max_running: int = 3,
        speculation_tokens: int = 0,
    ) -> None:
        self.tokenizer = TinyTokenizer()
        self.decoder = TinyDecoder(repeating_logits if speculation_tokens else tiny_logits)
        self.max_tokens = 20 if speculation_tokens else 6
        self.now = 0.0
        self.engine: Engine = tiny_engine(
            num_pages=num_pages,
            max_running=max_running,
            speculation_tokens=speculation_tokens,
            decoder=self.decoder,
            tokenizer=self.tokenizer,
            clock=lambda: self.now,
            host_memory_bytes=8 * 256,
        )
        self.anna_speaks_otherwise = anna_speaks_otherwise
        self.anna = BERT if one_namespace else ANNA
        self.seen: list[tuple[float, EngineEvent]] = []
        self.engine.set_prefix("guide", self.tokenizer.prefix_ids(PERSONA))

    def run(self, script: list[Saying]) -> list[tuple[float, EngineEvent]]:
        """Everything that Bert is told, and when."""
        for number, saying in enumerate(script):
            for _ in range(saying.steps_before):
                self.step()
            self.say(number, saying)
        while self.engine.has_work:
            self.step()
        return self.seen

    def run_in_turn(self, script: list[Saying]) -> list[EngineEvent]:
        """What Bert is given, without the clock: he speaks when the persona is there and his last answer has ended."""
        while self.engine.wait_s() == 0.0:
            self.step()
        num_asked = 0
        for number, saying in enumerate(script):
            for _ in range(saying.steps_before):
                self.step()
            while not saying.is_anna and self.num_ended < num_asked:
                self.step()
            num_asked += not saying.is_anna
            self.say(number, saying)
        while self.engine.has_work:
            self.step()
        return [without_times(event) for _, event in self.seen if isinstance(event, TextDelta | Finished)]

    @property
    def num_ended(self) -> int:
        """Of Bert's answers."""
        return sum(isinstance(event, Finished) for _, event in self.seen)

    @property
    def num_accepted(self) -> int:
        return self.engine.stats(EngineState.READY, threads=1).accepted_tokens_total

    def say(self, number: int, saying: Saying) -> None:
        text = saying.text
        if saying.is_anna and self.anna_speaks_otherwise:
            text = text.translate(OTHER_WORDS)
        turns: tuple[Turn, ...] = request("", text).turns
        asked: GenerationRequest = replace(
            request(f"{'anna' if saying.is_anna else 'bert'} {number}", max_tokens=self.max_tokens, ignore_eos=True),
            turns=(*PERSONA, *turns) if saying.has_persona else turns,
            namespace=self.anna if saying.is_anna else BERT,
            session=f"chat {saying.chat}",
            persona="guide" if saying.has_persona else None,
            priority=saying.priority,
        )
        self.engine.submit(asked, self.tokenizer.encode_turns(asked.turns), self.now)

    def step(self) -> None:
        steps_before = len(self.decoder.batches)
        events = self.engine.step()
        for batch in self.decoder.batches[steps_before:]:
            self.now += 0.001 + 0.0001 * len(batch.token_ids)
        self.seen += [(self.now, event) for event in events if event.request_id.startswith("bert")]


def without_times(event: TextDelta | Finished) -> EngineEvent:
    if isinstance(event, TextDelta):
        return event
    return replace(event, usage=replace(event.usage, queue_ms=None, prefill_ms=None, ttft_ms=None, decode_ms=None))


# With speculation the clock tells one of Anna's texts from the other.
REPEATING = [
    Saying(False, "a", 0, False, Priority.INTERACTIVE, 0),
    Saying(False, "a", 0, False, Priority.INTERACTIVE, 0),
    Saying(True, "aaccca", 0, False, Priority.INTERACTIVE, 0),
]


@settings(max_examples=120, deadline=None)
@given(st.lists(sayings, max_size=10), st.sampled_from([12, 16, 24, 64]))
@example(REPEATING, 12)
def test_what_bert_sees_is_the_same_whatever_anna_says(script: list[Saying], num_pages: int) -> None:
    assert World(num_pages, False).run(script) == World(num_pages, True).run(script)


@settings(max_examples=60, deadline=None)
@given(st.lists(sayings, max_size=8))
@example(REPEATING)
def test_with_speculation_what_bert_is_given_is_the_same_whatever_anna_says(script: list[Saying]) -> None:
    """His text, what of it was found, and where, as long as there is memory and a place for all of it."""
    world, other = (World(256, speaks, max_running=16, speculation_tokens=6) for speaks in (False, True))
    assert world.run_in_turn(script) == other.run_in_turn(script)


def test_that_comparison_has_drafts_in_it_that_the_clock_tells_of() -> None:
    """Else it would not be about speculation. Turned off, the clock tells nothing: that is the first law."""
    world, other = (World(256, speaks, max_running=16, speculation_tokens=6) for speaks in (False, True))
    assert world.run(REPEATING) != other.run(REPEATING)
    assert world.num_accepted > 0 < other.num_accepted


def test_the_comparison_notices_pages_that_are_shared() -> None:
    """Else the law above could not fail: here both are given one namespace, as a bug in the server would."""
    text = "abc" * 15
    script = [
        Saying(True, text, 0, False, Priority.INTERACTIVE, 0),
        Saying(False, text, 1, False, Priority.INTERACTIVE, 20),
    ]
    assert World(64, False).run(script) == World(64, True).run(script)
    seen, otherwise = (World(64, speaks, one_namespace=True).run(script) for speaks in (False, True))
    assert seen != otherwise
