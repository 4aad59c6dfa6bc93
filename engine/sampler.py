"""Chooses the next token of every sequence in a step, in a few calls for all of them.

Used by `engine.runner`. What is chosen for a sequence depends on its own logits, parameters, history and seed only, never on
its neighbours, its row or the steps it took to get here: the noise for a token is a function of the seed and of how many
tokens were sampled before. Must never loop over a history or over the vocabulary in Python.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Sequence
from copy import copy

import numpy as np
import numpy.typing as npt
import torch

from engine.likelihood import Distribution, Likelihood
from engine.types import SamplingParams

GREEDY_BELOW = 1e-5
"""Temperatures below this are greedy: dividing by them would leave the range of float32."""

CANDIDATES = (64, 1024, 8192)
"""How many of the most likely tokens are looked at first, and then, before the whole vocabulary is sorted. 64 are enough for
usual settings, and take a hundredth of the time of sorting 49,152; the last step is for hot settings, of which 32 would
otherwise hold every step up by 200 ms."""

BLOCK_TOKENS = 64
"""Tokens of the vocabulary that are looked at together first."""

ROWS_TOGETHER = 4
"""Rows that are sampled at random together: a vocabulary of each, a few times over, fits into the processor's cache."""

SPARSE = 4
"""The best of so many times fewer blocks than there are save more than choosing the blocks costs."""

MINUS_INFINITY = float("-inf")

Logits = npt.NDArray[np.float32]
Mask = npt.NDArray[np.uint32]
Ids = npt.NDArray[np.int64]

_BLOCK_IDS = 1 << 32
"""The noise of a block is that of an id no token has."""

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST_FACTOR = 0xBF58476D1CE4E5B9
_SECOND_FACTOR = 0x94D049BB133111EB
"""Constants of SplitMix64 (Steele, Lea and Flood, 2014)."""


class SamplingState:
    """What one answer carries from token to token: its seed, how many it has, and which ids penalties apply to."""

    __slots__ = ("allowed", "counts", "likelihood", "num_sampled", "params", "seed", "seen", "vocabulary_size")

    def __init__(self, params: SamplingParams, prompt_ids: Sequence[int], vocabulary_size: int) -> None:
        self.params = params
        self.vocabulary_size = vocabulary_size
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
        self.allowed: Mask | None = None
        """What may be sampled next, where a grammar says so; end tokens included, so `min_tokens` is its business then."""
        self.likelihood: Likelihood | None = None
        """Of the token that was last sampled with this state, where the request asks for it."""

    @property
    def is_greedy(self) -> bool:
        return self.params.temperature < GREEDY_BELOW

    @property
    def may_end(self) -> bool:
        """Whether an end token would be welcome."""
        return self.num_sampled >= self.params.min_tokens and not self.params.ignore_eos

    def append(self, token_id: int) -> None:
        """A token was sampled."""
        self.num_sampled += 1
        if self.seen is not None:
            self.seen[token_id] = True
        if self.counts is not None:
            self.counts[token_id] += 1

    def along(self, draft: Sequence[int]) -> list[SamplingState]:
        """What the next token is sampled with, and then each one behind a token of the draft, should all before it be sampled.

        An id that does not exist is never sampled, so what stands behind it is never used.
        """
        states = [self]
        for token_id in draft:
            state = copy(states[-1])
            state.seen = None if state.seen is None else state.seen.clone()
            state.counts = None if state.counts is None else state.counts.clone()
            if token_id < self.vocabulary_size:
                state.append(token_id)
            states.append(state)
        return states


