"""Law 2, with a decoder of the real kind: whatever of a prompt is found, in whichever tier, the ids are those of a cold run.

"Cold" is a run alone, with the whole prompt in one step, and nothing kept. The weights are random and in float32.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
import torch

from engine.config import PAGE_TOKENS
from engine.core import Engine
from engine.kv_cache import KVCache
from engine.session import Session
from engine.snapshot import SessionState
from engine.types import (
    CachedFrom,
    EngineFailure,
    EngineState,
    Finished,
    GenerationRequest,
    Namespace,
    RequestId,
    SessionKey,
)
from tests.support.random_decoder import LLAMA_SPEC, random_llama
from tests.support.tiny_model import END, TinyDecoder, request, tiny_engine

ANNA = Namespace.user("anna")
CHAT = SessionKey(ANNA, "chat")
LLAMA = random_llama()
PAGE_BYTES = KVCache.bytes_per_page(LLAMA_SPEC)
ENDED = EngineFailure("engine_stopped", "It ends.")


class Run:
    """An engine around the random Llama that is given ids and stepped to the end."""

    def __init__(self, **changes: object) -> None:
        self.woken = threading.Event()
        settings = {"num_pages": 128, "context_tokens": 2000, "max_step_tokens": 64, **changes}
        self.engine: Engine = tiny_engine(decoder=LLAMA, spec=LLAMA_SPEC, wake=self.woken.set, **settings)  # type: ignore[arg-type]
        # So small a model computes a page sooner than a disk brings it.
        self.engine._scheduler.worth_fetching = lambda pages: True
        self._num_requests = 0

    def submit(
        self,
        ids: Sequence[int],
        max_tokens: int,
        namespace: Namespace | None = ANNA,
        session: str | None = None,
        **sampling: object,
    ) -> RequestId:
        self._num_requests += 1
        asked = request(f"{self._num_requests}", max_tokens=max_tokens, ignore_eos=True, **sampling)
        self.engine.submit(replace(asked, namespace=namespace, session=session), list(ids), 0.0)
        return asked.request_id

    def ask(self, ids: Sequence[int], max_tokens: int, *whose: object, **more: object) -> Finished:
        name = self.submit(ids, max_tokens, *whose, **more)  # type: ignore[arg-type]
        return self.drain()[name]

    def drain(self) -> dict[str, Finished]:
        ends: dict[str, Finished] = {}
        while self.engine.has_work:
            self._wait()
            for event in self.engine.step():
                if isinstance(event, Finished):
                    assert event.failure is None
                    ends[event.request_id] = event
        return ends

    def put_away(self, to: SessionState, key: SessionKey = CHAT) -> None:
        session = self.engine._memory.sessions.get(key)
        assert session is not None
        while session.state is not to:
            told: list[bool] = []
            self.engine.evict_session(key, told.append)
            while not told:
                self._wait()
                self.engine.step()
            assert told == [True]

    def hits(self) -> CachedFrom:
        return self.engine.stats(EngineState.READY, 1).prefix_tokens_hit

    def _wait(self) -> None:
        if self.engine.wait_s() != 0.0 and self.engine.has_transfers:
            assert self.woken.wait(10), "the disk never answered"
            self.woken.clear()


@contextmanager
def running(**changes: object) -> Iterator[Run]:
    run = Run(**changes)
    yield run
    run.engine.stop(ENDED)


def numbers(count: int, seed: int = 0) -> list[int]:
    return random.Random(seed).choices(range(END), k=count)


def cold(ids: Sequence[int], max_tokens: int, **sampling: object) -> tuple[int, ...] | None:
    return Run(max_step_tokens=2048, max_running=1).ask(ids, max_tokens, None, **sampling).token_ids


def test_every_number_of_reused_tokens_gives_the_ids_of_a_cold_run() -> None:
    """vllm-project/vllm#7845, vllm-project/vllm#54490: hit and miss gave different answers, mostly where a hit ended inside a
    block or left few tokens to compute."""
    prompt = numbers(3 * PAGE_TOKENS + 2)
    expected = cold(prompt, 64)
    run = Run()
    for reused in range(len(prompt)):
        namespace = Namespace.user(f"user {reused}")
        run.ask([*prompt[:reused], (prompt[reused] + 1) % END, 7], 1, namespace)
        end = run.ask(prompt, 64, namespace)
        assert end.usage.cached_tokens == reused
        assert end.token_ids == expected, f"{reused} tokens were reused"


def test_the_same_prompt_four_times_is_the_same_answer_and_its_last_token_is_always_computed() -> None:
    """tenstorrent/vllm#415, ovg-project/kvcached#446"""
    for length in (1, PAGE_TOKENS, PAGE_TOKENS + 1, 3 * PAGE_TOKENS):
        prompt = numbers(length, seed=length)
        run = Run()
        ends = [run.ask(prompt, 64) for _ in range(4)]
        assert {end.token_ids for end in ends} == {cold(prompt, 64)}
        assert [end.usage.cached_tokens for end in ends] == [0, *[length - 1] * 3]


