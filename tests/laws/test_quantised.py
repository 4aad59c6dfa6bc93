"""Laws of the bundled model on the CPU kernels: the same to the bit in any company, and near what its weights give in float32."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from app.settings import Settings
from engine.config import EngineConfig
from engine.kv_cache import KVCache
from engine.model.loader import LoadedModel, load_model
from engine.types import Role, Turn
from kernels.cpu.variant import cpu_flags, variant_for
from tests.laws.test_exact import QUESTIONS, scattered_pages
from tests.support.cpu_kernels import KERNELS_FOLDER, kernels_of
from tests.support.decoding import Stream, batch_of, greedy, step
from tests.support.models import bundled_model_folder

PAGES = 256
REPEATS = 200
MOST_DIVERGENCE = 0.02
"""Mean Kullback-Leibler divergence from float32; about 0.004 is measured on long texts (`tests/bench/precision.py`)."""

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(variant_for(cpu_flags()) is None, reason="this CPU runs no compiled kernels"),
]


@pytest.fixture(scope="module", params=["bf16", "int8"])
def quantised(request: pytest.FixtureRequest) -> LoadedModel:
    """With keys and values in either precision."""
    variant = variant_for(cpu_flags())
    assert variant is not None
    kernels_of(variant)
    config = EngineConfig(
        bundled_model_folder(),
        "bundled",
        system_prompt=Settings().system_prompt,
        kv_dtype=request.param,
        kernels_folder=KERNELS_FOLDER,
    )
    return load_model(config)


def text_ids(loaded: LoadedModel) -> list[int]:
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")[:4000]
    return loaded.tokenizer.encode_turns([Turn(Role.USER, text)])[:512]


def test_its_own_bits_are_served(quantised: LoadedModel) -> None:
    assert quantised.info.weights == "int4"
    assert quantised.info.kernels.startswith("cpu-")
    assert quantised.kv_spec.dtype in (torch.bfloat16, torch.int8)


def test_the_first_question_anyone_asks_is_answered(quantised: LoadedModel) -> None:
    """With the template's own opening this model prefers an answer in French by so little that rounding decides."""
    for country, capital in (("France", "Paris"), ("Italy", "Rome"), ("Germany", "Berlin"), ("Japan", "Tokyo")):
        question = f"What is the capital of {country}?"
        ids = quantised.tokenizer.encode_turns([Turn(Role.USER, question)])
        cache = KVCache.for_spec(quantised.kv_spec, 8)
        (made,) = greedy(quantised.decoder, cache, [ids], [range(8)], max_tokens=12)
        answer = quantised.tokenizer.decode(made)
        assert answer.startswith(f"The capital of {country} is {capital}"), answer


def test_answers_in_company_are_to_the_bit_what_they_are_alone(quantised: LoadedModel) -> None:
    """vllm-project/vllm#27034, on a model of real size: some kernels begin to differ only there."""
    prompts = [quantised.tokenizer.encode_turns([Turn(Role.USER, question)]) for question in QUESTIONS[:7]]
    generator = torch.Generator().manual_seed(3)
    alone = []
    for prompt in prompts:
        stream, cache = Stream(list(prompt), range(20)), KVCache.for_spec(quantised.kv_spec, 20)
        rows = [step(quantised.decoder, cache, [(stream, len(prompt))])[0]]
        for _ in range(11):
            stream.ids.append(int(rows[-1].argmax()))
            rows.append(step(quantised.decoder, cache, [(stream, 1)])[0])
        alone.append(rows)
    streams = [
        Stream(list(prompt), pages)
        for prompt, pages in zip(
            prompts, scattered_pages([len(prompt) + 12 for prompt in prompts], generator), strict=True
        )
    ]
    cache = KVCache.for_spec(quantised.kv_spec, PAGES)
    seen = [0] * len(streams)
    while running := [stream for stream in streams if seen[streams.index(stream)] < 12]:
        parts = [(stream, min(17, len(stream.ids) - stream.done)) for stream in running]
        for stream, row in zip(running, step(quantised.decoder, cache, parts), strict=True):
            if stream.done < len(stream.ids):
                continue
            index = streams.index(stream)
            assert torch.equal(row, alone[index][seen[index]])
            stream.ids.append(int(row.argmax()))
            seen[index] += 1


def test_two_hundred_repeats_of_a_question_over_used_pages_are_one_answer(quantised: LoadedModel) -> None:
    """NVIDIA/TensorRT-LLM#2699: narrow keys and values that are used again gave answers that varied."""
    prompt = quantised.tokenizer.encode_turns([Turn(Role.USER, QUESTIONS[0])])
    cache = KVCache.for_spec(quantised.kv_spec, 8)
    pages = [list(range(8))]
    first = greedy(quantised.decoder, cache, [prompt], pages, max_tokens=8)
    kept = len(prompt) - 1
    for _ in range(REPEATS):
        stream = Stream(list(prompt), pages[0], kept)
        for _ in range(8):
            stream.ids.append(int(step(quantised.decoder, cache, [(stream, 1)])[0].argmax()))
        assert stream.ids[len(prompt) :] == first[0]


@pytest.mark.slow
def test_predictions_are_near_those_of_the_same_weights_in_float32(
    quantised: LoadedModel, bundled_model: LoadedModel
) -> None:
    """openvinotoolkit/openvino.genai#4367: answers that grow worse after a few hundred tokens."""
    ids = text_ids(bundled_model)
    predictions = []
    for loaded in (bundled_model, quantised):
        batch = batch_of([(Stream(list(ids), range(32)), len(ids))])
        object.__setattr__(batch, "logit_rows", torch.arange(len(ids) - 128, len(ids)))
        cache = KVCache.for_spec(loaded.kv_spec, 32)
        predictions.append(loaded.decoder.forward(batch, cache).log_softmax(-1))
    wanted, found = predictions
    assert float((wanted.exp() * (wanted - found)).sum(-1).mean()) < MOST_DIVERGENCE
    assert float((wanted.argmax(-1) == found.argmax(-1)).float().mean()) > 0.85
