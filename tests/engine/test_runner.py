from __future__ import annotations

import random
from dataclasses import fields

import pytest
import torch

from engine.config import PAGE_TOKENS
from engine.decode_layout import DecodeLayout
from engine.kv_cache import KVCache
from engine.model.batch import ForwardBatch
from engine.pages import PageId, pages_for
from engine.runner import Runner, forward_batch
from engine.sampler import Sampler
from engine.sequence import Sequence
from engine.step_plan import Scheduled
from engine.types import RequestId
from tests.support.tiny_model import SPEC, VOCABULARY, TinyDecoder


def sequence(tokens: list[int], pages: list[int], computed: int = 0) -> Sequence:
    return Sequence(
        RequestId("x"), 0, tokens, len(tokens), 100, num_computed=computed, pages=[PageId(page) for page in pages]
    )


def test_the_batch_is_laid_out_as_the_picture_shows() -> None:
    a = sequence(list(range(100, 108)), [4], computed=5)
    b = sequence(list(range(200, 241)), [9, 2, 7], computed=40)
    c = sequence([50, 51, 52, 53], [1])
    batch = forward_batch([Scheduled(a, 5, 8), Scheduled(b, 40, 41), Scheduled(c, 0, 2)])
    assert batch.token_ids.tolist() == [105, 106, 107, 240, 50, 51]
    assert batch.positions.tolist() == [5, 6, 7, 40, 0, 1]
    assert batch.slots.tolist() == [
        4 * PAGE_TOKENS + 5,
        4 * PAGE_TOKENS + 6,
        4 * PAGE_TOKENS + 7,
        7 * PAGE_TOKENS + 8,
        1 * PAGE_TOKENS,
        1 * PAGE_TOKENS + 1,
    ]
    assert batch.query_starts.tolist() == [0, 3, 4, 6]
    assert batch.context_lens.tolist() == [8, 41, 2]
    assert batch.block_tables.tolist() == [[4, 0, 0], [9, 2, 7], [1, 0, 0]]
    assert batch.logit_rows.tolist() == [2, 3]  # c has more to come
    assert batch.max_context_tokens == 41
    assert not batch.is_decode
    assert {tensor.dtype for tensor in (batch.token_ids, batch.positions, batch.slots, batch.logit_rows)} == {
        torch.int64
    }


def test_a_step_of_single_tokens_says_so() -> None:
    answers = [
        sequence(list(range(length)), [index, index + 1], length - 1) for index, length in enumerate((17, 18, 3))
    ]
    batch = forward_batch([Scheduled(answer, len(answer.tokens) - 1, len(answer.tokens)) for answer in answers])
    assert batch.is_decode
    assert batch.query_starts.tolist() == [0, 1, 2, 3]
    assert batch.logit_rows.tolist() == [0, 1, 2]


def test_warming_up_runs_a_prompt_and_batches_within_the_memory_there_is() -> None:
    decoder = TinyDecoder()
    runner = Runner(decoder, KVCache.for_spec(SPEC, 2), Sampler(VOCABULARY, frozenset()))
    runner.warm_up(max_step_tokens=256, max_running=5)
    assert [len(batch.token_ids) for batch in decoder.batches] == [2 * PAGE_TOKENS, 1, 4]


@pytest.mark.parametrize("seed", range(5))
def test_a_step_that_goes_on_has_the_layout_that_it_would_have_anew(seed: int) -> None:
    """Answers grow over their pages, come, leave, and are preempted to come back with other pages."""
    chance, layout, went_on = random.Random(seed), DecodeLayout(), 0
    fresh = iter(range(1, 100_000))
    running: list[Sequence] = []
    for _ in range(300):
        match chance.randrange(30):
            case 0 if running:
                running.remove(chance.choice(running))
            case 1:
                running.insert(chance.randrange(len(running) + 1), sequence(chance.choices(range(99), k=40), []))
            case 2 if running:
                chance.choice(running).pages = []
        for one in running:
            one.tokens.append(next(fresh))
            one.pages += [PageId(next(fresh)) for _ in range(pages_for(len(one.tokens)) - len(one.pages))]
        scheduled = [Scheduled(one, len(one.tokens) - 1, len(one.tokens)) for one in running]
        if not scheduled:
            continue
        expected = forward_batch(scheduled)
        batch = layout.following(scheduled)
        went_on += batch is not None
        batch = batch or layout.keep(scheduled, forward_batch(scheduled))
        for field in fields(ForwardBatch):
            one, other = getattr(batch, field.name), getattr(expected, field.name)
            assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other, field.name
    assert went_on > 100


def test_a_prompt_or_a_step_that_was_left_out_is_laid_out_anew() -> None:
    layout = DecodeLayout()
    answer = sequence(list(range(20)), [3, 4])
    for step in ([Scheduled(answer, 0, 16)], [Scheduled(answer, 16, 20)], [Scheduled(answer, 19, 20)]):
        assert layout.following(step) is None
        layout.keep(step, forward_batch(step))
    answer.tokens += [7, 8]
    assert layout.following([Scheduled(answer, 21, 22)]) is None
    assert layout.following([Scheduled(answer, 20, 22)]) is None
