"""Nobody else's words appear, under pressure and with people who give up: the fault that matters most.

Other engines gave answers with details found only in another customer's document, while usage claimed that nothing was cached
(ggml-org/llama.cpp#27148, ollama/ollama#17475, ml-explore/mlx-lm#965). The tiny model's next token depends on every token
before it, read through the pages, and the decoder looks at every place it reads. So one foreign page is a wrong answer.
"""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core import Engine
from engine.types import EngineState, Finished, FinishReason, Namespace, Role, Turn
from tests.support.tiny_model import TinyDecoder, TinyTokenizer, reference_ids, request, tiny_engine

SESSIONS = 32
TURNS = 500
PAGE_BYTES = 256


class MarkedChats:
    """Sessions whose texts are full of a marker of their own, four users with eight sessions each."""

    def __init__(self, engine: Engine, tokenizer: TinyTokenizer, seed: int) -> None:
        self.engine = engine
        self.tokenizer = tokenizer
        self.chance = random.Random(seed)
        self.histories: list[list[Turn]] = [[] for _ in range(SESSIONS)]
        self.asked: dict[str, tuple[int, list[Turn], list[int]]] = {}
        self.cached_tokens = self.input_tokens = self.finished = 0

    def ask(self, number: int) -> None:
        session = self.chance.choice([place for place in range(SESSIONS) if not self.is_busy(place)])
        marker = f"<{session}>"
        history = [*self.histories[session], Turn(Role.USER, marker * self.chance.randint(1, 12))]
        if len(history) > 7:
            history = history[-1:]
        asked = replace(
            request(f"{number}", max_tokens=self.chance.randint(1, 8), ignore_eos=True),
            turns=tuple(history),
            namespace=Namespace.user(f"user {session % 4}"),
            session=f"session {session}",
        )
        ids = self.tokenizer.encode_turns(asked.turns)
        self.asked[f"{number}"] = session, history, ids
        self.engine.submit(asked, list(ids), 0.0)

    def is_busy(self, session: int) -> bool:
        return any(session == other for other, _, _ in self.asked.values())

    def take(self, end: Finished) -> None:
        session, history, ids = self.asked.pop(end.request_id)
        self.finished += 1
        self.input_tokens += end.usage.input_tokens
        self.cached_tokens += end.usage.cached_tokens
        answer = end.token_ids or ()
        assert list(answer) == reference_ids(ids, len(answer), stop_at=frozenset())
        if end.reason is not FinishReason.CANCELLED:
            assert end.reason is FinishReason.LENGTH
        self.histories[session] = [*history, Turn(Role.ASSISTANT, "", tuple(answer))]


@pytest.mark.parametrize("gives_up", [False, True])
def test_under_pressure_every_answer_is_ones_own(tmp_path: Path, gives_up: bool) -> None:
    woken = threading.Event()
    tokenizer = TinyTokenizer()
    engine = tiny_engine(
        num_pages=40,
        context_tokens=480,
        max_running=6,
        decoder=TinyDecoder(),
        tokenizer=tokenizer,
        wake=woken.set,
        host_memory_bytes=60 * PAGE_BYTES,
        disk_folder=tmp_path / "kv",
        disk_bytes=4_000_000,
    )
    chats = MarkedChats(engine, tokenizer, seed=11)
    asked = 0
    while asked < TURNS or chats.asked:
        if asked < TURNS and len(chats.asked) < 8:
            chats.ask(asked)
            asked += 1
        if gives_up and chats.asked and chats.chance.random() < 0.1:
            engine.cancel(request(chats.chance.choice(list(chats.asked))).request_id)
        if engine.wait_s() != 0.0 and engine.has_transfers:
            assert woken.wait(10)
            woken.clear()
        for event in engine.step():
            if isinstance(event, Finished):
                chats.take(event)
    assert chats.finished == TURNS
    assert chats.cached_tokens > 0
    stats = engine.stats(EngineState.READY, 1)
    found = {source for source in ("device", "host", "disk") if getattr(stats.prefix_tokens_hit, source)}
    assert found == {"device", "host", "disk"}, "the pressure was not what this test is about"
    if not gives_up and not stats.preemptions_total:
        assert stats.prefilled_tokens_total == chats.input_tokens - chats.cached_tokens
