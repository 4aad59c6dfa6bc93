"""Paged attention in Triton against the reference: decoding rows, chunks of prompts, and both in one batch."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import reference
from kernels import triton as kernels
from tests.kernels.triton.batches import Batch, random_rows

BFLOAT16_STEP = 2**-7
"""The interpreter cuts the last bits of a bfloat16 off where a device rounds: a whole step may be lost."""

decoding = st.lists(st.integers(1, 70).map(lambda context: (1, context)), min_size=1, max_size=4)
mixed = st.lists(
    st.tuples(st.integers(1, 25), st.integers(0, 45)).map(lambda pair: (pair[0], sum(pair))), min_size=1, max_size=4
)
rules = st.none() | st.builds(reference.ScoreRule, st.floats(0.1, 1), st.none() | st.floats(0.5, 5))
windows = st.none() | st.integers(1, 40)


@pytest.mark.parametrize("head_size", [64, 80, 96, 128, 256])
@given(parts=mixed | decoding, window=windows, rule=rules, shared=st.sampled_from([1, 3, 5]), seed=st.integers(0, 99))
@settings(max_examples=6, deadline=None, derandomize=True)
def test_any_batch_is_the_reference_and_reads_nothing_else(
    head_size: int,
    parts: list[tuple[int, int]],
    window: int | None,
    rule: reference.ScoreRule | None,
    shared: int,
    seed: int,
) -> None:
    batch = Batch.random(parts, heads=shared, kv_heads=1, head_size=head_size, window=window, seed=seed)
    torch.testing.assert_close(batch.attended(rule), batch.expected(rule), atol=2e-5, rtol=1e-4)


@given(
    parts=mixed,
    window=windows,
    rule=rules,
    kv_heads=st.sampled_from([1, 2, 3]),
    shared=st.sampled_from([1, 2, 3, 8]),
    head_size=st.sampled_from([8, 24, 32]),
    page_tokens=st.sampled_from([1, 4, 16]),
    split_tokens=st.sampled_from([16, 32, 128]),
    seed=st.integers(0, 99),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_any_grouping_page_and_split_is_the_reference(
    parts: list[tuple[int, int]],
    window: int | None,
    rule: reference.ScoreRule | None,
    kv_heads: int,
    shared: int,
    head_size: int,
    page_tokens: int,
    split_tokens: int,
    seed: int,
) -> None:
    batch = Batch.random(
        parts,
        heads=kv_heads * shared,
        kv_heads=kv_heads,
        head_size=head_size,
        page_tokens=page_tokens,
        window=window,
        seed=seed,
    )
    torch.testing.assert_close(batch.attended(rule, split_tokens), batch.expected(rule), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 2e-3), (torch.bfloat16, BFLOAT16_STEP)])
@pytest.mark.parametrize("window", [None, 21])
def test_narrow_types_are_the_reference_within_their_step(
    dtype: torch.dtype, tolerance: float, window: int | None
) -> None:
    batch = Batch.random([(1, 50), (7, 40), (1, 3)], heads=4, kv_heads=2, head_size=64, window=window, dtype=dtype)
    attended = batch.attended()
    assert attended.dtype == dtype
    torch.testing.assert_close(attended.float(), batch.expected(), atol=2 * tolerance, rtol=2 * tolerance)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
@pytest.mark.parametrize("rule", [None, reference.ScoreRule(0.2, 3.0)])
def test_pages_of_eight_bits_count_as_often_as_their_scale_says(
    dtype: torch.dtype, rule: reference.ScoreRule | None
) -> None:
    batch = Batch.random([(1, 50), (7, 40), (1, 3)], heads=4, kv_heads=2, head_size=64, window=30)
    scales = kernels.PageScales(*(random_rows(2, *batch.keys.shape[:3], seed=5).abs() / 16 + 0.01))
    unread = batch.keys[..., 0].isnan()
    scales.keys[unread], scales.values[unread] = float("nan"), float("nan")
    small = [(rows.nan_to_num(7.0) * 16).to(dtype) for rows in (batch.keys, batch.values)]
    meant = [rows.float() * factor[..., None] for rows, factor in zip(small, (scales.keys, scales.values), strict=True)]
    attended = kernels.paged_attention(batch.queries, *small, batch.plan(), rule, scales)
    expected = dataclasses.replace(batch, keys=meant[0], values=meant[1]).expected(rule)
    torch.testing.assert_close(attended, expected, atol=2e-5, rtol=1e-4)


def test_the_bits_of_a_decoding_row_do_not_depend_on_its_neighbours_or_its_pages() -> None:
    together = Batch.random([(1, 45), (6, 30), (1, 70), (1, 2)], heads=3, kv_heads=1, head_size=32)
    whole = together.attended()
    for index in (0, 2, 3):
        row = int(together.query_starts[index])
        used = -(-together.parts[index][1] // together.page_tokens)
        alone = dataclasses.replace(
            together,
            parts=[together.parts[index]],
            query_starts=torch.tensor([0, 1]),
            block_tables=together.block_tables[index : index + 1, :used],
            queries=together.queries[row : row + 1],
        )
        assert torch.equal(alone.attended()[0], whole[row])


def test_a_prompt_in_chunks_is_the_whole_prompt() -> None:
    whole = Batch.random([(37, 37)], heads=4, kv_heads=2, head_size=32, window=11)
    attended = whole.attended()
    for first, last in ((0, 5), (5, 6), (6, 37)):
        chunk = dataclasses.replace(
            whole,
            parts=[(last - first, last)],
            query_starts=torch.tensor([0, last - first]),
            queries=whole.queries[first:last],
        )
        torch.testing.assert_close(chunk.attended(), attended[first:last], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("split_tokens", [16, 128])
def test_a_row_without_context_is_padding_and_becomes_zero(split_tokens: int) -> None:
    batch = Batch.random([(1, 20), (1, 40)], heads=2, kv_heads=1, head_size=16)
    padded = dataclasses.replace(
        batch,
        parts=[*batch.parts, (1, 0)],
        query_starts=torch.arange(4),
        block_tables=torch.cat((batch.block_tables, batch.block_tables[:1])),
        queries=torch.cat((batch.queries, batch.queries[:1])),
    )
    attended = padded.attended(split_tokens=split_tokens)
    torch.testing.assert_close(attended[:2], batch.expected(), atol=2e-5, rtol=1e-4)
    assert torch.equal(attended[2], torch.zeros(2, 16))


def test_queries_may_lie_apart_from_each_other() -> None:
    batch = Batch.random([(1, 20), (4, 9)], heads=4, kv_heads=2, head_size=16)
    wider = torch.cat((batch.queries, torch.full_like(batch.queries, float("nan"))), dim=1)[:, :4]
    assert torch.equal(dataclasses.replace(batch, queries=wider).attended(), batch.attended())


def test_pages_that_would_be_read_wrongly_are_refused() -> None:
    batch = Batch.random([(1, 9)], heads=2, kv_heads=2, head_size=16)
    for keys, values, scales, words in [
        (batch.keys[:, :, :1], batch.values, None, "alike"),
        (batch.keys.transpose(1, 2), batch.values.transpose(1, 2), None, "contiguous"),
        (batch.keys.to(torch.int8), batch.values.to(torch.int8), None, "need scales"),
        (batch.keys, batch.values, kernels.PageScales(batch.keys, batch.values), "have no scales"),
        (
            batch.keys.to(torch.int8),
            batch.values.to(torch.int8),
            kernels.PageScales(batch.keys, batch.values),
            "scales must be",
        ),
    ]:
        with pytest.raises(ValueError, match=words):
            kernels.paged_attention(batch.queries, keys, values, batch.plan(), None, scales)
    turned = batch.queries.transpose(1, 2).contiguous().transpose(1, 2)
    with pytest.raises(ValueError, match="side by side"):
        kernels.paged_attention(turned, batch.keys, batch.values, batch.plan())
