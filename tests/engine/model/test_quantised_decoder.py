"""The decoder on the CPU kernels: what it computes is the model, whatever its shape, and each row to the bit what it is alone."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.kv_cache import KVCache
from engine.pages import PageId
from kernels.cpu.variant import Variant
from tests.laws.test_exact import scattered_pages
from tests.support.cpu_kernels import RUNNABLE, QuantisedModel, each_variant, quantised_model
from tests.support.decoding import Stream, batch_of, step
from tests.support.tiny_families import FAMILIES, tiny_family

PAGES = 256
TEXT = [(7 * place * place + 3 * place) % 211 for place in range(150)]
KV_DTYPES = (torch.bfloat16, torch.int8)
ROUNDING = 0.06
"""How far logits may be from those of the same weights with activations in float32, in parts of the logits' spread."""


def family(name: str, seed: int = 0) -> object:
    """With heads that fill registers, and sizes that fill no group."""
    return tiny_family(name, seed, head_dim=16, hidden_size=80, intermediate_size=72, initializer_range=0.1)


def rows_of(model: QuantisedModel, ids: Sequence[int], pages: Sequence[int], chunks: Sequence[int]) -> torch.Tensor:
    """The logits after each chunk."""
    stream, cache = Stream(list(ids), pages), KVCache.for_spec(model.kv_spec, PAGES)
    return torch.cat([step(model.decoder, cache, [(stream, count)]) for count in chunks])


def threads_here() -> set[int]:
    return {int(task.name) for task in Path("/proc/self/task").iterdir()}


def no_numbers(pages: torch.Tensor) -> None:
    """Of bytes, four in a row are not one either."""
    pages.fill_(-1 if pages.dtype == torch.int8 else float("nan"))


@each_variant
@pytest.mark.parametrize(("bits", "kv_dtype"), [(4, torch.int8), (8, torch.int8), (8, torch.bfloat16)])
@pytest.mark.parametrize("name", FAMILIES)
def test_logits_are_those_of_its_weights_up_to_rounding(
    name: str, bits: int, kv_dtype: torch.dtype, variant: Variant
) -> None:
    model = quantised_model(family(name), variant, bits, kv_dtype)
    pages = list(range(20))[::-1]
    stream = Stream(list(TEXT), pages)
    plain_spec = model.plain.shape.kv_spec(torch.float32)
    cache, expected = KVCache.for_spec(plain_spec, PAGES), []
    chunks = [70, 3, 40, *[1] * 37]
    for count in chunks:
        expected.append(step(model.plain, cache, [(stream, count)]))
    wanted = torch.cat(expected)
    found = rows_of(model, TEXT, pages, chunks)
    assert (found - wanted).pow(2).mean().sqrt() < ROUNDING * wanted.std()


