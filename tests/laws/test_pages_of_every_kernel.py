"""A page that is not full goes down and comes back with all its own tokens and nothing else, however the kernels lay it out.

The rest of such a page is cleared on its way, because it may hold what somebody else said. Cleared as if tokens were rows, pages
of the compiled kernels lost a part of every token they held, and the checksum was right all the same.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.config import PAGE_TOKENS, EngineConfig
from engine.kv_cache import KVCache, clear_after
from engine.model.loader import LoadedModel, load_model
from engine.pages import PageId
from engine.snapshot import SessionState
from engine.types import SessionKey
from kernels.cpu.variant import cpu_flags, variant_for
from tests.laws.test_real_tokenizers_and_models import ANNA, QUESTION, served
from tests.support.cpu_kernels import KERNELS_FOLDER, kernels_of
from tests.support.decoding import Stream, step
from tests.support.tiny_llama import write_folder

VARIANT = variant_for(cpu_flags())
COMPILED = [("int8", "bf16"), ("int8", "int8"), ("int4", "int8")] if VARIANT else []
every_precision = pytest.mark.parametrize(("weights", "kv_dtype"), [("fp32", "auto"), ("bf16", "auto"), *COMPILED])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose heads fill registers."""
    if VARIANT is not None:
        kernels_of(VARIANT)
    path = tmp_path_factory.mktemp("model")
    write_folder(path, hidden_size=64, intermediate_size=96, head_dim=16)
    return path


def record_of(loaded: LoadedModel, num_tokens: int) -> torch.Tensor:
    """What a page of an empty cache holds after so many tokens."""
    cache = KVCache.for_spec(loaded.kv_spec, 1)
    step(loaded.decoder, cache, [(Stream(list(range(40, 40 + num_tokens)), [0]), num_tokens)])
    record = torch.empty(1, *cache.storage[:, 0].shape, dtype=cache.spec.dtype)
    cache.copy_out([PageId(0)], record, [0])
    return record


@every_precision
def test_what_is_cleared_of_a_page_are_the_tokens_behind_its_own(folder: Path, weights: str, kv_dtype: str) -> None:
    config = EngineConfig(folder, "tiny", weights=weights, kv_dtype=kv_dtype, kernels_folder=KERNELS_FOLDER)
    loaded = load_model(config)
    whole = record_of(loaded, PAGE_TOKENS)
    for count in range(1, PAGE_TOKENS + 1):
        cleared = whole.clone()
        clear_after(cleared, [0], [count], loaded.kv_spec)
        expected = record_of(loaded, count)
        assert torch.equal(cleared != 0, expected != 0), f"{count} tokens"
        torch.testing.assert_close(cleared, expected)


@every_precision
def test_a_session_that_was_put_away_in_the_middle_of_a_page_goes_on_alike(
    folder: Path, tmp_path: Path, weights: str, kv_dtype: str
) -> None:
    answers = set()
    for place in (SessionState.DEVICE, SessionState.HOST, SessionState.DISK):
        with served(
            folder,
            weights=weights,
            kv_dtype=kv_dtype,
            kernels_folder=KERNELS_FOLDER,
            host_memory_bytes=4 << 20,
            disk_folder=tmp_path / place.value,
        ) as one:
            first = one.ask(QUESTION)
            session = one.engine._memory.sessions.get(SessionKey(ANNA, "chat"))
            assert session is not None
            assert session.num_tokens % PAGE_TOKENS
            one.put_away(SessionKey(ANNA, "chat"), place)
            again = one.ask(QUESTION)
            found = again.usage.cached_from
            assert found.total == again.usage.input_tokens - 1
            assert getattr(found, place.value) + found.prefix == found.total
            assert again.token_ids == first.token_ids
            answers.add(again.token_ids)
    assert len(answers) == 1
