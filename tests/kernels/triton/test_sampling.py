"""Sampling in Triton chooses what the engine's sampler chooses, given the same seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.sampler import Sampler, SamplingState, _gumbel_noise
from engine.types import SamplingParams
from kernels import triton as kernels
from kernels.triton import sampling
from tests.kernels.triton.batches import random_rows

VOCABULARY = 120

params = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 5, 50, VOCABULARY, 1000]),
    top_p=st.sampled_from([1.0, 0.95, 0.5, 0.01]),
    min_p=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    seed=st.integers(0, 2**63 - 1),
)


@triton.jit
def write_noise(key, noise, COUNT: tl.constexpr):  # noqa: N803
    tokens = tl.arange(0, COUNT)
    tl.store(noise + tokens, sampling.gumbel(tl.load(key).to(tl.uint64, bitcast=True), tokens))


def test_the_noise_is_that_of_the_cpu_for_likely_and_for_rare_numbers() -> None:
    count = 1 << 16
    for seed in (3, 2**63 - 1):
        noise = torch.zeros(count)
        write_noise[(1,)](torch.tensor([kernels.noise_key(seed, 5)]), noise, count)
        state = state_of(SamplingParams(seed=seed), 5)
        expected = _gumbel_noise([state], np.arange(count)[None, :])[0]
        torch.testing.assert_close(noise, torch.from_numpy(expected), atol=2e-6, rtol=2e-6)
        assert noise.max() > 9


def by_kernel(logits: torch.Tensor, states: Sequence[SamplingState]) -> list[int]:
    chosen = [state.params for state in states]
    ids = kernels.sample(
        logits,
        torch.tensor([one.temperature for one in chosen]),
        torch.tensor([one.top_k for one in chosen], dtype=torch.int32),
        torch.tensor([one.top_p for one in chosen]),
        torch.tensor([one.min_p for one in chosen]),
        torch.tensor([kernels.noise_key(state.seed, state.num_sampled) for state in states]),
    )
    return ids.tolist()


def state_of(one: SamplingParams, num_sampled: int = 0) -> SamplingState:
    state = SamplingState(one, [], VOCABULARY)
    state.num_sampled = num_sampled
    return state


@given(rows=st.lists(params, min_size=1, max_size=2), num_sampled=st.integers(0, 5000), seed=st.integers(0, 99))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_a_seed_gives_the_token_it_gives_on_the_cpu(rows: list[SamplingParams], num_sampled: int, seed: int) -> None:
    logits = 3 * random_rows(len(rows), VOCABULARY, seed=seed)
    states = [state_of(one, num_sampled) for one in rows]
    assert by_kernel(logits, states) == Sampler(VOCABULARY, frozenset()).sample(logits.clone(), states)


def test_a_vocabulary_larger_than_a_block_is_seen_to_its_end() -> None:
    vocabulary = 8192 + 700
    logits = random_rows(3, vocabulary)
    logits[0, 8500] = 20.0
    rows = [SamplingParams(temperature=0.0), SamplingParams(seed=4), SamplingParams(top_p=0.9, seed=5)]
    states = [SamplingState(one, [], vocabulary) for one in rows]
    assert by_kernel(logits, states) == Sampler(vocabulary, frozenset()).sample(logits.clone(), states)


def test_of_equally_likely_tokens_exactly_as_many_are_in_as_the_filters_say() -> None:
    logits = torch.full((1, VOCABULARY), -3.0)
    logits[0, 40:50] = 2.0
    for one in (SamplingParams(top_k=3, seed=1), SamplingParams(top_p=0.25, top_k=10, seed=1)):
        seen = {token for sampled in range(12) for token in by_kernel(logits, [state_of(one, sampled)])}
        assert seen == {40, 41, 42}


def test_forbidden_tokens_are_never_chosen_and_what_is_no_number_is_told() -> None:
    logits = random_rows(5, VOCABULARY)
    logits[0, :] = float("-inf")
    logits[1, 3] = float("nan")
    logits[2, 3] = float("inf")
    logits[3, :] = float("-inf")
    logits[3, 17] = -5.0
    logits[4, 10:] = float("-inf")
    rows = [SamplingParams(temperature=50.0, top_k=20, seed=1)] * 5
    ids = by_kernel(logits, [state_of(one) for one in rows])
    assert ids[:4] == [-1, -1, -1, 17]
    assert 0 <= ids[4] < 10
