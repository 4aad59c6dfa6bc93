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
import numpy.typing as npt
import torch

from engine.types import SamplingParams

GREEDY_BELOW = 1e-5
"""Temperatures below this are greedy: dividing by them would leave the range of float32."""

CANDIDATES = (64, 1024, 8192)
"""How many of the most likely tokens are looked at first, and then, before the whole vocabulary is sorted. 64 are enough for
usual settings, and take a hundredth of the time of sorting 49,152; the last step is for hot settings, of which 32 would
otherwise hold every step up by 200 ms."""

MINUS_INFINITY = float("-inf")

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST_FACTOR = 0xBF58476D1CE4E5B9
_SECOND_FACTOR = 0x94D049BB133111EB
"""Constants of SplitMix64 (Steele, Lea and Flood, 2014)."""


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
    """Draw from the filtered distribution of each row by the Gumbel-max trick: the largest of logit plus noise.

    Not by a running sum over probabilities: there the last bit of a likely token's logit, which depends on the batch, would
    move the place of every token behind it.
    """
    scaled = logits / _column(state.params.temperature for state in states)
    chosen = torch.empty(len(states), dtype=torch.int64)
    filtered = [row for row, state in enumerate(states) if _filters(state.params)]
    for row in sorted(set(range(len(states))) - set(filtered)):
        # One row at a time: the noise of a whole vocabulary fits into the processor's cache, that of a batch does not.
        noise = _gumbel_noise([states[row]], np.arange(logits.shape[1])[None, :])
        chosen[row] = (scaled[row] + noise[0]).argmax()
    for width in _widths(logits.shape[1]):
        if filtered:
            filtered = _sample_among_best(scaled, states, filtered, width, chosen)
    return chosen


def _filters(params: SamplingParams) -> bool:
    return params.top_k > 0 or params.top_p < 1.0 or params.min_p > 0.0


def _widths(vocabulary_size: int) -> list[int]:
    return [*(width for width in CANDIDATES if width < vocabulary_size), vocabulary_size]


def _sample_among_best(
    scaled: torch.Tensor, states: Sequence[SamplingState], rows: list[int], width: int, chosen: torch.Tensor
) -> list[int]:
    """Sample the `rows` whose filters leave no more than the `width` best tokens in; return the others.

    The filters, in this order: the `top_k` best; of these the best whose mass reaches `top_p`; of these the ones at least
    `min_p` as likely as the best.
    """
    index = torch.tensor(rows)
    params = [states[row].params for row in rows]
    size = scaled.shape[1]
    best, ids = scaled[index].topk(width)
    top_k = torch.tensor([min(param.top_k or size, size) for param in params]).unsqueeze(1)
    best = best.masked_fill(torch.arange(width) >= top_k, MINUS_INFINITY)
    mass = torch.where(top_k <= width, best.logsumexp(-1, keepdim=True), scaled[index].logsumexp(-1, keepdim=True))
    before = (best - mass).exp().cumsum(dim=-1, dtype=torch.float64).roll(1, dims=-1)
    before[:, 0] = 0.0
    log_min_p = _column(math.log(param.min_p) if param.min_p > 0 else MINUS_INFINITY for param in params)
    kept = (best > MINUS_INFINITY) & (best >= best[:, :1] + log_min_p)
    kept &= before < _column(param.top_p for param in params)
    # Known for certain: the best are all that top_k leaves in, or there is no top_k and the last of them is out already.
    decided = ((top_k <= width) | ((top_k == size) & ~kept[:, -1:])).squeeze(1)
    noise = _gumbel_noise([states[row] for row in rows], ids.numpy())
    winners = (best + noise).masked_fill_(~kept, MINUS_INFINITY).argmax(dim=-1, keepdim=True)
    chosen[index[decided]] = ids.gather(1, winners).squeeze(1)[decided]
    return index[~decided].tolist()


def _gumbel_noise(states: Sequence[SamplingState], ids: npt.NDArray[np.int64]) -> torch.Tensor:
    """[R, K] noise of the tokens `ids`. That of a token is a function of seed, position and token alone.

    SplitMix64 with the token as its counter: any number of the stream can be had without those before it.
    """
    keys = np.array([[_mixed(_mixed(state.seed) + state.num_sampled)] for state in states], dtype=np.uint64)
    bits = ids.astype(np.uint64) * np.uint64(_GOLDEN) + keys
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(_FIRST_FACTOR)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(_SECOND_FACTOR)
    bits ^= bits >> np.uint64(31)
    # 24 bits are what float32 holds; the half keeps 0 out, where the noise would be infinite, and the bound keeps 1 out.
    uniform = ((bits >> np.uint64(40)).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-24)
    exponential = torch.from_numpy(uniform).clamp_(max=1.0 - 2.0**-24).neg_().log1p_().neg_()
    return exponential.log_().neg_()


def _mixed(value: int) -> int:
    """The finaliser of SplitMix64, on plain integers."""
    value = (value + _GOLDEN) & _MASK
    value = ((value ^ (value >> 30)) * _FIRST_FACTOR) & _MASK
    value = ((value ^ (value >> 27)) * _SECOND_FACTOR) & _MASK
    return value ^ (value >> 31)


def _column(values: Iterable[float]) -> torch.Tensor:
    return torch.tensor(list(values), dtype=torch.float32).unsqueeze(1)
