"""What one step does, as a value: made by `engine.scheduler`, carried out by `engine.runner`. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import EngineError
from engine.pages import pages_for
from engine.sequence import Sequence
from engine.step_size import StepLoad


class EngineStalled(EngineError):
    """Sequences are there and none can run: a bug, whatever the load (vllm-project/vllm#45388)."""

    def __init__(self, waiting: int, running: int, free_pages: int, num_pages: int) -> None:
        super().__init__(
            f"{waiting} sequences wait and {running} hold memory, but none can run; {free_pages} of {num_pages} pages are free"
        )


@dataclass(frozen=True, slots=True)
class Scheduled:
    """Tokens `start` to `end` of a sequence are computed in this step, and behind them a `draft` of those that may follow.

    Only what reaches the sequence's last token has a draft. Its tokens are no part of the sequence.
    """

    sequence: Sequence
    start: int
    end: int
    draft: tuple[int, ...] = ()

    @property
    def num_tokens(self) -> int:
        """Of the sequence itself."""
        return self.end - self.start

    @property
    def draft_end(self) -> int:
        """Where the KV ends that the step writes."""
        return self.end + len(self.draft)

    @property
    def num_pages_lacking(self) -> int:
        """Beside those the sequence has."""
        return max(0, pages_for(self.draft_end) - len(self.sequence.pages))

    @property
    def samples(self) -> bool:
        """Whether the step reaches the sequence's last token, so that the next one can be sampled."""
        return self.end == len(self.sequence.tokens)

    @property
    def is_answer(self) -> bool:
        """Whether it is an answer's next token, beside whatever is done for prompts."""
        return self.num_tokens == 1 and self.samples


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What one step does. Every sequence is in exactly one of the three; those in `wait` keep the pages they have."""

    run: tuple[Scheduled, ...]
    preempt: tuple[Sequence, ...]
    wait: tuple[Sequence, ...]
    prompt_budget: int | None = None
    """Most tokens of prompts that may be computed in it; None where no prompt was there."""

    @property
    def load(self) -> StepLoad:
        """What the step computes, in the numbers its time depends on. A draft token is a row like an answer's, and reads what
        that reads anyway."""
        ends = [item.end for item in self.run if item.is_answer]
        drafted = sum(len(item.draft) for item in self.run)
        load = StepLoad(answers=len(ends) + drafted, answer_reads=sum(ends))
        for item in self.run if len(ends) < len(self.run) else ():
            if not item.is_answer:
                load = load.with_prompt(item.num_tokens, item.start)
        return load
