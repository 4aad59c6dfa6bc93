"""The tiny engine, stepped by a test: requests in, events out, and a decoder that says what it is told."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from engine.core import Engine
from engine.model.batch import ForwardBatch
from engine.types import EngineEvent, Finished, GenerationRequest, TextDelta
from tests.support.tiny_model import END, PIECES, TinyDecoder, TinyTokenizer

TOKENIZER = TinyTokenizer()


def submit(engine: Engine, *requests: GenerationRequest, at: float = 0.0) -> None:
    for one in requests:
        engine.submit(one, TOKENIZER.encode_turns(one.turns), at)


def run(engine: Engine, limit: int = 10_000) -> list[EngineEvent]:
    events: list[EngineEvent] = []
    for _ in range(limit):
        events += engine.step()
        if not engine.has_work:
            return events
    raise AssertionError("the engine does not come to an end")


def finished(events: Iterable[EngineEvent], name: str) -> Finished:
    (found,) = [event for event in events if isinstance(event, Finished) and event.request_id == name]
    return found


def text(events: Iterable[EngineEvent], name: str) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta) and event.request_id == name)


def says(*pieces: bytes, then: int | None = None) -> TinyDecoder:
    """A decoder that says these pieces after the prompt, whatever the prompt was, and then `then` for ever."""
    script = [PIECES.index(piece) for piece in pieces]
    return Scripted([*script, END if then is None else then])


class Scripted(TinyDecoder):
    def __init__(self, script: list[int]) -> None:
        super().__init__()
        self.script = script
        self.prompt_tokens: int | None = None

    def forward(self, batch: ForwardBatch, cache: object) -> torch.Tensor:
        self.before_forward(batch)
        ends = batch.query_starts[1:].tolist()
        lengths = []
        for row in batch.logit_rows.tolist():
            owner = next(place for place, end in enumerate(ends) if row < end)
            lengths.append(int(batch.context_lens[owner]) - (ends[owner] - 1 - row))
        logits = torch.zeros(len(lengths), END + 1)
        for row, length in enumerate(lengths):
            self.prompt_tokens = self.prompt_tokens or length
            said = length - self.prompt_tokens
            logits[row, self.script[min(said, len(self.script) - 1)]] = 1.0
        return logits
