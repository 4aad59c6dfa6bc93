"""Law 5: what one user sees does not depend on what another has said, except personas.

Anna and Bert use one engine. In one world Anna says exactly what Bert is going to say; in the other she says as much, in other
words. Everything Bert can see has to be the same in both, step by step: the ids, the progress, his place in the queue, the number
of steps until his first token, and `cached_tokens`. The clock goes by the tokens that are computed, as a real one does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core import Engine
from engine.types import EngineEvent, GenerationRequest, Namespace, Priority, Turn
from tests.support.tiny_model import TinyDecoder, TinyTokenizer, request, tiny_engine

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

    def __init__(self, num_pages: int, anna_speaks_otherwise: bool, one_namespace: bool = False) -> None:
        self.tokenizer = TinyTokenizer()
        self.decoder = TinyDecoder()
        self.now = 0.0
        self.engine: Engine = tiny_engine(
            num_pages=num_pages,
            max_running=3,
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
        for number, saying in enumerate(script):
            for _ in range(saying.steps_before):
                self.step()
            self.say(number, saying)
        while self.engine.has_work:
            self.step()
        return self.seen

    def say(self, number: int, saying: Saying) -> None:
        text = saying.text
        if saying.is_anna and self.anna_speaks_otherwise:
            text = text.translate(OTHER_WORDS)
        turns: tuple[Turn, ...] = request("", text).turns
        asked: GenerationRequest = replace(
            request(f"{'anna' if saying.is_anna else 'bert'} {number}", max_tokens=6, ignore_eos=True),
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


@settings(max_examples=120, deadline=None)
@given(st.lists(sayings, max_size=10), st.sampled_from([12, 16, 24, 64]))
def test_what_bert_sees_is_the_same_whatever_anna_says(script: list[Saying], num_pages: int) -> None:
    assert World(num_pages, False).run(script) == World(num_pages, True).run(script)


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
