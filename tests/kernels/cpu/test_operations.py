"""Each operation of the C++ kernels against its twin in plain torch, in every variant, over random shapes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import reference_quantised as reference
from kernels.cpu.variant import Variant
from kernels.packed_matrix import (
    GROUP_COLUMNS,
    PackedMatrix,
    byte_blocks,
    empty_matrix,
    fill,
    padded,
    small_blocks,
    weights_of,
)
from tests.support.cpu_kernels import RUNNABLE, each_variant, kernels_of

PAGE_TOKENS = 16
HEAD_SIZES = (16, 64, 80, 96, 128, 256)

seeds = st.integers(0, 10_000)
row_counts = st.integers(1, 40)
sizes = st.integers(1, 200)


def random_rows(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def random_matrix(rows: int, columns: int, bits: int, seed: int = 0) -> PackedMatrix:
    weights = random_rows(rows, columns, seed=seed)
    matrix = empty_matrix(rows, columns, bits)
    fill(matrix, [small_blocks(weights) if bits == 4 else byte_blocks(weights)], [0])
    return matrix


def padded_rows(rows: int, columns: int, seed: int) -> torch.Tensor:
    """Activations of different magnitudes, with a group of zeros here and there."""
    made = torch.zeros(rows, padded(columns))
    made[:, :columns] = random_rows(rows, columns, seed=seed) * 10 ** random_rows(rows, 1, seed=seed + 1)
    if seed % 3 == 0:
        made[rows // 2, :GROUP_COLUMNS] = 0
    return made


def assert_rounded_alike(values: torch.Tensor, scales: torch.Tensor, expected: reference.RoundedRows) -> None:
    """The last bit of a float may round a number to the neighbour, and only that."""
    torch.testing.assert_close(scales, expected.scales, rtol=1e-5, atol=1e-30)
    different = values.int() - expected.values.int()
    assert different.abs().max() <= 1
    assert different.count_nonzero() <= 1 + different.numel() // 100


@each_variant
@given(rows=row_counts, columns=sizes, seed=seeds)
@settings(max_examples=30, deadline=None)
def test_rows_are_rounded_to_eight_bits_by_groups(variant: Variant, rows: int, columns: int, seed: int) -> None:
    numbers = padded_rows(rows, columns, seed)
    values, scales = kernels_of(variant).operations.quantise_rows(numbers)
    expected = reference.quantise_rows(numbers)
    assert torch.equal(scales, expected.scales)
    assert torch.equal(values, expected.values)


@each_variant
@given(rows=row_counts, columns=sizes, seed=seeds)
@settings(max_examples=30, deadline=None)
def test_norms_are_taken_of_the_row_without_its_padding(variant: Variant, rows: int, columns: int, seed: int) -> None:
    numbers, weight = padded_rows(rows, columns, seed), torch.zeros(padded(columns))
    weight[:columns] = random_rows(columns, seed=seed + 2)
    values, scales = kernels_of(variant).operations.norm_and_quantise(numbers, weight, columns, 1e-5)
    assert_rounded_alike(values, scales, reference.norm_and_quantise(numbers, weight, columns, 1e-5))


@each_variant
@given(
    rows=row_counts,
    columns=sizes,
    out=sizes,
    bits=st.sampled_from((4, 8)),
    has_bias=st.booleans(),
    threads=st.integers(1, 3),
    seed=seeds,
)
@settings(max_examples=60, deadline=None)
def test_products_are_those_of_the_definition_and_no_row_depends_on_those_beside_it(
    variant: Variant, rows: int, columns: int, out: int, bits: int, has_bias: bool, threads: int, seed: int
) -> None:
    operations = kernels_of(variant).operations
    matrix, numbers = random_matrix(out, columns, bits, seed), padded_rows(rows, columns, seed)
    bias = random_rows(padded(out), seed=seed + 3) if has_bias else None
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        together = operations.linear(numbers, matrix.quants, matrix.scales, bias)
    finally:
        torch.set_num_threads(before)
    expected = reference.linear(numbers, matrix, bias)
    scale = (reference.quantise_rows(numbers).numbers().abs() @ weights_of(matrix).abs().T).max()
    assert (together - expected).abs().max() <= 1e-6 * scale + 1e-6
    alone = [operations.linear(row[None], matrix.quants, matrix.scales, bias)[0] for row in numbers]
    assert torch.equal(together, torch.stack(alone))


@given(rows=row_counts, columns=sizes, out=sizes, bits=st.sampled_from((4, 8)), seed=seeds)
@settings(max_examples=30, deadline=None)
def test_products_are_the_same_to_the_bit_in_all_variants(
    rows: int, columns: int, out: int, bits: int, seed: int
) -> None:
    matrix, numbers = random_matrix(out, columns, bits, seed), padded_rows(rows, columns, seed)
    products = [
        kernels_of(variant).operations.linear(numbers, matrix.quants, matrix.scales, None) for variant in RUNNABLE
    ]
    assert all(torch.equal(product, products[0]) for product in products)


@each_variant
@given(
    rows=row_counts,
    columns=sizes,
    width=sizes,
    bits=st.sampled_from((4, 8)),
    has_bias=st.booleans(),
    gelu=st.booleans(),
    seed=seeds,
)
@settings(max_examples=40, deadline=None)
def test_gate_and_up_become_one_rounded_row(
    variant: Variant, rows: int, columns: int, width: int, bits: int, has_bias: bool, gelu: bool, seed: int
) -> None:
    matrix = random_matrix(2 * padded(width), columns, bits, seed)
    numbers = padded_rows(rows, columns, seed)
    bias = random_rows(matrix.rows, seed=seed + 3) if has_bias else None
    values, scales = kernels_of(variant).operations.gated(numbers, matrix.quants, matrix.scales, bias, gelu)
    expected = reference.gated(numbers, matrix, bias, gelu=gelu)
    torch.testing.assert_close(scales, expected.scales, rtol=1e-3, atol=1e-4)
    error = (values.float() * scales[..., None] - expected.values.float() * expected.scales[..., None]).abs()
    assert (error <= 1.02 * scales[..., None] + 1e-4).all()
    assert (values.int() - expected.values.int()).abs().float().mean() < 0.02


@each_variant
@given(rows=sizes, columns=sizes, bits=st.sampled_from((4, 8)), seed=seeds)
@settings(max_examples=20, deadline=None)
def test_a_row_of_a_matrix_is_read_as_it_was_written(
    variant: Variant, rows: int, columns: int, bits: int, seed: int
) -> None:
    matrix = random_matrix(rows, columns, bits, seed)
    wanted = torch.randint(0, rows, (5,), generator=torch.Generator().manual_seed(seed))
    read = kernels_of(variant).operations.matrix_rows(matrix.quants, matrix.scales, wanted)
    torch.testing.assert_close(read, weights_of(matrix)[wanted], rtol=1e-6, atol=1e-6)


@each_variant
@given(
    rows=st.integers(1, 9),
    kv_heads=st.sampled_from((1, 2, 3)),
    shared=st.sampled_from((1, 3, 7)),
    size=st.sampled_from(HEAD_SIZES),
    has_norm=st.booleans(),
    kept=st.sampled_from((torch.bfloat16, torch.int8)),
    seed=seeds,
)
@settings(max_examples=60, deadline=None)
def test_queries_are_turned_and_keys_and_values_written_to_their_slots(
    variant: Variant, rows: int, kv_heads: int, shared: int, size: int, has_norm: bool, kept: torch.dtype, seed: int
) -> None:
    heads, pages = kv_heads * shared, 4
    qkv = random_rows(rows, padded((heads + 2 * kv_heads) * size), seed=seed)
    norm = random_rows(heads + kv_heads, size, seed=seed + 1) if has_norm else None
    chooser = torch.Generator().manual_seed(seed)
    positions = torch.randint(0, 50, (rows,), generator=chooser)
    slots = torch.randperm(pages * PAGE_TOKENS, generator=chooser)[:rows]
    angles = random_rows(50, size // 2, seed=seed + 2)
    results = []
    for rotate in (kernels_of(variant).operations.rotate_and_store, reference.rotate_and_store):
        keys, values = torch.full((2, pages, kv_heads * PAGE_TOKENS * kept_numbers(size, kept)), 7, dtype=kept)
        queries = rotate(qkv, angles.cos(), angles.sin(), positions, slots, keys, values, heads, kv_heads, norm, 1e-6)
        results.append((queries, keys, values))
    if kept is torch.int8:
        for computed, expected in zip(results[0][1:], results[1][1:], strict=True):
            is_key = computed is results[0][1]
            assert_kept_alike(computed, expected, kv_heads, size, slots, is_key=is_key)
        numbers, scales, sums = rounded_query(results[0][0], size)
        expected_numbers, expected_scales, _ = rounded_query(results[1][0], size)
        assert_rounded_alike(numbers, scales, reference.RoundedRows(expected_numbers, expected_scales))
        assert torch.equal(numbers.sum(-1), sums)
        return
    for computed, expected in zip(*results, strict=True):
        torch.testing.assert_close(computed.float(), expected.float(), rtol=1e-2, atol=1e-5)
    assert torch.equal(results[0][2], results[1][2]), "values are only rounded"
    assert torch.equal(results[0][1] == 7.0, results[1][1] == 7.0), "nothing is written but the slots"


def kept_numbers(size: int, kept: torch.dtype) -> int:
    """Of one token in one head."""
    return size + (reference.SCALE_BYTES if kept is torch.int8 else 0)


def rounded_query(queries: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    scales, sums = (queries[..., start : start + 4].contiguous() for start in (size, size + 4))
    return queries[..., :size], scales.view(torch.float32)[..., 0], sums.view(torch.int32)[..., 0]


def assert_kept_alike(
    computed: torch.Tensor, expected: torch.Tensor, kv_heads: int, size: int, slots: torch.Tensor, *, is_key: bool
) -> None:
    """What was written to the slots is rounded alike, and nothing else was written."""
    written = torch.zeros(computed.shape[0] * PAGE_TOKENS, dtype=torch.bool)
    written[slots] = True
    numbers, scales = [], []
    for pages in (computed, expected):
        view = (reference._key_view if is_key else reference._value_view)(pages, kv_heads, size)
        by_token = view.permute(0, 3, 1, 2, 4) if is_key else view.permute(0, 2, 4, 1, 3)
        own = by_token.reshape(len(written), kv_heads, size)
        own_scales = reference._scale_view(pages, kv_heads, size).transpose(1, 2).reshape(len(written), kv_heads)
        assert (own[~written] == 7).all()
        assert (own_scales[~written].contiguous().view(torch.int8) == 7).all()
        numbers.append(own[written] ^ (-128 if is_key else 0))
        scales.append(own_scales[written])
    assert_rounded_alike(numbers[0], scales[0], reference.RoundedRows(numbers[1], scales[1]))


batches = st.lists(
    st.tuples(st.integers(1, 20), st.integers(0, 300) | st.integers(500, 900)).map(lambda pair: (pair[0], sum(pair))),
    min_size=1,
    max_size=4,
)
"""Queries and context length of each sequence."""


def random_pool(pages: int, kv_heads: int, size: int, kept: torch.dtype, seed: int) -> torch.Tensor:
    """Keys and values, [2, pages, numbers]."""
    if kept is torch.bfloat16:
        return random_rows(2, pages, kv_heads * PAGE_TOKENS * size, seed=seed).to(kept)
    chooser = torch.Generator().manual_seed(seed)
    shape = (2, pages, kv_heads * PAGE_TOKENS * kept_numbers(size, kept))
    pool = torch.randint(-127, 128, shape, generator=chooser).to(torch.int8)
    for half in pool:
        scales = reference._scale_view(half, kv_heads, size)
        scales.copy_((1 + torch.rand(scales.shape, generator=chooser)) / 100)
    # A byte of a key has 128 added: 0 stands for -128, which nothing is rounded to.
    pool[0][pool[0] == 0] = 1
    return pool


def poison(half: torch.Tensor, pages: list[int], first: int, kv_heads: int, size: int, *, is_key: bool) -> None:
    """What nobody owns, from a token of these pages on; bytes that are no numbers there are not, but scales."""
    if half.dtype is torch.int8:
        reference._scale_view(half, kv_heads, size)[pages, :, first:] = float("nan")
        return
    view = (reference._key_view if is_key else reference._value_view)(half, kv_heads, size)
    for token in range(first, PAGE_TOKENS):
        if is_key:
            view[pages, :, :, token] = float("nan")
        else:
            view[pages, :, token // 2, :, token % 2] = float("nan")


def without_poison(half: torch.Tensor, kv_heads: int, size: int) -> torch.Tensor:
    if half.dtype is not torch.int8:
        return half.nan_to_num()
    clean = half.clone()
    reference._scale_view(clean, kv_heads, size).nan_to_num_()
    return clean


@each_variant
@given(
    parts=batches,
    common=st.integers(0, 40),
    kv_heads=st.sampled_from((1, 2)),
    shared=st.sampled_from((1, 3, 4, 7, 100)),
    size=st.sampled_from(HEAD_SIZES),
    window=st.just(0) | st.integers(1, 200),
    cap=st.just(0.0) | st.floats(0.5, 5),
    kept=st.sampled_from((torch.bfloat16, torch.int8)),
    seed=seeds,
)
@settings(max_examples=80, deadline=None)
def test_attention_of_any_mixed_batch_is_the_definition_and_no_row_depends_on_those_beside_it(
    variant: Variant,
    parts: list[tuple[int, int]],
    common: int,
    kv_heads: int,
    shared: int,
    size: int,
    window: int,
    cap: float,
    kept: torch.dtype,
    seed: int,
) -> None:
    """`common` pages are what all sequences begin with, as far as each goes: they are read once for all, to the same bits."""
    attend = kernels_of(variant).operations.paged_attention
    pages, heads = 300, kv_heads * shared
    free = torch.randperm(pages, generator=torch.Generator().manual_seed(seed)).tolist()
    beginning = [free.pop() for _ in range(common)]
    tables = []
    for _, context in parts:
        table = beginning[: context // PAGE_TOKENS]
        tables.append([*table, *(free.pop() for _ in range(len(table), -(-context // PAGE_TOKENS)))])
    pool = random_pool(pages, kv_heads, size, kept, seed)
    # What nobody here owns is poison, and so is what lies behind a sequence's last token.
    for half, is_key in zip(pool, (True, False), strict=True):
        poison(half, free, 0, kv_heads, size, is_key=is_key)
        for (_, context), table in zip(parts, tables, strict=True):
            if behind := context % PAGE_TOKENS:
                poison(half, [table[-1]], behind, kv_heads, size, is_key=is_key)
    keys, values = pool
    starts = [0]
    for count, _ in parts:
        starts.append(starts[-1] + count)
    queries = random_rows(starts[-1], heads, size, seed=seed + 1)
    queries = reference.rounded_queries(queries) if kept is torch.int8 else queries.to(kept)
    contexts = torch.tensor([context for _, context in parts])
    width = max(len(table) for table in tables)
    padded_tables = torch.tensor([[*table, *[0] * (width - len(table))] for table in tables])
    scale = size**-0.5 * ((size & -size) if kept is torch.int8 else 1)
    rule = (kv_heads, scale, cap, window)

    attended = attend(queries, keys, values, torch.tensor(starts), contexts, padded_tables, *rule)

    expected = reference.paged_attention(
        queries,
        without_poison(keys, kv_heads, size),
        without_poison(values, kv_heads, size),
        torch.tensor(starts),
        contexts,
        padded_tables,
        *rule,
    )
    torch.testing.assert_close(attended, expected, rtol=2e-2, atol=2e-2)
    for index, (count, context) in enumerate(parts):
        for place in (0, count - 1):
            row, seen = starts[index] + place, context - count + place + 1
            one = attend(
                queries[row : row + 1],
                keys,
                values,
                torch.tensor([0, 1]),
                torch.tensor([seen]),
                padded_tables[index : index + 1],
                *rule,
            )
            assert torch.equal(one[0], attended[row])


@each_variant
def test_what_is_handed_in_wrongly_is_refused_and_not_read(variant: Variant) -> None:
    operations = kernels_of(variant).operations
    matrix = random_matrix(64, 64, 4)
    with pytest.raises(RuntimeError, match="not padded to 2 groups"):
        operations.linear(torch.zeros(1, 32), matrix.quants, matrix.scales, None)
    with pytest.raises(RuntimeError, match="of type Double"):
        operations.linear(torch.zeros(1, 64, dtype=torch.float64), matrix.quants, matrix.scales, None)
    with pytest.raises(RuntimeError, match="scales of the shape"):
        operations.linear(torch.zeros(1, 64), matrix.quants, matrix.scales[:, :1].contiguous(), None)
    pages = torch.zeros(2, 16 * 64, dtype=torch.bfloat16)
    table = torch.tensor([[5]])
    with pytest.raises(RuntimeError, match="block_tables has 5 where less than 2"):
        operations.paged_attention(
            torch.zeros(1, 1, 64, dtype=torch.bfloat16),
            *(pages, pages, torch.tensor([0, 1]), torch.tensor([3]), table),
            *(1, 1.0, 0.0, 0),
        )
