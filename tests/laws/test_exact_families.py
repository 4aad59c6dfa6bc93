"""Law L1 for every family of models: greedy ids and logits are those of `transformers` in float32, from both kinds of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.config import PAGE_TOKENS, EngineConfig
from engine.kv_cache import KVCache
from engine.model.decoder import DecoderLike
from engine.model.loader import load_model
from tests.laws.test_exact import assert_greedy, reference_ids, scattered_pages
from tests.support.decoding import Stream, greedy, step
from tests.support.tiny_families import FAMILIES, tiny_family
from tests.support.tiny_llama import load_decoder, write_gguf, write_tokenizer

PAGES = 256
TEXT = [(7 * place * place + 3 * place) % 211 for place in range(150)]
"""Any ids, longer than every window and every original context here."""


def logits_of_all_places(decoder: DecoderLike, spec: Any, ids: list[int], chunks: list[int]) -> dict[int, torch.Tensor]:
    """The logits after each chunk's last token; the rest of the ids one by one."""
    stream = Stream(list(ids), list(range(-(-len(ids) // PAGE_TOKENS)))[::-1])
    cache = KVCache.for_spec(spec, len(stream.pages))
    found = {}
    for count in chunks + [1] * (len(ids) - sum(chunks)):
        row = step(decoder, cache, [(stream, count)])[0]
        found[stream.done - 1] = row
    return found


def assert_logits_are_those_of(expected: torch.Tensor, found: dict[int, torch.Tensor]) -> None:
    for place, row in found.items():
        torch.testing.assert_close(row, expected[place], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_and_ids_are_those_of_transformers(name: str) -> None:
    model = tiny_family(name)
    decoder, spec = load_decoder(model)
    with torch.inference_mode():
        expected = model(torch.tensor([TEXT])).logits[0]
    assert_logits_are_those_of(expected, logits_of_all_places(decoder, spec, TEXT, [70, 3, 40]))
    generator = torch.Generator().manual_seed(1)
    prompts = [torch.randint(0, 211, (length,), generator=generator).tolist() for length in (1, 17, 33, 90)]
    pages = scattered_pages([len(prompt) + 40 for prompt in prompts], generator)
    for chunk in (None, 16, 7):
        together = greedy(decoder, KVCache.for_spec(spec, PAGES), prompts, pages, max_tokens=40, chunk_tokens=chunk)
        for prompt, ids in zip(prompts, together, strict=True):
            assert_greedy(model, prompt, ids, 40)


@pytest.mark.parametrize("name", [name for name in FAMILIES if "window in" not in name and "windows" not in name])
def test_a_gguf_of_the_same_weights_has_the_same_logits(name: str, tmp_path: Path) -> None:
    """Rows of heads are in another order in Llama's files only (huggingface/transformers#31766)."""
    changes = (
        {"num_hidden_layers": 7, "layer_types": None, "query_pre_attn_scalar": 16} if name.startswith("Gemma") else {}
    )
    model = tiny_family(name, vocab_size=420, **changes)
    extra = {}
    if name == "Llama, stretched":
        # Such files carry a table of divisors in place of the rule.
        plain = 1 / 10000.0 ** (torch.arange(0, 12, 2) / 12)
        extra = {"rope_freqs.weight": plain / model.model.rotary_emb.inv_freq}
    write_gguf(tmp_path / "model.gguf", model, extra=extra)
    write_tokenizer(tmp_path)
    loaded = load_model(EngineConfig(tmp_path, "tiny"))
    with torch.inference_mode():
        expected = model(torch.tensor([TEXT])).logits[0]
    assert_logits_are_those_of(expected, logits_of_all_places(loaded.decoder, loaded.kv_spec, TEXT, [70, 3, 75]))
    assert loaded.info.parameters == sum(parameter.numel() for parameter in model.parameters())


@given(
    name=st.sampled_from([name for name in FAMILIES if FAMILIES[name][0] in ("Mistral", "Qwen3", "Gemma3")]),
    seed=st.integers(0, 10_000),
    lengths=st.lists(st.integers(1, 90), min_size=1, max_size=7),
    chunk=st.sampled_from([1, 2, 15, 16, 17, 64, None]),
    window=st.integers(2, 40),
)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_company_and_any_window_give_the_ids_each_prompt_has_alone(
    name: str, seed: int, lengths: list[int], chunk: int | None, window: int
) -> None:
    # Not 1: there transformers' cache keeps all keys instead of none, and its ids differ from those it has without a cache.
    has_window = FAMILIES[name][1].get("sliding_window") is not None
    model = tiny_family(name, seed, **({"sliding_window": window} if has_window else {}))
    decoder, spec = load_decoder(model)
    generator = torch.Generator().manual_seed(seed)
    prompts = [torch.randint(0, 211, (length,), generator=generator).tolist() for length in lengths]
    pages = scattered_pages([length + 12 for length in lengths], generator)
    together = greedy(decoder, KVCache.for_spec(spec, PAGES), prompts, pages, max_tokens=12, chunk_tokens=chunk)
    for prompt, ids in zip(prompts, together, strict=True):
        assert_greedy(model, prompt, ids, 12)


def dynamic(**changes: Any) -> Any:
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
    return tiny_family("Llama", max_position_embeddings=32, rope_parameters=rope, **changes)


@pytest.mark.parametrize("length", [1, 20, 31, 32])
def test_answers_grow_over_the_original_context_as_in_transformers(length: int) -> None:
    """Dynamic positions: what is beyond the original context has other frequencies, the longer the text the more."""
    decoder, spec = load_decoder(dynamic())
    prompt = TEXT[:length]
    pages = [list(range(9))]
    ids = greedy(decoder, KVCache.for_spec(spec, 9), [prompt], pages, max_tokens=90)
    assert ids[0] == reference_ids(dynamic(), prompt, 90)


def test_dynamic_positions_of_a_long_prompt_are_those_it_would_have_been_generated_with() -> None:
    """transformers gives a long prompt the frequencies of its length, all at once. Then a key would depend on what comes after
    it, and no prompt could be cut into chunks or go on where it stopped; so here each place has those it has as texts grow."""
    decoder, spec = load_decoder(dynamic())
    model, expected, cache = dynamic(), [], None
    with torch.inference_mode():
        for ids in (TEXT[:32], *([token] for token in TEXT[32:120])):
            made = model(torch.tensor([ids]), cache=cache, use_cache=True)
            cache = made.cache
            expected.append(made.logits[0])
    for chunks in ([120], [32], [50, 1, 20]):
        assert_logits_are_those_of(torch.cat(expected), logits_of_all_places(decoder, spec, TEXT[:120], chunks))


def test_capped_scores_of_gemma_are_those_transformers_computes_when_it_is_told_the_cap() -> None:
    """Its Gemma 3 reads the setting and does not pass it on; no published model of the family has it."""
    model = tiny_family("Gemma 3", attn_logit_softcapping=2.0, attn_implementation="eager")
    decoder, spec = load_decoder(model)
    with torch.inference_mode():
        expected = model(torch.tensor([TEXT]), softcap=2.0).logits[0]
        uncapped = model(torch.tensor([TEXT])).logits[0]
    assert_logits_are_those_of(expected, logits_of_all_places(decoder, spec, TEXT, [70, 3, 40]))
    assert not torch.allclose(expected, uncapped, atol=0.1)
