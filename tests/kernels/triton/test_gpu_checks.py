"""The checks of the GPU's benchmark work, and pass, where there is only the interpreter."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from kernels import triton as kernels
from tests.bench import gpu_checks
from tests.bench.graphed_step import GraphedStep

CPU = torch.device("cpu")


@pytest.mark.slow
def test_every_check_passes_in_the_interpreter() -> None:
    # A float8 is rounded wrongly by the interpreter, see test_rows.
    checks = list(gpu_checks.check_all(CPU, (64,), ((1, 150), (5, 30)), vocabulary=500))
    failed = [check for check in checks if not check.passed and check.name != "rotate_and_store torch.float8_e4m3fn"]
    assert failed == []
    assert len(checks) > 30


def test_a_check_notices_a_wrong_number_and_one_that_is_none() -> None:
    right = torch.ones(3)
    assert gpu_checks.compared("", right + 1e-7, right, 1e-5).passed
    assert not gpu_checks.compared("", right + 1e-3, right, 1e-5).passed
    assert not gpu_checks.compared("", torch.tensor([1.0, float("nan"), 1.0]), right, 1e-5).passed


def test_a_batch_that_does_not_fit_its_bucket_is_refused() -> None:
    from engine.kv_cache import KVCache
    from tests.support.decoding import Stream, batch_of
    from tests.support.random_decoder import LLAMA_SPEC, random_llama

    bucket = GraphedStep(random_llama(), KVCache.for_spec(LLAMA_SPEC, 4), 1, 2, CPU)
    batch = batch_of([(Stream([1, 2], [0]), 1), (Stream([1, 2], [1]), 1)])
    with pytest.raises(ValueError, match="2 rows of 1 pages do not fit a bucket of 1"):
        bucket(batch)


def test_what_is_padded_in_a_bucket_writes_nothing() -> None:
    from engine.kv_cache import KVCache
    from engine.model.decoder import Decoder
    from kernels.dispatch import KernelChoice
    from tests.support.decoding import Stream, batch_of
    from tests.support.random_decoder import LLAMA_SPEC, SHAPE, random_llama

    decoder = Decoder(SHAPE, random_llama().weights, KernelChoice("triton", "asked for by the test", kernels))
    cache = KVCache.for_spec(LLAMA_SPEC, 4)
    bucket = GraphedStep(decoder, cache, 2, 2, CPU)
    batch = batch_of([(Stream([1, 2], [3]), 1)])
    bucket(dataclasses.replace(batch))
    written = cache.storage.abs().sum(dim=(0, 3, 4)).nonzero().tolist()
    assert written == [[3, 0]]