class Sampler:
    """Knows the vocabulary's true size, beyond which no id is ever sampled, and the ids that end an answer."""

    def __init__(self, vocabulary_size: int, end_token_ids: frozenset[int]) -> None:
        self.vocabulary_size = vocabulary_size
        self._scaled = _Scaled(vocabulary_size)
        self._end_ids = torch.tensor(sorted(token for token in end_token_ids if token < vocabulary_size))

    def sample(self, logits: torch.Tensor, states: Sequence[SamplingState]) -> list[int | None]:
        """One id per row of `logits` [R, at least vocabulary_size]; None for a row that is not made of numbers.

        `logits` may be changed. The states are not, but for `likelihood`: who accepts a token calls `append`.
        """
        logits = logits[:, : self.vocabulary_size]
        asked = [
            (row, state, Distribution(logits[row], state.params.top_logprobs))
            for row, state in enumerate(states)
            if state.params.top_logprobs is not None
        ]
        self._mask_end_tokens(logits, states)
        _penalise(logits, states)
        # NumPy finds the largest of a row in a tenth of the time that torch takes on one thread. It counts NaN as the largest.
        rows = logits.cpu().numpy()
        _forbid(rows, states)
        ids = rows.argmax(axis=-1)
        is_valid = np.isfinite(rows[np.arange(len(ids)), ids]).tolist()
        random_rows = [row for row, state in enumerate(states) if not state.is_greedy]
        for start in range(0, len(random_rows), ROWS_TOGETHER):
            some = random_rows[start : start + ROWS_TOGETHER]
            ids[some] = self._sample_random([rows[row] for row in some], [states[row] for row in some])
        for row, state, distribution in asked:
            state.likelihood = distribution.likelihood(int(ids[row]))
        return [token if valid else None for token, valid in zip(ids.tolist(), is_valid, strict=True)]

    def _sample_random(self, logits: Sequence[Logits], states: Sequence[SamplingState]) -> Ids:
        """Draw from the filtered distribution of each row by the Gumbel-max trick: the largest of logit plus noise.

        Not by a running sum over probabilities: there the last bit of a likely token's logit, which depends on the batch, would
        move the place of every token behind it.
        """
        # A row that is not made of numbers is sampled like the others, and what comes of it is thrown away.
        with np.errstate(all="ignore"):
            scaled = self._scaled
            scaled.take(logits, [state.params.temperature for state in states])
            chosen = np.empty(len(states), dtype=np.int64)
            filtered = [row for row, state in enumerate(states) if _filters(state.params, self.vocabulary_size)]
            plain = sorted(set(range(len(states))) - set(filtered))
            if plain:
                chosen[plain] = _sample_among_all(scaled, [states[row] for row in plain], plain)
            for width in _widths(self.vocabulary_size):
                if filtered:
                    filtered = _sample_among_best(scaled, states, filtered, width, chosen)
        return chosen

    def _mask_end_tokens(self, logits: torch.Tensor, states: Sequence[SamplingState]) -> None:
        rows = [
            row
            for row, state in enumerate(states)
            if state.num_sampled < state.params.min_tokens and state.allowed is None
        ]
        if rows and len(self._end_ids):
            logits[torch.tensor(rows).unsqueeze(1), self._end_ids] = MINUS_INFINITY


def _forbid(rows: Logits, states: Sequence[SamplingState]) -> None:
    """Take out in place what the grammars of these rows do not allow."""
    for row, state in zip(rows, states, strict=True):
        if state.allowed is not None:
            bits = np.unpackbits(state.allowed.view(np.uint8), count=len(row), bitorder="little")
            np.copyto(row, np.float32(MINUS_INFINITY), where=bits == 0)


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


