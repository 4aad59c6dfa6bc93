"""What one step does, as a value: made by `engine.scheduler`, carried out by `engine.runner`. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import EngineError
from engine.sequence import Sequence


class EngineStalled(EngineError):
    """Sequences are there and none can run: a bug, whatever the load (vllm-project/vllm#45388)."""

    def __init__(self, waiting: int, running: int, free_pages: int, num_pages: int) -> None:
        super().__init__(
            f"{waiting} sequences wait and {running} hold memory, but none can run; {free_pages} of {num_pages} pages are free"
        )


@dataclass(frozen=True, slots=True)
class Scheduled:
    """Tokens `start` to `end` of a sequence are computed in this step."""

    sequence: Sequence
    start: int
    end: int

    @property
    def num_tokens(self) -> int:
        return self.end - self.start

    @property
    def samples(self) -> bool:
        """Whether the step reaches the sequence's last token, so that the next one can be sampled."""
        return self.end == len(self.sequence.tokens)


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What one step does. Every sequence is in exactly one of the three; those in `wait` keep the pages they have."""

    run: tuple[Scheduled, ...]
    preempt: tuple[Sequence, ...]
    wait: tuple[Sequence, ...]
