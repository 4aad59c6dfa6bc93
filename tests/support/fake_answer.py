"""One answer of the fake engine while it is being made."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import cycle

from engine.stop_strings import StopStrings
from engine.types import CachedFrom, GenerationRequest, Usage
from tests.support.fake_vocabulary import Ids
from tests.support.scripts import Script

STEP_MS = 1.0
"""What one step counts as in `Usage`."""


@dataclass
class FakeAnswer:
    """`prompt_done` are the tokens of the prompt that were computed or found; `dropped`: nothing of it is kept."""

    request: GenerationRequest
    script: Script
    prompt: Ids
    dropped_turns: int
    token_limit: int
    submitted_step: int
    source: cycle[str] = field(init=False)
    stops: StopStrings = field(init=False)
    ids: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    shown: str = ""
    sampled: int = 0
    prompt_done: int = 0
    cached: CachedFrom = field(default_factory=CachedFrom)
    started_step: int | None = None
    first_token_step: int | None = None
    announced_position: int | None = None
    cancelled: bool = False
    dropped: bool = False

    def __post_init__(self) -> None:
        self.source = cycle(self.script.pieces or ("",))
        self.stops = StopStrings(self.request.sampling.stop)

    @property
    def is_written(self) -> bool:
        """Whether the script has no further piece. `ignore_eos` and `min_tokens` make it begin again, as a model would."""
        sampling = self.request.sampling
        if self.script.failure is None and (self.script.endless or sampling.ignore_eos):
            return False
        return self.sampled >= max(len(self.script.pieces), sampling.min_tokens)

    @property
    def shown_ids(self) -> Ids | None:
        """The ids whose text is exactly what was shown; None where a stop string cut one in two."""
        chars = 0
        for count, text in enumerate(self.texts):
            if chars == len(self.shown):
                return tuple(self.ids[:count])
            chars += len(text)
        return tuple(self.ids) if chars == len(self.shown) else None

    def usage(self, step: int) -> Usage:
        """What it has cost, at its end in this step."""
        usage = Usage(
            input_tokens=len(self.prompt),
            cached_tokens=self.cached.total,
            output_tokens=self.sampled,
            cached_from=self.cached,
            dropped_turns=self.dropped_turns,
        )
        if self.started_step is not None:
            usage = replace(usage, queue_ms=(self.started_step - self.submitted_step) * STEP_MS)
        if self.first_token_step is not None and self.started_step is not None:
            usage = replace(
                usage,
                prefill_ms=(self.first_token_step - self.started_step) * STEP_MS,
                ttft_ms=(self.first_token_step - self.submitted_step) * STEP_MS,
                decode_ms=(step - self.first_token_step) * STEP_MS,
            )
        return usage
