from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import sampler
from engine.sampler import CANDIDATES, Sampler, SamplingState
from engine.types import SamplingParams

VOCABULARY = 40
END = frozenset({3, 7})
GREEDY = SamplingParams(temperature=0)


def state(params: SamplingParams, prompt: list[int] | None = None, output: list[int] | None = None) -> SamplingState:
    made = SamplingState(params, prompt or [], VOCABULARY)
    for token in output or []:
        made.append(token)
    return made


def some_logits(rows: int, size: int = VOCABULARY, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, size, generator=torch.Generator().manual_seed(seed)) * 3


def sample(logits: torch.Tensor, *states: SamplingState, end: frozenset[int] = END) -> list[int | None]:
    return Sampler(VOCABULARY, end).sample(logits.clone(), states)


def draw(params: SamplingParams, logits: torch.Tensor, times: int = 3000) -> Counter[int | None]:
    """How often each id comes, over seeds."""
    states = [state(replace(params, seed=seed)) for seed in range(times)]
    return Counter(Sampler(VOCABULARY, END).sample(logits.expand(times, -1).clone(), states))


def definition(logits: torch.Tensor, params: SamplingParams) -> dict[int, float]:
    """Temperature, then top_k, then top_p within it, then min_p: by sorting, one row, in plain Python."""
    scaled = [value / params.temperature for value in logits.tolist()]
    order = sorted(range(len(scaled)), key=lambda token: -scaled[token])
    order = order[: params.top_k] if params.top_k else order
    weights = {token: math.exp(scaled[token] - scaled[order[0]]) for token in order}
    kept: list[int] = []
    mass = 0.0
    for token in order:
        if mass >= params.top_p * sum(weights.values()):
            break
        kept.append(token)
        mass += weights[token]
    kept = [token for token in kept if weights[token] >= params.min_p]
    total = sum(weights[token] for token in kept)
    return {token: weights[token] / total for token in kept}


def test_greedy_is_the_largest_logit() -> None:
    logits = some_logits(5)
    assert sample(logits, *[state(GREEDY)] * 5) == logits.argmax(dim=-1).tolist()


def test_a_temperature_too_small_to_divide_by_is_greedy() -> None:
    logits = some_logits(2)
    assert sample(logits, *[state(SamplingParams(temperature=1e-300))] * 2) == logits.argmax(dim=-1).tolist()


def test_ids_beyond_the_real_vocabulary_never_come() -> None:
    logits = torch.zeros(2, VOCABULARY + 24)
    logits[:, VOCABULARY:] = 1000.0
    for token in sample(logits, state(GREEDY), state(SamplingParams(seed=1))):
        assert token is not None
        assert token < VOCABULARY


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(),
        SamplingParams(temperature=0.5),
        SamplingParams(temperature=1.7),
        SamplingParams(top_k=5),
        SamplingParams(top_p=0.6),
        SamplingParams(top_p=1e-6),
        SamplingParams(min_p=0.2),
        SamplingParams(top_k=8, top_p=0.8, min_p=0.05, temperature=0.8),
    ],
)
def test_ids_come_as_often_as_the_definition_says(params: SamplingParams) -> None:
    logits = some_logits(1)
    expected = definition(logits[0], params)
    times = 3000
    drawn = draw(params, logits, times)
    assert set(drawn) <= set(expected)
    for token, probability in expected.items():
        deviation = math.sqrt(times * probability * (1 - probability))
        assert abs(drawn[token] - times * probability) <= 5 * deviation + 3


