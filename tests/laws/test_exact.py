"""Law L1: greedy ids equal those of `transformers` in float32, however the work is cut and wherever the pages lie."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.config import PAGE_TOKENS
from engine.kv_cache import KVCache
from engine.model.loader import LoadedModel
from engine.types import Role, Turn
from tests.support.decoding import greedy
from tests.support.tiny_llama import load_decoder, tiny_llama

SHAPES: dict[str, dict[str, Any]] = {
    "ungrouped heads": {"num_attention_heads": 4, "num_key_value_heads": 4},
    "grouped heads": {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8},
    "one key head": {"num_attention_heads": 4, "num_key_value_heads": 1},
    "tied embeddings": {"tie_word_embeddings": True},
    "heads wider than the model": {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32},
    "stretched positions": {
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
    },
}
CHUNKS = (1, 2, 15, 16, 17, 64, None)
MAX_TOKENS = 24
PAGES = 256
ROUNDING = 1e-4


def reference_ids(model: Any, prompt: list[int], max_tokens: int, end_ids: frozenset[int] = frozenset()) -> list[int]:
    """The whole prompt in one pass, batch of one."""
    made = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
        do_sample=False,
        max_new_tokens=max_tokens,
        eos_token_id=sorted(end_ids) or None,
        pad_token_id=0,
    )
    return [int(token) for token in made[0, len(prompt) :]]


def assert_greedy(model: Any, prompt: list[int], found: list[int], max_tokens: int) -> None:
    """Each id has the largest logit that transformers finds at its place, or one that rounding alone may have made smaller.

    Random weights come near to ties, and then two right ways to add up the same numbers may choose differently.
    """
    assert len(found) == max_tokens
    with torch.inference_mode():
        logits = model(torch.tensor([prompt + found[:-1]])).logits[0, len(prompt) - 1 :]
    short = logits.amax(dim=-1) - logits[torch.arange(max_tokens), torch.tensor(found)]
    assert short.max() < ROUNDING, (short.argmax(), found)


def scattered_pages(lengths: list[int], generator: torch.Generator) -> list[list[int]]:
    """Pages for sequences of these lengths, drawn from all over the pool, none of them twice."""
    free = torch.randperm(PAGES, generator=generator).tolist()
    return [[free.pop() for _ in range(-(-length // PAGE_TOKENS))] for length in lengths]


@pytest.mark.parametrize("shape", SHAPES)
def test_any_chunking_of_any_prompt_length_gives_the_ids_of_transformers(shape: str) -> None:
    # vllm-project/vllm#4697: a last chunk of one token was taken for decoding.
    model = tiny_llama(**SHAPES[shape])
    decoder, spec = load_decoder(model)
    generator = torch.Generator().manual_seed(1)
    for chunk in CHUNKS:
        unit = chunk or 32
        for length in sorted({max(unit - 1, 1), unit, unit + 1, 2 * unit + 1}):
            prompt = torch.randint(0, 211, (length,), generator=generator).tolist()
            pages = scattered_pages([length + MAX_TOKENS], generator)
            ids = greedy(
                decoder, KVCache.for_spec(spec, PAGES), [prompt], pages, max_tokens=MAX_TOKENS, chunk_tokens=chunk
            )
            assert_greedy(model, prompt, ids[0], MAX_TOKENS)


@given(
    seed=st.integers(0, 10_000),
    heads=st.sampled_from([(4, 4), (4, 2), (6, 3), (3, 1)]),
    tied=st.booleans(),
    layers=st.integers(1, 3),
    lengths=st.lists(st.integers(1, 90), min_size=1, max_size=7),
    chunk=st.sampled_from(CHUNKS),
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_company_gives_the_ids_each_prompt_has_alone(
    seed: int, heads: tuple[int, int], tied: bool, layers: int, lengths: list[int], chunk: int | None
) -> None:
    # vllm-project/vllm#27034: on a CPU a batch of several gave wrong answers while a batch of one was right.
    model = tiny_llama(
        seed,
        num_attention_heads=heads[0],
        num_key_value_heads=heads[1],
        head_dim=8,
        tie_word_embeddings=tied,
        num_hidden_layers=layers,
    )
    decoder, spec = load_decoder(model)
    generator = torch.Generator().manual_seed(seed)
    prompts = [torch.randint(0, 211, (length,), generator=generator).tolist() for length in lengths]
    pages = scattered_pages([length + 12 for length in lengths], generator)
    together = greedy(decoder, KVCache.for_spec(spec, PAGES), prompts, pages, max_tokens=12, chunk_tokens=chunk)
    for prompt, ids in zip(prompts, together, strict=True):
        assert_greedy(model, prompt, ids, 12)


QUESTIONS = (
    "What is the capital of France?",
    "Write a haiku about the sea.",
    "Explain photosynthesis to a child of six.",
    "List three uses for a paperclip.",
    "Translate 'good morning' into Spanish.",
    "Why is the sky blue?",
    "What is 17 plus 25?",
    "Give me a recipe for pancakes.",
    "Who wrote Hamlet?",
    "Write a Python function that reverses a string.",
    "Summarise the story of Cinderella in two sentences.",
    "What should I pack for a week in the mountains?",
    "How do I boil an egg?",
    "Name five mammals.",
    "日本の首都はどこですか。",
    "Schreibe einen Satz über den Winter. 😀",
    "What is the difference between a list and a tuple in Python?",
    "\n\n  leading space and newlines, then   a question: why?",
    "Complete: once upon a time, there was",
    "Tell me a joke about computers. " * 12,
)


@pytest.mark.model
@pytest.mark.slow
def test_the_bundled_model_answers_twenty_questions_with_the_ids_of_transformers(
    bundled_model: LoadedModel, bundled_model_in_transformers: Any
) -> None:
    tokenizer = bundled_model.tokenizer
    assert len(QUESTIONS) == 20
    prompts = [tokenizer.encode_turns([Turn(Role.USER, question)]) for question in QUESTIONS]
    generator = torch.Generator().manual_seed(2)
    pages = scattered_pages([len(prompt) + 40 for prompt in prompts], generator)
    cache = KVCache.for_spec(bundled_model.kv_spec, PAGES)
    ends = tokenizer.end_token_ids
    ours = greedy(bundled_model.decoder, cache, prompts, pages, max_tokens=32, chunk_tokens=64, end_ids=ends)
    theirs = [reference_ids(bundled_model_in_transformers, prompt, 32, ends) for prompt in prompts]
    assert ours == theirs
    assert sum(len(ids) == 32 for ids in ours) >= 10
    assert "Paris" in tokenizer.decode(ours[0])
