"""Chooses the next token of every sequence in a step, in a few calls for all of them.

Used by `engine.runner`. What is chosen for a sequence depends on its own logits, parameters, history and seed only, never on
its neighbours, its row or the steps it took to get here: the noise for a token is a function of the seed and of how many
tokens were sampled before. Must never loop over a history or over the vocabulary in Python.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Sequence

import numpy as np
import torch

from engine.types import SamplingParams

GREEDY_BELOW = 1e-5
"""Temperatures below this are greedy: dividing by them would leave the range of float32."""

TOP_P_CANDIDATES = 1024
"""Most probable tokens that are looked at first for `top_p`; only where they do not reach it the whole vocabulary is sorted,
which takes seven times as long."""

MINUS_INFINITY = float("-inf")


class SamplingState:
    """What one answer carries from token to token: its seed, how many it has, and which ids penalties apply to."""

    __slots__ = ("counts", "num_sampled", "params", "seed", "seen")

    def __init__(self, params: SamplingParams, prompt_ids: Sequence[int], vocabulary_size: int) -> None:
        self.params = params
        self.seed = secrets.randbits(63) if params.seed is None else params.seed
        self.num_sampled = 0
        self.seen: torch.Tensor | None = None
        """[vocabulary] bool, ids of the prompt and the answer, where there is a repetition penalty"""
        self.counts: torch.Tensor | None = None
        """[vocabulary] float32, how often the answer has an id, where there is a presence or frequency penalty"""
        if params.repetition_penalty != 1.0:
            self.seen = torch.zeros(vocabulary_size, dtype=torch.bool)
            known = [token for token in set(prompt_ids) if token < vocabulary_size]
            self.seen[torch.tensor(known, dtype=torch.int64)] = True
        if params.presence_penalty or params.frequency_penalty:
            self.counts = torch.zeros(vocabulary_size)

    @property
    def is_greedy(self) -> bool:
        return self.params.temperature < GREEDY_BELOW

    def append(self, token_id: int) -> None:
        """A token was sampled."""
        self.num_sampled += 1
        if self.seen is not None:
            self.seen[token_id] = True
        if self.counts is not None:
            self.counts[token_id] += 1


class Sampler:
    """Knows the vocabulary's true size, beyond which no id is ever sampled, and the ids that end an answer."""

    def __init__(self, vocabulary_size: int, end_token_ids: frozenset[int]) -> None:
        self.vocabulary_size = vocabulary_size
        self._end_ids = torch.tensor(sorted(token for token in end_token_ids if token < vocabulary_size))

    def sample(self, logits: torch.Tensor, states: Sequence[SamplingState]) -> list[int | None]:
        """One id per row of `logits` [R, at least vocabulary_size]; None for a row that is not made of numbers.

        `logits` may be changed. The states are not: who accepts a token calls `append`.
        """
        logits = logits[:, : self.vocabulary_size]
        is_valid = logits.amax(dim=-1).isfinite().tolist()
        self._mask_end_tokens(logits, states)
        _penalise(logits, states)
        ids = logits.argmax(dim=-1)
        random_rows = [row for row, state in enumerate(states) if not state.is_greedy]
        if random_rows:
            index = torch.tensor(random_rows)
            ids[index] = _sample_random(logits[index], [states[row] for row in random_rows])
        return [token if valid else None for token, valid in zip(ids.tolist(), is_valid, strict=True)]

    def _mask_end_tokens(self, logits: torch.Tensor, states: Sequence[SamplingState]) -> None:
        rows = [row for row, state in enumerate(states) if state.num_sampled < state.params.min_tokens]
        if rows and len(self._end_ids):
            logits[torch.tensor(rows).unsqueeze(1), self._end_ids] = MINUS_INFINITY


