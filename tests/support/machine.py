"""A machine that takes a known time for each step, in place of a real one."""

from __future__ import annotations

from dataclasses import dataclass

from engine.step_size import StepLoad


@dataclass(frozen=True)
class Machine:
    """What a step takes, in seconds. The defaults are those of a small model on two cores."""

    fixed: float = 0.020
    per_prompt_token: float = 0.001
    per_answer: float = 0.002
    per_read: float = 1e-6

    def seconds(self, load: StepLoad) -> float:
        reads = self.per_read * (load.prompt_reads / 8 + load.answer_reads)
        return self.fixed + self.per_prompt_token * load.prompt_tokens + self.per_answer * load.answers + reads
