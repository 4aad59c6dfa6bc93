"""Whatever the schedule, the ids are those of a run alone, with all the memory and the whole prompt in one step."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch

from engine.config import PAGE_TOKENS
from engine.core import Engine
from engine.kv_cache import KVSpec
from engine.model.decoder import DecoderLike
from engine.types import EngineState, Finished, GenerationRequest
from tests.support.random_decoder import LLAMA_SPEC, random_llama
from tests.support.tiny_model import SPEC, TinyDecoder, TinyTokenizer, request, tiny_engine

TOKENIZER = TinyTokenizer()
TEMPLATE_TOKENS = len(TOKENIZER.encode_turns(request("", "").turns))


@dataclass(frozen=True)
class Model:
    make: Callable[[], DecoderLike]
    spec: KVSpec

    def engine(self, **changes: int) -> Engine:
        return tiny_engine(decoder=self.make(), spec=self.spec, **changes)

    def reference(self, one: GenerationRequest) -> tuple[int, ...] | None:
        engine = self.engine(num_pages=64, max_step_tokens=512, max_running=1)
        return run(engine, [one])[one.request_id]


TINY = Model(TinyDecoder, SPEC)
LLAMA = Model(random_llama, LLAMA_SPEC)
both_models = pytest.mark.parametrize("model", [TINY, LLAMA], ids=["definition", "llama"])


def submit(engine: Engine, one: GenerationRequest) -> None:
    engine.submit(one, TOKENIZER.encode_turns(one.turns), 0.0)


def run(
    engine: Engine, requests: list[GenerationRequest], arrivals: list[int] | None = None
) -> dict[str, tuple[int, ...] | None]:
    """The ids of each request; `arrivals` says in which step each comes."""
    coming = sorted(zip(arrivals or [0] * len(requests), range(len(requests)), strict=True))
    ids: dict[str, tuple[int, ...] | None] = {}
    step = 0
    while engine.has_work or coming:
        while coming and coming[0][0] <= step:
            submit(engine, requests[coming.pop(0)[1]])
        for event in engine.step():
            if isinstance(event, Finished):
                assert event.failure is None
                ids[event.request_id] = event.token_ids
        engine._scheduler.check_integrity()
        step += 1
    return ids


def shuffle_free_pages(engine: Engine, seed: int) -> None:
    random.Random(seed).shuffle(engine._scheduler.pool._free)


def mixed_requests(count: int, salt: int, /, **sampling: object) -> list[GenerationRequest]:
    rng = random.Random(salt)
    return [
        request(
            f"r{number}",
            "".join(rng.choices("abcdefgh ", k=rng.choice([0, 1, 13, 14, 30, 70]))),
            max_tokens=rng.choice([1, 2, 15, 17, 33]),
            ignore_eos=True,
            **sampling,
        )
        for number in range(count)
    ]


@both_models
@pytest.mark.parametrize("chunk", [1, 2, 15, 16, 17, 64, 512])
def test_the_answer_does_not_depend_on_the_size_of_the_chunks(model: Model, chunk: int) -> None:
    """vllm-project/vllm#4697: splitting a prompt gave gibberish; a last chunk of one token was taken for decoding."""
    base = chunk * max(1, 40 // chunk) if chunk < 512 else 100
    for prompt_tokens in (base - 1, base, base + 1):
        one = request("a", "x" * max(0, prompt_tokens - TEMPLATE_TOKENS), max_tokens=20, ignore_eos=True)
        engine = model.engine(max_step_tokens=chunk)
        assert run(engine, [one])["a"] == model.reference(one)


@both_models
@pytest.mark.parametrize("batch", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_answer_does_not_depend_on_the_company(model: Model, batch: int, seed: int) -> None:
    """vllm-project/vllm#27034: a batch of several gave wrong answers on the CPU."""
    requests = mixed_requests(batch + 4, seed)
    rng = random.Random(seed)
    engine = model.engine(num_pages=200, max_running=batch, max_step_tokens=40)
    shuffle_free_pages(engine, seed)
    ids = run(engine, requests, [rng.randint(0, 30) for _ in requests])
    assert ids == {one.request_id: model.reference(one) for one in requests}


@both_models
def test_memory_for_one_request_of_full_length_serves_eight_with_the_right_answers(model: Model) -> None:
    """huggingface/transformers#43150: generation failed when no block was free."""
    requests = [request(f"r{number}", "x" * 10 * number, max_tokens=None, ignore_eos=True) for number in range(8)]
    engine = model.engine(num_pages=8, context_tokens=8 * PAGE_TOKENS, max_running=8)
    reference = model.engine(num_pages=8, context_tokens=8 * PAGE_TOKENS, max_running=1, max_step_tokens=512)
    assert run(engine, requests) == run(reference, requests)
    assert engine.stats(EngineState.READY, 1).preemptions_total > 0


@both_models
@pytest.mark.parametrize("seed", range(4))
def test_a_preempted_answer_is_the_same_also_where_it_is_sampled(model: Model, seed: int) -> None:
    requests = mixed_requests(8, seed, temperature=1.2, seed=99, repetition_penalty=1.1, presence_penalty=0.3)
    long = [
        request(f"l{number}", "y" * 20, max_tokens=70, temperature=0.9, seed=number, ignore_eos=True)
        for number in range(4)
    ]
    engine = model.engine(num_pages=9, max_running=8, max_step_tokens=24)
    shuffle_free_pages(engine, seed)
    assert run(engine, [*long, *requests]) == {one.request_id: model.reference(one) for one in [*long, *requests]}
    assert engine.stats(EngineState.READY, 1).preemptions_total > 0


@both_models
def test_a_seed_gives_the_same_ids_alone_among_unseeded_neighbours_and_in_any_order(model: Model) -> None:
    """vllm-project/vllm#51226, vllm-project/vllm#17524."""
    seeded = request("seeded", "tell me", max_tokens=40, temperature=1.0, seed=7, ignore_eos=True)
    expected = model.reference(seeded)
    for place in range(4):
        company = mixed_requests(3, place, temperature=1.0)
        company.insert(place, seeded)
        assert run(model.engine(), company)["seeded"] == expected
    other_seed = request("other", "tell me", max_tokens=40, temperature=1.0, seed=8, ignore_eos=True)
    unseeded = [
        request(f"u{number}", "tell me", max_tokens=40, temperature=1.0, ignore_eos=True) for number in range(2)
    ]
    ids = run(model.engine(), [other_seed, *unseeded])
    assert len({expected, *ids.values()}) == 4


@pytest.mark.parametrize("seed", range(5))
def test_every_slot_holds_its_own_token_after_every_step(seed: int) -> None:
    """vllm-project/vllm#36580: the map from token to slot was wrong for later chunks."""
    engine = TINY.engine(num_pages=10, max_running=5, max_step_tokens=20)
    shuffle_free_pages(engine, seed)
    rng = random.Random(seed)
    waiting = mixed_requests(12, seed)
    while waiting or engine.has_work:
        if waiting and rng.random() < 0.3:
            submit(engine, waiting.pop())
        engine.step()
        keys = engine._runner._cache.keys[0].view(-1, 2)
        for sequence in engine._scheduler.running:
            places = torch.arange(sequence.num_computed)
            slots = (
                torch.tensor(sequence.pages, dtype=torch.int64)[places // PAGE_TOKENS] * PAGE_TOKENS
                + places % PAGE_TOKENS
            )
            assert keys[slots, 0].tolist() == sequence.tokens[: sequence.num_computed]
            assert keys[slots, 1].tolist() == places.tolist()