def test_without_a_match_nothing_of_a_longer_chat_before_is_left() -> None:
    """ggml-org/llama.cpp#23565: a look-up that found nothing went on with the state that was there."""
    run = Run(num_pages=20)
    prompt = numbers(50, seed=2)
    expected = cold(prompt, 32)
    run.ask(numbers(300, seed=1), 16)
    before = run.engine.stats(EngineState.READY, 1).prefilled_tokens_total
    end = run.ask(prompt, 32, Namespace.user("bert"))
    assert end.usage.cached_tokens == 0
    assert run.engine.stats(EngineState.READY, 1).prefilled_tokens_total - before == len(prompt)
    assert end.token_ids == expected


@pytest.mark.parametrize("order", list(permutations(["device", "host", "disk"])), ids="-".join)
def test_the_longest_copy_counts_in_whatever_order_the_tiers_came_to_theirs(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    """ggml-org/llama.cpp#28276: a short copy from the disk hid a longer one in memory."""
    prompt = numbers(400)
    expected = cold([*prompt, 7], 16)
    with running(host_memory_bytes=64 * PAGE_BYTES, disk_folder=tmp_path / "kv") as run:
        run.ask(prompt, 1, ANNA, "chat")
        memory, cache = run.engine._memory, run.engine._scheduler.cache
        session = memory.sessions.get(CHAT)
        assert session is not None
        pages = sorted(session.pages, key=lambda page: page.index)
        fill(run, session, [tier for tier in order if tier != "device"])
        for tier in order:
            if tier == "device":
                for page in pages[96 // PAGE_TOKENS :]:
                    cache._unplace(page)
            elif tier == "host":
                memory.tiers.leave_host(pages[288 // PAGE_TOKENS :])
            else:
                for page in pages[192 // PAGE_TOKENS :]:
                    memory.tiers._stored.discard(page)
        cache.prune(pages)
        end = run.ask([*prompt, 7], 16, ANNA, "chat")
        assert end.usage.cached_from == CachedFrom(device=96, host=192)
        assert end.token_ids == expected


def fill(run: Run, session: Session, tiers: Sequence[str]) -> None:
    """Have all pages of a session in these tiers too, one after the other."""
    for tier in tiers:
        if tier == "host":
            run.engine._memory.tiers.park(list(session.pages))
        else:
            run.engine._memory.store(session)
            while any(page.disk is None for page in session.pages):
                run._wait()
                run.engine.step()


def test_what_comes_back_from_a_tier_is_counted_there_and_gives_the_same_ids(tmp_path: Path) -> None:
    """ggml-org/llama.cpp#26676, sgl-project/sglang#33713: it was said to be there, and everything was computed again."""
    history = numbers(1000)
    settings = {"host_memory_bytes": 80 * PAGE_BYTES, "disk_folder": tmp_path / "kv", "max_step_tokens": 256}
    run = Run(**settings)
    answer = run.ask(history, 8, ANNA, "chat").token_ids
    assert answer is not None
    history += answer
    for where in (SessionState.HOST, SessionState.DISK, None):
        if where is None:
            run.engine.stop(ENDED)
            run = Run(**settings)
        else:
            run.put_away(where)
        before, prompt = run.hits(), [*history, *numbers(20, seed=len(history))]
        end = run.ask(prompt, 8, ANNA, "chat")
        source = "host" if where is SessionState.HOST else "disk"
        assert end.usage.cached_from == CachedFrom(**{source: len(history) - 1})
        assert getattr(run.hits(), source) - getattr(before, source) == end.usage.cached_tokens
        assert end.token_ids == cold(prompt, 8)
        assert end.token_ids is not None
        history = [*prompt, *end.token_ids]
    run.engine.stop(ENDED)


def test_a_seed_gives_the_same_ids_with_any_reuse_after_preemption_and_from_every_tier(tmp_path: Path) -> None:
    """vllm-project/vllm#51226"""
    chance = random.Random(3)
    shared = numbers(60)
    prompts = [[*shared[: chance.randrange(60)], *numbers(chance.randint(1, 30), seed)] for seed in range(12)]
    sampling = {"temperature": 1.2, "seed": 5, "repetition_penalty": 1.1, "presence_penalty": 0.2}
    expected = [cold(prompt, 50, **sampling) for prompt in prompts]
    with running(num_pages=12, kv_reserve=0.0, host_memory_bytes=16 * PAGE_BYTES, disk_folder=tmp_path / "kv") as run:
        for _ in range(2):
            names = [
                run.submit(prompt, 50, ANNA, f"chat {number}", **sampling) for number, prompt in enumerate(prompts)
            ]
            ends = run.drain()
            assert [ends[name].token_ids for name in names] == expected
        assert run.engine.stats(EngineState.READY, 1).preemptions_total > 0
        assert run.hits().device
        assert run.hits().host


@pytest.mark.parametrize("seed", range(4))
def test_every_place_holds_its_own_token_after_every_step_of_a_schedule_with_reuse(tmp_path: Path, seed: int) -> None:
    """vllm-project/vllm#36580. The tiny decoder's keys are the token and its position, so every place can be looked at: those
    of running sequences, and those of pages that are only kept, on the device and in the host."""
    chance = random.Random(seed)
    engine = tiny_engine(
        num_pages=14,
        max_running=4,
        max_step_tokens=20,
        context_tokens=200,
        decoder=TinyDecoder(),
        host_memory_bytes=20 * 256,
    )
    engine._scheduler.worth_fetching = lambda pages: chance.random() < 0.8
    chance.shuffle(engine._scheduler.pool._free)
    waiting = [asked_of_some(chance, number) for number in range(40)]
    while waiting or engine.has_work:
        if waiting and chance.random() < 0.3:
            asked, ids = waiting.pop()
            engine.submit(asked, ids, 0.0)
        engine.step()
        assert_places(engine)
    hit = engine.stats(EngineState.READY, 1).prefix_tokens_hit
    assert min(hit.device, hit.host) > 0, "the schedule was not what this test is about"


def asked_of_some(chance: random.Random, number: int) -> tuple[GenerationRequest, list[int]]:
    shared = numbers(70)
    ids = [*shared[: chance.randrange(70)], *numbers(chance.randint(1, 20), seed=chance.randrange(4))]
    asked = request(f"r{number}", max_tokens=chance.choice([1, 5, 30]), ignore_eos=True)
    whose = Namespace.user(chance.choice(["anna", "bert"]))
    return replace(asked, namespace=whose, session=f"chat {number % 5}"), ids


def assert_places(engine: Engine) -> None:
    device = engine._runner._cache.keys[0].view(-1, PAGE_TOKENS, 2)
    for sequence in engine._scheduler.running:
        held = device[torch.tensor(sequence.pages, dtype=torch.int64)].reshape(-1, 2)[: sequence.num_computed]
        assert held[:, 0].tolist() == sequence.tokens[: sequence.num_computed]
        assert held[:, 1].tolist() == list(range(sequence.num_computed))
    host = engine._memory.tiers._host
    assert host is not None
    for page in engine._scheduler.cache:
        expected = [[token, page.index * PAGE_TOKENS + place] for place, token in enumerate(page.tokens)]
        if page.device is not None:
            assert device[page.device][: len(page.tokens)].tolist() == expected
        if page.host is not None:
            assert host._records[page.host, 0, : len(page.tokens)].view(-1, 2).tolist() == expected
