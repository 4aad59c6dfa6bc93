"""The reference operations against their definitions, written out row by row in float64."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import reference

PAGE_TOKENS = 4
NAN = float("nan")


def random_rows(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_rms_norm_scales_each_row_to_a_mean_square_of_one() -> None:
    rows, weight = random_rows(5, 8), random_rows(8, seed=1)
    wide = rows.double()
    expected = wide / (wide.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double()
    torch.testing.assert_close(reference.rms_norm(rows, weight, 1e-5), expected.float())


def test_rms_norm_takes_the_mean_of_narrow_rows_in_float32() -> None:
    rows = torch.full((1, 512), 300.0, dtype=torch.bfloat16)
    normed = reference.rms_norm(rows, torch.ones(512, dtype=torch.bfloat16), 1e-6)
    assert normed.dtype == torch.bfloat16
    torch.testing.assert_close(normed.float(), torch.ones(1, 512))


def test_silu_mul_gates_the_second_half_by_the_first() -> None:
    gate_up = random_rows(3, 8)
    gate, up = gate_up.double()[:, :4], gate_up.double()[:, 4:]
    torch.testing.assert_close(reference.silu_mul(gate_up), (gate / (1 + (-gate).exp()) * up).float())


def test_rms_norm_with_a_wide_weight_multiplies_before_it_narrows() -> None:
    rows = torch.full((1, 512), 3.0, dtype=torch.bfloat16)
    normed = reference.rms_norm(rows, torch.full((512,), 1.001), 1e-6)
    assert normed.dtype == torch.bfloat16
    assert torch.equal(normed, torch.full((1, 512), 1.001).to(torch.bfloat16))


def test_gelu_mul_gates_the_second_half_by_the_first() -> None:
    gate_up = random_rows(3, 8)
    gate, up = gate_up.double()[:, :4], gate_up.double()[:, 4:]
    bent = (math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)).tanh()
    torch.testing.assert_close(reference.gelu_mul(gate_up), (0.5 * gate * (1 + bent) * up).float())


def test_soft_cap_keeps_small_values_and_bounds_large_ones() -> None:
    values = torch.tensor([0.0, 0.01, -0.01, 1e6, -1e6, 3.0])
    capped = reference.soft_cap(values, 5.0)
    torch.testing.assert_close(capped, 5 * (values.double() / 5).tanh().float())
    assert values[3] == 1e6, "what is handed in stays as it is"


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (3, 1)])
def test_rotation_turns_pairs_by_their_position_and_stores_keys_and_values(heads: int, kv_heads: int) -> None:
    head_size, tokens = 8, 3
    qkv = random_rows(tokens, (heads + 2 * kv_heads) * head_size)
    positions, slots = torch.tensor([0, 7, 1000]), torch.tensor([9, 2, 5])
    frequencies = 1.0 / 10000 ** (torch.arange(0, head_size, 2) / head_size)
    keys = torch.full((3, PAGE_TOKENS, kv_heads, head_size), NAN)
    values = torch.full_like(keys, NAN)
    angles = reference.rotary_angles(positions, frequencies, torch.float32)

    queries = reference.rotate_and_store(qkv, angles, slots, keys, values)

    by_head = qkv.view(tokens, heads + 2 * kv_heads, head_size)
    for token, slot in enumerate(slots.tolist()):
        turn = torch.exp(1j * (positions[token].double() * frequencies.double()))
        pairs = torch.complex(
            by_head[token, :, : head_size // 2].double(), by_head[token, :, head_size // 2 :].double()
        )
        turned = pairs * turn
        expected = torch.cat([turned.real, turned.imag], dim=-1).float()
        torch.testing.assert_close(queries[token], expected[:heads], atol=1e-4, rtol=1e-4)
        page, offset = divmod(slot, PAGE_TOKENS)
        torch.testing.assert_close(keys[page, offset], expected[heads : heads + kv_heads], atol=1e-4, rtol=1e-4)
        assert torch.equal(values[page, offset], by_head[token, heads + kv_heads :])
    untouched = [slot for slot in range(3 * PAGE_TOKENS) if slot not in slots.tolist()]
    assert keys.view(-1, kv_heads, head_size)[untouched].isnan().all()
    assert values.view(-1, kv_heads, head_size)[untouched].isnan().all()


def test_rotation_norms_queries_and_keys_before_it_turns_them_and_leaves_values() -> None:
    heads, kv_heads, head_size, tokens = 4, 2, 8, 3
    qkv = random_rows(tokens, (heads + 2 * kv_heads) * head_size)
    weight = random_rows(heads + kv_heads, head_size, seed=1)
    by_head = qkv.view(tokens, -1, head_size)
    normed = by_head.clone()
    normed[:, :-kv_heads] = reference.rms_norm(by_head[:, :-kv_heads], weight, 1e-5)
    angles = reference.rotary_angles(torch.arange(tokens), torch.tensor([1.0, 0.5, 0.1, 0.01]), torch.float32)
    results = []
    for rows, head_norm in ((qkv, weight), (normed.view(tokens, -1), None)):
        keys, values = torch.zeros(2, 1, PAGE_TOKENS, kv_heads, head_size)
        results.append(
            (
                reference.rotate_and_store(rows, angles, torch.arange(tokens), keys, values, head_norm, 1e-5),
                keys,
                values,
            )
        )
    for with_norm, expected in zip(*results, strict=True):
        torch.testing.assert_close(with_norm, expected)


def test_angles_may_have_frequencies_of_each_row_and_a_magnitude() -> None:
    positions, rows = torch.tensor([3, 8]), torch.tensor([[1.0, 0.5], [0.7, 0.2]])
    together = reference.rotary_angles(positions, rows, torch.float32, 1.5)
    for index in range(2):
        alone = reference.rotary_angles(positions[index : index + 1], rows[index], torch.float32)
        torch.testing.assert_close(together.cosines[index], 1.5 * alone.cosines[0])
        torch.testing.assert_close(together.sines[index], 1.5 * alone.sines[0])


def attention_by_definition(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    table: list[int],
    context: int,
    window: int | None = None,
    scale: float | None = None,
    cap: float | None = None,
) -> torch.Tensor:
    """One query of all heads over the last `window` of the first `context` tokens of a table, in float64."""
    first = max(0, context - window) if window else 0
    slots = [table[place // PAGE_TOKENS] * PAGE_TOKENS + place % PAGE_TOKENS for place in range(first, context)]
    heads, head_size = query.shape
    kv_heads = keys.shape[2]
    shared = heads // kv_heads
    own_keys = keys.view(-1, kv_heads, head_size)[slots].double().repeat_interleave(shared, dim=1)
    own_values = values.view(-1, kv_heads, head_size)[slots].double().repeat_interleave(shared, dim=1)
    scores = torch.einsum("hd,thd->ht", query.double(), own_keys) * (scale or 1 / math.sqrt(head_size))
    if cap:
        scores = cap * (scores / cap).tanh()
    return torch.einsum("ht,thd->hd", scores.softmax(-1), own_values).float()


batches = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 40)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    min_size=1,
    max_size=6,
)
"""Queries and context length of each sequence."""


@given(
    parts=batches,
    kv_heads=st.sampled_from([1, 2]),
    shared=st.sampled_from([1, 3]),
    window=st.none() | st.integers(1, 30),
    rule=st.none() | st.builds(reference.ScoreRule, st.floats(0.1, 2), st.none() | st.floats(0.5, 5)),
    seed=st.integers(0, 1000),
)
@settings(max_examples=120, deadline=None)
def test_attention_of_any_mixed_batch_is_the_definition_and_reads_no_other_page(
    parts: list[tuple[int, int]],
    kv_heads: int,
    shared: int,
    window: int | None,
    rule: reference.ScoreRule | None,
    seed: int,
) -> None:
    head_size, pages = 8, 90
    chooser = torch.Generator().manual_seed(seed)
    free = torch.randperm(pages, generator=chooser).tolist()
    tables = [[free.pop() for _ in range(-(-context // PAGE_TOKENS))] for _, context in parts]
    keys, values = random_rows(2, pages, PAGE_TOKENS, kv_heads, head_size, seed=seed)
    # Whoever reads a page that is in no table gets NaN. Page 0 of a padded table is one of them.
    keys[free], values[free] = NAN, NAN
    for table, (count, context) in zip(tables, parts, strict=True):
        unseen = table[: max(0, context - count + 1 - window) // PAGE_TOKENS] if window else []
        keys[unseen], values[unseen] = NAN, NAN
    width = max(map(len, tables))
    padding = free[0] if free else 0
    queries = random_rows(sum(count for count, _ in parts), kv_heads * shared, head_size, seed=seed + 1)
    starts = [0]
    for count, _ in parts:
        starts.append(starts[-1] + count)
    plan = reference.plan_attention(
        torch.tensor(starts),
        torch.tensor([context for _, context in parts]),
        torch.tensor([table + [padding] * (width - len(table)) for table in tables]),
        PAGE_TOKENS,
        torch.float32,
        window,
    )

    attended = reference.paged_attention(queries, keys, values, plan, rule)

    scale, cap = (rule.scale, rule.cap) if rule else (None, None)

    for index, (count, context) in enumerate(parts):
        for place in range(count):
            row = starts[index] + place
            visible = context - count + place + 1
            expected = attention_by_definition(queries[row], keys, values, tables[index], visible, window, scale, cap)
            torch.testing.assert_close(attended[row], expected, atol=1e-5, rtol=1e-4)


def test_decoding_rows_with_a_window_read_no_more_pages_than_it_spans() -> None:
    contexts, width = [3, 70, 150, 600], 150
    plan = reference.plan_attention(
        torch.arange(len(contexts) + 1),
        torch.tensor(contexts),
        torch.arange(len(contexts) * width).view(len(contexts), width),
        PAGE_TOKENS,
        torch.float32,
        window_tokens=9,
    )
    (group,) = plan.groups
    pages = group.pages.view(len(contexts), -1)
    assert pages.shape[1] == 3
    for row, context in enumerate(contexts):
        last = (context - 1) // PAGE_TOKENS
        first = max(0, context - 9) // PAGE_TOKENS
        assert set(pages[row].tolist()) == {row * width + page for page in range(first, last + 1)}


def test_a_short_row_beside_a_long_one_reads_at_most_twice_its_pages() -> None:
    contexts = [3, 9, 20, 70, 150, 600]
    width = 150
    plan = reference.plan_attention(
        torch.arange(len(contexts) + 1),
        torch.tensor(contexts),
        torch.arange(len(contexts) * width).view(len(contexts), width),
        PAGE_TOKENS,
        torch.float32,
    )
    read = {}
    for group in plan.groups:
        assert group.rows is not None
        for row in group.rows.tolist():
            read[row] = group.pages.numel() // len(group.rows)
    for row, context in enumerate(contexts):
        needed = -(-context // PAGE_TOKENS)
        assert read[row] <= max(2 * needed, 2 * reference.SMALLEST_GROUP_PAGES), (context, read[row])


def test_a_batch_that_only_decodes_is_one_call_without_copies() -> None:
    plan = reference.plan_attention(
        torch.arange(4), torch.tensor([9, 10, 11]), torch.arange(9).view(3, 3), PAGE_TOKENS, torch.float32
    )
    assert len(plan.groups) == 1
    assert plan.groups[0].rows is None
    assert not plan.chunks