@each_variant
@given(
    name=st.sampled_from(sorted(FAMILIES)),
    bits=st.sampled_from((4, 8)),
    kv_dtype=st.sampled_from(KV_DTYPES),
    seed=st.integers(0, 10_000),
    lengths=st.lists(st.integers(1, 200), min_size=1, max_size=6),
    chunk=st.sampled_from((1, 2, 15, 16, 17, 64, 200)),
    threads=st.integers(1, 3),
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_logits_are_the_same_to_the_bit_for_any_chunks_company_pages_and_threads(
    variant: Variant,
    name: str,
    bits: int,
    kv_dtype: torch.dtype,
    seed: int,
    lengths: list[int],
    chunk: int,
    threads: int,
) -> None:
    model = quantised_model(family(name, seed % 5), variant, bits, kv_dtype)
    generator = torch.Generator().manual_seed(seed)
    prompts = [torch.randint(0, 211, (length,), generator=generator).tolist() for length in lengths]
    alone = [rows_of(model, ids, range(13), [len(ids)])[0] for ids in prompts]
    streams = [Stream(ids, pages) for ids, pages in zip(prompts, scattered_pages(lengths, generator), strict=True)]
    cache = KVCache.for_spec(model.kv_spec, PAGES)
    for layer in (*cache.keys, *cache.values):
        no_numbers(layer)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        while running := [stream for stream in streams if stream.done < len(stream.ids)]:
            parts = [(stream, min(chunk, len(stream.ids) - stream.done)) for stream in running]
            logits = step(model.decoder, cache, parts)
            for stream, row in zip(running, logits, strict=True):
                if stream.done == len(stream.ids):
                    assert torch.equal(row, alone[streams.index(stream)])
    finally:
        torch.set_num_threads(before)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core for everybody")
def test_who_helps_is_kept_off_the_core_of_whoever_computes() -> None:
    """Woken there, it waits behind: a step after a pause took as long as with one thread."""
    model = quantised_model(family("Llama"), RUNNABLE[0], 8)
    others = threads_here()
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        rows_of(model, TEXT, range(13), [len(TEXT)])
        cores = os.sched_getaffinity(0)
        # torch may have made a thread of its own, which goes where it likes.
        masks = [os.sched_getaffinity(thread) for thread in threads_here() - others]
        assert [mask for mask in masks if len(mask) == len(cores) - 1 and mask < cores]
    finally:
        torch.set_num_threads(before)


def test_a_step_without_wanted_rows_writes_its_pages() -> None:
    for variant in RUNNABLE:
        model = quantised_model(family("Llama"), variant, 8)
        cache = KVCache.for_spec(model.kv_spec, PAGES)
        whole, halved = Stream(list(TEXT[:40]), range(3)), Stream(list(TEXT[:40]), range(3, 6))
        expected = step(model.decoder, cache, [(whole, 40)])
        batch = batch_of([(halved, 20)])
        logits = model.decoder.forward(dataclasses.replace(batch, logit_rows=batch.logit_rows[:0]), cache)
        assert logits.shape == (0, 211)
        halved.done = 20
        assert torch.equal(step(model.decoder, cache, [(halved, 20)]), expected)


@each_variant
@given(
    name=st.sampled_from(sorted(FAMILIES)),
    lengths=st.lists(st.integers(1, 150), min_size=1, max_size=4),
    seed=st.integers(0, 10_000),
    share=st.sampled_from((0.02, 0.5)),
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_wanted_rows_are_what_they_are_where_all_are_wanted(
    variant: Variant, name: str, lengths: list[int], seed: int, share: float
) -> None:
    model = quantised_model(family(name, seed % 5), variant, 8, torch.int8)
    generator = torch.Generator().manual_seed(seed)
    pages = scattered_pages(lengths, generator)
    streams = [Stream(TEXT[:length], own) for length, own in zip(lengths, pages, strict=True)]
    batch = batch_of([(stream, length) for stream, length in zip(streams, lengths, strict=True)])
    every = torch.arange(sum(lengths))
    cache = KVCache.for_spec(model.kv_spec, PAGES)
    expected = model.decoder.forward(dataclasses.replace(batch, logit_rows=every), cache)
    wanted = every[torch.rand(len(every), generator=generator) < share].flip(0)
    found = model.decoder.forward(dataclasses.replace(batch, logit_rows=wanted), cache)
    assert torch.equal(found, expected[wanted])


@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
def test_numbers_that_are_not_finite_reach_the_logits(kv_dtype: torch.dtype) -> None:
    """A row that is broken must not look like an answer."""
    for variant in RUNNABLE:
        model = quantised_model(family("Llama"), variant, 8, kv_dtype)
        cache = KVCache.for_spec(model.kv_spec, PAGES)
        stream = Stream(list(TEXT[:20]), range(2))
        step(model.decoder, cache, [(stream, 19)])
        no_numbers(cache.values[0][0])
        assert step(model.decoder, cache, [(stream, 1)]).isnan().all()


@each_variant
@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
def test_pages_that_were_copied_or_kept_elsewhere_are_as_good_as_computed_ones(
    variant: Variant, kv_dtype: torch.dtype
) -> None:
    """A page is one opaque record, whatever its layout inside: half a page is used again as well as a whole one."""
    model = quantised_model(family("Qwen3"), variant, 8, kv_dtype)
    cache = KVCache.for_spec(model.kv_spec, 16)
    no_numbers(cache.storage)
    first = Stream(list(TEXT[:60]), [2, 9, 4, 7])
    expected = step(model.decoder, cache, [(first, 60)])
    # Another one with the same first 40 tokens: two whole pages, and eight tokens of a third.
    records = torch.empty(3, *cache.storage.shape[:1], *cache.storage.shape[2:], dtype=cache.spec.dtype)
    cache.copy_out([PageId(2), PageId(9)], records, [0, 1])
    cache.copy_in(records, [0, 1], [PageId(12), PageId(0)])
    cache.copy_page(PageId(4), PageId(5))
    again = Stream(list(TEXT[:60]), [12, 0, 5, 6], 40)
    assert torch.equal(step(model.decoder, cache, [(again, 20)]), expected)
    other = Stream([*TEXT[:40], *TEXT[80:100]], [12, 0, 5, 6], 40)
    alone = rows_of(model, other.ids, range(4), [60])
    assert torch.equal(step(model.decoder, cache, [(other, 20)]), alone)