class _Scaled:
    """Logits over their temperatures, [R, BLOCK_TOKENS, blocks]: token `t` is in the block `t % blocks`, so that what is done for
    each block runs along the rows. Behind the last token there is MINUS_INFINITY. Its memory is used again for each `take`:
    the first touch of fresh memory costs more than the arithmetic."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.blocks = -(-size // BLOCK_TOKENS)
        self._logits = np.empty((ROWS_TOGETHER, BLOCK_TOKENS * self.blocks), dtype=np.float32)
        self._logits[:, size:] = MINUS_INFINITY
        self._exponentials = np.empty((ROWS_TOGETHER, BLOCK_TOKENS, self.blocks), dtype=np.float32)
        self.take([], [])

    def take(self, logits: Sequence[Logits], temperatures: Sequence[float]) -> None:
        """Up to ROWS_TOGETHER rows, in place of those before."""
        self.flat = self._logits[: len(logits)]
        self.by_block = self.flat.reshape(len(logits), BLOCK_TOKENS, self.blocks)
        for row, temperature, scaled in zip(logits, temperatures, self.flat, strict=True):
            np.divide(row, np.float32(temperature), out=scaled[: self.size])
        self._largest: Logits | None = None
        self._weights: Logits | None = None

    @property
    def largest(self) -> Logits:
        """[R, blocks] the largest of each block."""
        if self._largest is None:
            self._largest = self.by_block.max(axis=1)
        return self._largest

    @property
    def weights(self) -> Logits:
        """[R, blocks] the sum of each block's exponentials, each row's over that of its best token."""
        if self._weights is None:
            best = self.largest.max(axis=-1)[:, None, None]
            exponentials = self._exponentials[: len(self.flat)]
            np.exp(np.subtract(self.by_block, best, out=exponentials), out=exponentials)
            self._weights = exponentials.sum(axis=1)
        return self._weights

    def mass(self, rows: list[int]) -> Logits:
        """[rows, 1] the logarithm of the sum of all exponentials."""
        total = self.weights[rows].sum(axis=-1, keepdims=True)
        mass: Logits = np.log(total) + self.largest[rows].max(axis=-1, keepdims=True)
        return mass

    def best(self, rows: list[int], width: int) -> tuple[Logits, Ids]:
        """[rows, width] the best tokens of these rows and their ids, the best first."""
        if self.blocks < SPARSE * width:
            found = torch.from_numpy(self.flat[rows, : self.size]).topk(width)
            return found.values.numpy(), found.indices.numpy()
        # Whatever is among the best is in one of the blocks with the largest best.
        blocks = torch.from_numpy(self.largest[rows]).topk(width, sorted=False).indices.numpy()
        ids: Ids = (blocks[:, None, :] + self.blocks * np.arange(BLOCK_TOKENS)[:, None]).reshape(len(rows), -1)
        candidates = self.flat.take(ids + self.flat.shape[1] * np.array(rows)[:, None])
        found = torch.from_numpy(candidates).topk(width)
        return found.values.numpy(), np.take_along_axis(ids, found.indices.numpy(), axis=1)


def _filters(params: SamplingParams, size: int) -> bool:
    return 0 < params.top_k < size or params.top_p < 1.0 or params.min_p > 0.0


def _widths(vocabulary_size: int) -> list[int]:
    return [*(width for width in CANDIDATES if width < vocabulary_size), vocabulary_size]


def _sample_among_all(scaled: _Scaled, states: Sequence[SamplingState], rows: list[int]) -> Ids:
    """First a block, by what its tokens weigh together, then one of them: noise for all tokens would take ten times as long."""
    noise = _gumbel_noise(states, _BLOCK_IDS + np.arange(scaled.blocks)[None, :])
    blocks = (np.log(scaled.weights[rows]) + noise).argmax(axis=-1)
    ids = blocks[:, None] + scaled.blocks * np.arange(BLOCK_TOKENS)
    tokens = scaled.by_block[rows, :, blocks] + _gumbel_noise(states, ids)
    chosen: Ids = ids[np.arange(len(rows)), tokens.argmax(axis=-1)]
    return chosen


def _sample_among_best(
    scaled: _Scaled, states: Sequence[SamplingState], rows: list[int], width: int, chosen: Ids
) -> list[int]:
    """Sample the `rows` whose filters leave no more than the `width` best tokens in; return the others.

    The filters, in this order: the `top_k` best; of these the best whose mass reaches `top_p`; of these the ones at least
    `min_p` as likely as the best.
    """
    params = [states[row].params for row in rows]
    size = scaled.size
    best, ids = scaled.best(rows, width)
    top_k = np.array([min(param.top_k or size, size) for param in params])[:, None]
    is_cut = top_k <= width
    best = np.where(np.arange(width) < top_k, best, np.float32(MINUS_INFINITY))
    mass = best[:, :1] + np.log(np.exp(best - best[:, :1]).sum(axis=-1, keepdims=True))
    if not is_cut.all():
        mass = np.where(is_cut, mass, scaled.mass(rows))
    before = np.exp(best - mass).cumsum(axis=-1, dtype=np.float64)
    before = np.concatenate((np.zeros((len(rows), 1)), before[:, :-1]), axis=-1)
    log_min_p = _column(math.log(param.min_p) if param.min_p > 0 else MINUS_INFINITY for param in params).numpy()
    kept = (best > MINUS_INFINITY) & (best >= best[:, :1] + log_min_p)
    kept &= before < np.array([[param.top_p] for param in params], dtype=np.float32)
    # Known for certain: the best are all that top_k leaves in, or there is no top_k and the last of them is out already.
    decided = (is_cut | ((top_k == size) & ~kept[:, -1:]))[:, 0]
    noisy = np.where(kept, best + _gumbel_noise([states[row] for row in rows], ids), np.float32(MINUS_INFINITY))
    winners = ids[np.arange(len(rows)), noisy.argmax(axis=-1)]
    places = np.array(rows)
    chosen[places[decided]] = winners[decided]
    undecided: list[int] = places[~decided].tolist()
    return undecided


def _gumbel_noise(states: Sequence[SamplingState], ids: Ids) -> Logits:
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
    noise: Logits = -np.log(-np.log1p(-np.minimum(uniform, np.float32(1.0 - 2.0**-24))))
    return noise


def _mixed(value: int) -> int:
    """The finaliser of SplitMix64, on plain integers."""
    value = (value + _GOLDEN) & _MASK
    value = ((value ^ (value >> 30)) * _FIRST_FACTOR) & _MASK
    value = ((value ^ (value >> 27)) * _SECOND_FACTOR) & _MASK
    return value ^ (value >> 31)


def _column(values: Iterable[float]) -> torch.Tensor:
    return torch.tensor(list(values), dtype=torch.float32).unsqueeze(1)
