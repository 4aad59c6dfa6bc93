"""Pages of KV memory: one piece of storage, views of it for the kernels, records of it for the tiers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kv_cache import KVCache, KVSpec, lazy_zeros
from engine.pages import PageId

PAGES = 12


def random_cache(dtype: torch.dtype, seed: int = 1) -> KVCache:
    cache = KVCache.for_spec(KVSpec(layers=3, kv_heads=2, head_size=4, dtype=dtype), PAGES)
    cache.storage.copy_(torch.randn(cache.storage.shape, generator=torch.Generator().manual_seed(seed)))
    return cache


def test_keys_and_values_of_a_layer_are_views_of_one_storage() -> None:
    cache = random_cache(torch.float32)
    assert len(cache.keys) == len(cache.values) == 3
    for layer in range(3):
        assert torch.equal(cache.keys[layer], cache.storage[layer])
        assert torch.equal(cache.values[layer], cache.storage[3 + layer])
        cache.values[layer][5, 3] = 9.0
        assert torch.equal(cache.storage[3 + layer, 5, 3], torch.full((2, 4), 9.0))
        assert cache.keys[layer].is_contiguous()
        assert cache.values[layer].is_contiguous()


def test_a_copied_page_holds_the_same_in_every_layer_and_nothing_else_changes() -> None:
    cache = random_cache(torch.bfloat16)
    before = cache.storage.clone()
    cache.copy_page(PageId(4), PageId(9))
    assert torch.equal(cache.storage[:, 9], before[:, 4])
    others = [page for page in range(PAGES) if page != 9]
    assert torch.equal(cache.storage[:, others], before[:, others])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_pages_in_any_order_come_back_from_any_places_with_the_same_bytes(
    dtype: torch.dtype, data: st.DataObject
) -> None:
    cache = random_cache(dtype)
    before = cache.storage.clone()
    pages = [PageId(page) for page in data.draw(st.lists(st.integers(0, PAGES - 1), unique=True))]
    places = data.draw(st.lists(st.integers(0, 19), unique=True, min_size=len(pages), max_size=len(pages)))
    records = lazy_zeros((20, *cache.storage[:, 0].shape), dtype)
    cache.copy_out(pages, records, places)
    for page, place in zip(pages, places, strict=True):
        assert torch.equal(records[place], before[:, page])
    targets = [PageId(page) for page in data.draw(st.permutations(range(PAGES)))[: len(pages)]]
    cache.copy_in(records, places, targets)
    for page, target in zip(pages, targets, strict=True):
        assert torch.equal(cache.storage[:, target], before[:, page])
    untouched = [page for page in range(PAGES) if page not in targets]
    assert torch.equal(cache.storage[:, untouched], before[:, untouched])


def test_as_many_places_as_pages_are_needed() -> None:
    cache = random_cache(torch.float32)
    with pytest.raises(ValueError, match="2 pages and 1 places"):
        cache.copy_out([PageId(0), PageId(1)], lazy_zeros((2, *cache.storage[:, 0].shape), torch.float32), [0])