@given(st.integers(0, 10_000), st.floats(0.01, 0.999), st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_only_ids_of_the_nucleus_come_also_when_it_is_wider_than_the_first_look(
    seed: int, top_p: float, top_k: int
) -> None:
    size = CANDIDATES[1] * 3
    params = SamplingParams(temperature=2.0, top_p=top_p, top_k=top_k * 100, seed=seed)
    logits = some_logits(1, size, seed) * 0.2
    (token,) = Sampler(size, END).sample(logits.clone(), [SamplingState(params, [], size)])
    allowed = definition(logits[0], params)
    smallest = min(logits[0][list(allowed)].tolist())
    assert token is not None
    assert token in allowed or abs(logits[0][token].item() - smallest) < 1e-4


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=2.0, top_p=0.99),
        SamplingParams(temperature=2.0, top_p=0.5),
        SamplingParams(temperature=1.0, top_k=500, top_p=0.9),
        SamplingParams(temperature=1.5, min_p=0.001),
        SamplingParams(top_k=1),
        SamplingParams(top_k=10**6, top_p=0.7),
    ],
)
def test_how_many_candidates_are_looked_at_first_changes_no_id(
    params: SamplingParams, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 3000
    logits = some_logits(40, size)
    states = [SamplingState(replace(params, seed=seed), [], size) for seed in range(40)]
    quick = Sampler(size, END).sample(logits.clone(), states)
    for candidates in ((), (1,), (5, 20), (5, 20, 80)):
        monkeypatch.setattr(sampler, "CANDIDATES", candidates)
        assert Sampler(size, END).sample(logits.clone(), states) == quick


def test_a_filter_that_leaves_everything_in_changes_no_id() -> None:
    logits = some_logits(40)
    plain = [state(SamplingParams(seed=seed)) for seed in range(40)]
    open_filter = [state(SamplingParams(seed=seed, top_k=VOCABULARY)) for seed in range(40)]
    assert sample(logits, *plain) == sample(logits, *open_filter)


def test_a_seed_gives_the_same_ids_alone_in_company_and_in_any_order() -> None:
    """vllm-project/vllm#51226, vllm-project/vllm#17524: neighbours and order changed seeded output."""
    logits = some_logits(8, seed=4)
    seeded = SamplingParams(seed=123, temperature=1.3, top_p=0.95)
    rng = random.Random(0)
    neighbours = [state(SamplingParams()), state(GREEDY), state(SamplingParams(seed=5)), state(SamplingParams(top_k=2))]
    for position in range(8):
        row = logits[position : position + 1]
        output = list(range(position))
        (alone,) = sample(row, state(seeded, output=output))
        rows = [(row, state(seeded, output=output))] + [
            (some_logits(1, seed=rng.randint(0, 99)), other) for other in neighbours
        ]
        rng.shuffle(rows)
        together = sample(torch.cat([one for one, _ in rows]), *[other for _, other in rows])
        place = next(index for index, (_, other) in enumerate(rows) if other.params is seeded)
        assert together[place] == alone


def test_seeds_positions_and_unseeded_requests_draw_differently() -> None:
    flat = torch.zeros(1, VOCABULARY)
    by_seed = {sample(flat, state(SamplingParams(seed=seed)))[0] for seed in range(50)}
    by_position = {sample(flat, state(SamplingParams(seed=1), output=[0] * count))[0] for count in range(50)}
    unseeded = {sample(flat, state(SamplingParams()))[0] for _ in range(50)}
    assert min(len(by_seed), len(by_position), len(unseeded)) > 15


def test_the_smallest_and_the_largest_seed_work() -> None:
    assert None not in sample(some_logits(2), state(SamplingParams(seed=0)), state(SamplingParams(seed=2**63 - 1)))


def test_min_tokens_masks_every_end_token_and_only_until_then() -> None:
    """sgl-project/sglang#31378: end tokens listed elsewhere were forgotten."""
    logits = torch.zeros(1, VOCABULARY)
    logits[0, 3], logits[0, 7], logits[0, 11] = 9.0, 8.0, 7.0
    params = SamplingParams(temperature=0, min_tokens=2)
    assert sample(logits, state(params)) == [11]
    assert sample(logits, state(params, output=[1])) == [11]
    assert sample(logits, state(params, output=[1, 1])) == [3]
    assert sample(logits, state(params), end=frozenset()) == [3]


def test_repetition_penalty_reaches_the_prompt_and_the_answer_and_makes_both_signs_less_likely() -> None:
    logits = torch.full((1, VOCABULARY), -5.0)
    logits[0, 1], logits[0, 2], logits[0, 4] = 4.0, 3.9, 3.8
    params = SamplingParams(temperature=0, repetition_penalty=1.5)
    assert sample(logits, state(params)) == [1]
    assert sample(logits, state(params, prompt=[1])) == [2]
    assert sample(logits, state(params, prompt=[1], output=[2])) == [4]
    negative = torch.full((1, VOCABULARY), -3.0)
    negative[0, 1] = -2.9
    assert sample(negative, state(params, prompt=[1])) != [1]


def test_presence_counts_once_and_frequency_each_time_and_neither_the_prompt() -> None:
    logits = torch.full((1, VOCABULARY), -9.0)
    logits[0, 1], logits[0, 2] = 2.0, 0.5
    presence = SamplingParams(temperature=0, presence_penalty=1.0)
    frequency = SamplingParams(temperature=0, frequency_penalty=1.0)
    assert sample(logits, state(presence, prompt=[1])) == [1]
    assert sample(logits, state(presence, output=[1, 1, 1])) == [1]
    assert sample(logits, state(frequency, output=[1])) == [1]
    assert sample(logits, state(frequency, output=[1, 1])) == [2]


def test_penalties_of_one_row_leave_the_others_alone() -> None:
    logits = some_logits(3)
    best = logits.argmax(dim=-1).tolist()
    strong = SamplingParams(temperature=0, repetition_penalty=9.0, presence_penalty=2.0, frequency_penalty=2.0)
    sampled = sample(logits, state(GREEDY), state(strong, output=[best[1]] * 5), state(GREEDY))
    assert [sampled[0], sampled[2]] == [best[0], best[2]]
    assert sampled[1] != best[1]


def test_a_row_that_is_not_made_of_numbers_is_told_and_hurts_no_other() -> None:
    logits = some_logits(3)
    expected = logits[2].argmax().item()
    logits[0, 5] = float("nan")
    logits[1] = float("-inf")
    assert sample(logits, state(SamplingParams(seed=1)), state(GREEDY), state(GREEDY)) == [None, None, expected]
