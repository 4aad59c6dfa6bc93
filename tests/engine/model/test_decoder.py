"""What a step writes and computes does not depend on what else is in the step."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.config import PAGE_TOKENS, EngineConfig
from engine.kv_cache import KVCache
from engine.model.decoder import Decoder
from engine.model.loader import load_model
from tests.support.decoding import Stream, batch_of, greedy, step
from tests.support.tiny_families import tiny_family
from tests.support.tiny_llama import load_decoder, tiny_llama, write_folder, write_tokenizer

PAGES = 64


@pytest.fixture(scope="module")
def tiny() -> tuple[Decoder, Any]:
    return load_decoder(tiny_llama())


def streams_of(lengths: list[int], chooser: random.Random) -> list[Stream]:
    pages = chooser.sample(range(PAGES), PAGES)
    return [
        Stream([chooser.randrange(211) for _ in range(length)], [pages.pop() for _ in range(-(-length // PAGE_TOKENS))])
        for length in lengths
    ]


@pytest.mark.parametrize("seed", range(6))
def test_after_every_step_each_slot_holds_what_its_token_has_alone(tiny: tuple[Decoder, Any], seed: int) -> None:
    # vllm-project/vllm#36580: later chunks were written to the wrong slots, which showed only as slightly odd text.
    decoder, spec = tiny
    chooser = random.Random(seed)
    streams = streams_of([chooser.randint(1, 70) for _ in range(5)], chooser)
    alone = {}
    for index, stream in enumerate(streams):
        own = KVCache.for_spec(spec, len(stream.pages))
        copy = Stream(list(stream.ids), range(len(stream.pages)))
        step(decoder, own, [(copy, len(copy.ids))])
        alone[index] = own
    cache = KVCache.for_spec(spec, PAGES)
    while unfinished := [stream for stream in streams if stream.done < len(stream.ids)]:
        chosen = chooser.sample(unfinished, chooser.randint(1, len(unfinished)))
        step(
            decoder, cache, [(stream, chooser.randint(1, min(20, len(stream.ids) - stream.done))) for stream in chosen]
        )
        for index, stream in enumerate(streams):
            slots = [
                stream.pages[place // PAGE_TOKENS] * PAGE_TOKENS + place % PAGE_TOKENS for place in range(stream.done)
            ]
            for pools, own in ((cache.keys, alone[index].keys), (cache.values, alone[index].values)):
                for pool, expected in zip(pools, own, strict=True):
                    rows, expected_rows = pool.flatten(0, 1), expected.flatten(0, 1)
                    torch.testing.assert_close(rows[slots], expected_rows[: stream.done], atol=1e-4, rtol=1e-4)
    unused = set(range(PAGES)) - {page for stream in streams for page in stream.pages}
    assert all(bool((pool[sorted(unused)] == 0).all()) for pool in (*cache.keys, *cache.values))


@pytest.mark.parametrize("company", [1, 2, 3, 7, 16])
def test_logits_in_company_are_those_alone(tiny: tuple[Decoder, Any], company: int) -> None:
    # vllm-project/vllm#27034
    decoder, spec = tiny
    chooser = random.Random(company)
    lengths = [chooser.randint(2, 60) for _ in range(company)]
    streams = streams_of(lengths, chooser)
    together = KVCache.for_spec(spec, PAGES)
    for stream in streams:
        step(decoder, together, [(stream, len(stream.ids) - 1)])
    decoded = step(decoder, together, [(stream, 1) for stream in streams])
    for stream, row in zip(streams, decoded, strict=True):
        own = KVCache.for_spec(spec, len(stream.pages))
        alone = step(decoder, own, [(Stream(list(stream.ids), range(len(stream.pages))), len(stream.ids))])
        torch.testing.assert_close(row, alone[0], atol=1e-3, rtol=1e-3)


def test_only_wanted_rows_have_logits_and_they_are_float32(tiny: tuple[Decoder, Any]) -> None:
    decoder, spec = tiny
    stream = streams_of([20], random.Random(0))[0]
    batch = batch_of([(stream, 20)])
    cache = KVCache.for_spec(spec, PAGES)
    last = decoder.forward(batch, cache)
    assert last.shape == (1, 211)
    assert last.dtype == torch.float32
    nothing = dataclasses.replace(batch, logit_rows=torch.tensor([], dtype=torch.int64))
    assert decoder.forward(nothing, cache).shape == (0, 211)


def test_logits_stay_close_over_a_long_text(tiny: tuple[Decoder, Any]) -> None:
    # openvinotoolkit/openvino.genai#4367: the paged path drifted from the plain path after a few hundred tokens.
    decoder, spec = tiny
    model = tiny_llama()
    stream = streams_of([500], random.Random(3))[0]
    with torch.inference_mode():
        expected = model(torch.tensor([stream.ids])).logits[0]
    cache = KVCache.for_spec(spec, PAGES)
    while stream.done < 500:
        row = step(decoder, cache, [(stream, min(7, 500 - stream.done))])[0]
        torch.testing.assert_close(row, expected[stream.done - 1], atol=1e-3, rtol=1e-3)


def test_bfloat16_weights_run_and_stay_near_float32(tmp_path: Path) -> None:
    write_folder(tmp_path, initializer_range=0.02)
    wide, narrow = (load_model(EngineConfig(tmp_path, "tiny", weights=weights)) for weights in ("fp32", "bf16"))
    assert narrow.kv_spec.dtype == torch.bfloat16
    stream = streams_of([40], random.Random(1))[0]
    logits = []
    for loaded in (wide, narrow):
        stream.done = 0
        logits.append(step(loaded.decoder, KVCache.for_spec(loaded.kv_spec, PAGES), [(stream, 40)])[0])
    # Bound for bfloat16: eight bits of mantissa through two layers, against logits of the size of one.
    torch.testing.assert_close(logits[1], logits[0], atol=0.05, rtol=0.05)


def test_stale_pages_do_not_show(tiny: tuple[Decoder, Any]) -> None:
    # ggml-org/llama.cpp#23565: a new sequence went on with what an earlier one had left in memory.
    decoder, spec = tiny
    cache = KVCache.for_spec(spec, PAGES)
    pages = list(range(10))
    greedy(decoder, cache, [[7] * 100], [pages], max_tokens=20)
    fresh = KVCache.for_spec(spec, PAGES)
    prompt = [3, 1, 4, 1, 5]
    assert greedy(decoder, cache, [prompt], [pages], max_tokens=30) == greedy(
        decoder, fresh, [prompt], [pages], max_tokens=30
    )


def test_gemma_in_bfloat16_keeps_its_norms_wide_and_stays_near_float32(tmp_path: Path) -> None:
    """One plus a small weight would lose most of the weight in bfloat16."""
    tiny_family("Gemma 3", vocab_size=420, initializer_range=0.1).save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    wide, narrow = (load_model(EngineConfig(tmp_path, "tiny", weights=weights)) for weights in ("fp32", "bf16"))
    weights = narrow.decoder.weights  # type: ignore[attr-defined]
    assert (weights.final_norm.dtype, weights.layers[0].head_norm.dtype) == (torch.float32, torch.float32)
    assert weights.layers[0].qkv.dtype == torch.bfloat16
    stream = streams_of([40], random.Random(1))[0]
    logits = []
    for loaded in (wide, narrow):
        stream.done = 0
        logits.append(step(loaded.decoder, KVCache.for_spec(loaded.kv_spec, PAGES), [(stream, 40)])[0])
    torch.testing.assert_close(logits[1], logits[0], atol=0.1, rtol=0.05)
