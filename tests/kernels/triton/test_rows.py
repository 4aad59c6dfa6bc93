"""Norms, gates and rotation in Triton against the reference, over random shapes and types."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import reference
from kernels import triton as kernels
from tests.kernels.triton.batches import NAN, random_rows

TYPES = [torch.float32, torch.float16, torch.bfloat16]
STEP = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 2**-6}
"""How far two computations in a type may be apart; the interpreter cuts bits off a bfloat16 where a device rounds."""

types = st.sampled_from(TYPES)
rows_of = st.integers(1, 5)
seeds = st.integers(0, 99)


def assert_alike(got: torch.Tensor, expected: torch.Tensor, steps: float = 1.0) -> None:
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    tolerance = steps * STEP[got.dtype]
    torch.testing.assert_close(got.float(), expected.float(), atol=tolerance, rtol=tolerance)


@given(rows=rows_of, width=st.integers(1, 300), dtype=types, wide_weight=st.booleans(), seed=seeds)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_rms_norm(rows: int, width: int, dtype: torch.dtype, wide_weight: bool, seed: int) -> None:
    given_rows = random_rows(rows, width, seed=seed, dtype=dtype)
    weight = random_rows(width, seed=seed + 1, dtype=torch.float32 if wide_weight else dtype)
    assert_alike(kernels.rms_norm(given_rows, weight, 1e-5), reference.rms_norm(given_rows, weight, 1e-5), 2)


@pytest.mark.parametrize("dtype", TYPES)
def test_rms_norm_of_heads_has_a_weight_for_each(dtype: torch.dtype) -> None:
    heads, weight = random_rows(3, 5, 24, dtype=dtype), random_rows(5, 24, seed=1, dtype=dtype)
    assert_alike(kernels.rms_norm(heads, weight, 1e-5), reference.rms_norm(heads, weight, 1e-5), 2)
    apart = random_rows(3, 9, 24, dtype=dtype)[:, 2:7]
    assert_alike(kernels.rms_norm(apart, weight, 1e-5), reference.rms_norm(apart, weight, 1e-5), 2)


def test_a_weight_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        kernels.rms_norm(random_rows(3, 8), random_rows(7), 1e-5)


@given(rows=rows_of, width=st.integers(1, 300), dtype=types, wide=st.booleans(), normed=st.booleans(), seed=seeds)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_sum_and_norm(rows: int, width: int, dtype: torch.dtype, wide: bool, normed: bool, seed: int) -> None:
    hidden, added = random_rows(2, rows, width, seed=seed, dtype=dtype)
    weight, added_weight = random_rows(2, width, seed=seed + 1, dtype=torch.float32 if wide else dtype)
    arguments = (hidden, added, weight, 1e-5, added_weight if normed else None)
    before = hidden.clone()
    got, expected = kernels.add_rms_norm(*arguments), reference.add_rms_norm(*arguments)
    assert_alike(got[0], expected[0], 2)
    # A sum near 0 may be a step of its larger part away.
    assert_alike(got[1], expected[1], 8)
    assert torch.equal(hidden, before), "what is handed in stays as it is"


@given(rows=rows_of, width=st.integers(1, 2100), dtype=types, gelu=st.booleans(), seed=seeds)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_gates(rows: int, width: int, dtype: torch.dtype, gelu: bool, seed: int) -> None:
    gate_up = 4 * random_rows(rows, 2 * width, seed=seed, dtype=dtype)
    name = "gelu_mul" if gelu else "silu_mul"
    assert_alike(getattr(kernels, name)(gate_up), getattr(reference, name)(gate_up), 2)


def test_gates_of_very_large_numbers_do_not_overflow() -> None:
    gate_up = torch.tensor([[1e4, -1e4, 0.0, 1.0, 1.0, 1.0]])
    assert kernels.silu_mul(gate_up).tolist() == [[1e4, 0.0, 0.0]]
    assert kernels.gelu_mul(gate_up).tolist() == [[1e4, 0.0, 0.0]]


@pytest.mark.parametrize("head_size", [64, 80, 96, 128, 256])
@given(
    tokens=rows_of,
    kv_heads=st.sampled_from([1, 2]),
    shared=st.sampled_from([1, 3]),
    dtype=types,
    normed=st.sampled_from(["not", "narrow", "wide"]),
    seed=seeds,
)
@settings(max_examples=5, deadline=None, derandomize=True)
def test_rotation_writes_what_the_reference_writes_where_it_does(
    head_size: int, tokens: int, kv_heads: int, shared: int, dtype: torch.dtype, normed: str, seed: int
) -> None:
    heads = kv_heads * shared
    qkv = random_rows(tokens, (heads + 2 * kv_heads) * head_size, seed=seed, dtype=dtype)
    weight = random_rows(heads + kv_heads, head_size, seed=seed, dtype=torch.float32 if normed == "wide" else dtype)
    positions = torch.randint(0, 4000, (tokens,), generator=torch.Generator().manual_seed(seed))
    frequencies = 1.0 / 10000 ** (torch.arange(0, head_size, 2) / head_size)
    angles = kernels.rotary_angles(positions, frequencies, dtype, 1.25)
    slots = torch.randperm(12, generator=torch.Generator().manual_seed(seed))[:tokens]
    written = []
    for operations in (kernels, reference):
        keys, values = torch.full((2, 3, 4, kv_heads, head_size), NAN, dtype=dtype)
        norm = None if normed == "not" else weight
        written.append((operations.rotate_and_store(qkv, angles, slots, keys, values, norm, 1e-5), keys, values))
    for got, expected in zip(*written, strict=True):
        assert torch.equal(got.isnan(), expected.isnan())
        assert_alike(got.nan_to_num(), expected.nan_to_num(), 8)
    assert torch.equal(written[0][2].nan_to_num(), written[1][2].nan_to_num()), "values are copied as they are"


@pytest.mark.parametrize(("dtype", "error"), [(torch.int8, 0.5 / 127), (torch.float8_e4m3fn, 2**-3)])
def test_pages_of_eight_bits_are_written_with_their_scales(dtype: torch.dtype, error: float) -> None:
    tokens, kv_heads, head_size = 5, 2, 64
    qkv = random_rows(tokens, 4 * kv_heads * head_size)
    qkv[0, -head_size:] = 0.0
    angles = kernels.rotary_angles(torch.arange(tokens), torch.rand(head_size // 2), torch.float32)
    slots = torch.tensor([9, 2, 0, 11, 4])
    exact = torch.zeros(2, 3, 4, kv_heads, head_size)
    small = torch.zeros(2, 3, 4, kv_heads, head_size).to(dtype)
    scales = kernels.PageScales(*torch.full((2, 3, 4, kv_heads), NAN))
    expected = reference.rotate_and_store(qkv, angles, slots, exact[0], exact[1])
    queries = kernels.rotate_and_store(qkv, angles, slots, small[0], small[1], scales=scales)
    assert_alike(queries, expected, 4)
    for place in range(2):
        factors = (scales.keys, scales.values)[place]
        assert torch.equal((~factors.isnan()).view(12, kv_heads).all(1).nonzero()[:, 0], slots.sort().values)
        # The interpreter forgets to carry where a float8 is rounded up to a power of two: it becomes half of that.
        quotient = exact[place] / factors.nan_to_num(1.0)[..., None]
        rounded = quotient.to(torch.float8_e4m3fn).float().abs()
        carried = (rounded.log2().frac() == 0) & (rounded > quotient.abs())
        judged = ~carried if dtype == torch.float8_e4m3fn else torch.ones_like(carried)
        assert judged.float().mean() > 0.9
        restored = small[place].float() * factors.nan_to_num(1.0)[..., None]
        largest = exact[place].abs().amax(-1, keepdim=True)
        assert ((restored - exact[place]).abs() <= largest * error + 1e-6)[judged].all()


def test_a_token_with_a_negative_slot_is_turned_and_not_written() -> None:
    qkv = random_rows(2, 3 * 16)
    angles = kernels.rotary_angles(torch.arange(2), torch.rand(8), torch.float32)
    keys, values = torch.full((2, 2, 4, 1, 16), NAN)
    queries = kernels.rotate_and_store(qkv, angles, torch.tensor([5, -1]), keys, values)
    assert queries.isfinite().all()
    for pages in (keys, values):
        assert (~pages.view(8, 16).isnan()).all(1).nonzero().tolist() == [[5]]
