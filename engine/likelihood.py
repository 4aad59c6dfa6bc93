"""How likely a sampled token was, in the model's own distribution.

Made by `engine.sampler` for the rows that ask for it, before anything is done to their logits. So it does not depend on
temperature, filters, penalties or constraints, nor on anybody else in the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Likelihood:
    """The natural logarithms of probabilities: of the token that was sampled, and of the likeliest, the best first."""

    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class Distribution:
    """One row of logits as the model gave it, kept until its token is known."""

    def __init__(self, logits: torch.Tensor, num_top: int) -> None:
        self._logprobs = torch.log_softmax(logits.float().cpu(), dim=-1)
        self._num_top = min(num_top, len(logits))

    def likelihood(self, token_id: int) -> Likelihood:
        best = self._logprobs.topk(self._num_top)
        top = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return Likelihood(float(self._logprobs[token_id]), tuple(top))