def _penalise(logits: torch.Tensor, states: Sequence[SamplingState]) -> None:
    repeated = [(row, state.seen) for row, state in enumerate(states) if state.seen is not None]
    if repeated:
        rows = torch.tensor([row for row, _ in repeated])
        factor = _column(states[row].params.repetition_penalty for row, _ in repeated)
        chosen = logits[rows]
        penalised = torch.where(chosen > 0, chosen / factor, chosen * factor)
        logits[rows] = torch.where(torch.stack([seen for _, seen in repeated]), penalised, chosen)
    counted = [(row, state.counts) for row, state in enumerate(states) if state.counts is not None]
    if counted:
        rows = torch.tensor([row for row, _ in counted])
        counts = torch.stack([count for _, count in counted])
        presence = _column(states[row].params.presence_penalty for row, _ in counted)
        frequency = _column(states[row].params.frequency_penalty for row, _ in counted)
        logits[rows] -= presence * (counts > 0) + frequency * counts


def _sample_random(logits: torch.Tensor, states: Sequence[SamplingState]) -> torch.Tensor:
    """Draw from the filtered distribution of each row by the Gumbel-max trick.

    Not by a running sum over probabilities: there the last bit of a likely token's logit, which depends on the batch, would
    move the place of every token behind it.
    """
    scaled = logits / _column(state.params.temperature for state in states)
    threshold = _threshold(scaled, [state.params for state in states])
    if threshold is not None:
        scaled.masked_fill_(scaled < threshold, MINUS_INFINITY)
    return (scaled - _exponential_noise(states, logits.shape[1]).log_()).argmax(dim=-1)


def _exponential_noise(states: Sequence[SamplingState], size: int) -> torch.Tensor:
    """[R, size] of exponentially distributed numbers; minus their logarithm has the Gumbel distribution.

    Philox is counter-based: any position of any seed can be had at once, in any order.
    """
    noise = np.empty((len(states), size), dtype=np.float32)
    for row, state in zip(noise, states, strict=True):
        philox = np.random.Philox(key=state.seed, counter=[0, 0, 0, state.num_sampled])
        np.random.Generator(philox).standard_exponential(dtype=np.float32, out=row)
    # A zero would give its token an infinite score, were it masked or not.
    return torch.from_numpy(noise).clamp_(min=torch.finfo(torch.float32).tiny)


def _threshold(scaled: torch.Tensor, params: Sequence[SamplingParams]) -> torch.Tensor | None:
    """[R, 1]: the smallest scaled logit that top_k, top_p and min_p together leave in, or None where no row filters.

    Tokens that are exactly as likely as the last one let in are let in too.
    """
    threshold = torch.full((len(params), 1), MINUS_INFINITY)
    filters = False
    if any(param.min_p > 0 for param in params):
        filters = True
        log_min_p = _column(math.log(param.min_p) if param.min_p > 0 else MINUS_INFINITY for param in params)
        threshold = torch.maximum(threshold, scaled.amax(dim=-1, keepdim=True) + log_min_p)
    for row, param in enumerate(params):
        if param.top_k > 0 or param.top_p < 1.0:
            filters = True
            threshold[row] = torch.maximum(threshold[row], _row_threshold(scaled[row], param))
    return threshold if filters else None


def _row_threshold(row: torch.Tensor, param: SamplingParams) -> torch.Tensor:
    """The smallest logit of one row that top_k, and top_p within it, leave in."""
    size = row.shape[0]
    top_k = min(param.top_k, size) or size
    width = min(top_k, TOP_P_CANDIDATES) if param.top_p < 1.0 else top_k
    while True:
        best = row.topk(width).values
        if param.top_p >= 1.0:
            return best[-1]
        total = best.logsumexp(dim=-1) if top_k == width else _log_mass(row, top_k)
        before = (best - total).exp().cumsum(dim=-1, dtype=torch.float64).roll(1)
        before[0] = 0.0
        kept = int((before < param.top_p).sum())
        if kept < width or width == top_k:
            return best[kept - 1]
        width = top_k


def _log_mass(row: torch.Tensor, top_k: int) -> torch.Tensor:
    """The logarithm of the sum over the `top_k` largest."""
    return (row if top_k == row.shape[0] else row.topk(top_k).values).logsumexp(dim=-1)


def _column(values: Iterable[float]) -> torch.Tensor:
    return torch.tensor(list(values), dtype=torch.float32).unsqueeze(1)
