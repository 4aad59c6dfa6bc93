"""How a request gets into the engine of this process: its prompt, the turns left out of it, and the bounds of the queue."""

from __future__ import annotations

import asyncio
import gc
import threading
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from engine.errors import PromptTooLong, QueueFull, QueueUnit
from engine.local import LocalEngine
from engine.model.batch import ForwardBatch
from engine.types import ContextPolicy, FinishReason, GenerationRequest, Namespace, RequestId, Role, Turn
from tests.engine.test_local_engine import Started
from tests.support.tiny_model import request

DROPPING = ContextPolicy.DROP_OLDEST_TURNS
CONTEXT_TOKENS = 512
MAX_RUNNING = 4
MAX_WAITING = 12
MAX_WAITING_TOKENS = 3000
BURST = 10_000


@pytest.fixture
async def started() -> AsyncIterator[Started]:
    started = Started(
        max_running=MAX_RUNNING, max_step_tokens=64, max_waiting=MAX_WAITING, max_waiting_tokens=MAX_WAITING_TOKENS
    )
    yield started
    started.may_load.set()
    await started.engine.stop()


def long_chat(exchanges: int) -> tuple[Turn, ...]:
    said = [
        Turn(role, f"{number} {role} says it") for number in range(exchanges) for role in (Role.USER, Role.ASSISTANT)
    ]
    return (Turn(Role.SYSTEM, "Be brief."), *said, Turn(Role.USER, "And now?"))


async def test_usage_says_how_many_turns_were_left_out(started: Started) -> None:
    engine = await started.ready()
    one = replace(request("a", max_tokens=4), turns=long_chat(40), context_policy=DROPPING)
    await engine.submit(one)
    (end,) = await started.listener.end_of("a")
    assert 0 < end.usage.dropped_turns < 80
    kept = one.turns[:1] + one.turns[1 + end.usage.dropped_turns :]
    assert end.usage.input_tokens == len(started.tokenizer.encode_turns(kept)) == await engine.check(one)


async def test_a_cancelled_answer_tells_it_too(started: Started) -> None:
    engine = await started.ready()
    one = replace(request("a", max_tokens=None, ignore_eos=True), turns=long_chat(40), context_policy=DROPPING)
    await engine.submit(one)
    engine.cancel(RequestId("a"))
    (end,) = await started.listener.end_of("a")
    assert end.usage.dropped_turns > 0


async def test_a_last_message_that_does_not_fit_by_itself_is_refused_with_its_own_size(started: Started) -> None:
    engine = await started.ready()
    too_long = (*long_chat(40), Turn(Role.ASSISTANT, "yes"), Turn(Role.USER, "x" * CONTEXT_TOKENS))
    with pytest.raises(PromptTooLong) as caught:
        await engine.submit(replace(request("a"), turns=too_long, context_policy=DROPPING))
    smallest = (too_long[0], too_long[-1])
    assert caught.value.prompt_tokens == len(started.tokenizer.encode_turns(smallest))
    assert caught.value.available_tokens == CONTEXT_TOKENS - 1


class Held:
    """The engine stands still in its first step until the test lets it go on, or ends."""

    def __init__(self, started: Started) -> None:
        self.in_step, self.go_on = threading.Event(), threading.Event()
        started.decoder.before_forward = self._hold

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on.set()

    def _hold(self, batch: ForwardBatch) -> None:
        self.in_step.set()
        assert self.go_on.wait(timeout=60)


async def test_a_queue_that_is_full_of_tokens_says_so_in_tokens(started: Started) -> None:
    engine = await started.ready()
    with Held(started) as held:
        await engine.submit(request("running"))
        await asyncio.to_thread(held.in_step.wait)
        long = "x" * 400
        each = await engine.check(request("counted", long))
        names = [f"r{number}" for number in range(MAX_WAITING_TOKENS // each)]
        for name in names:
            await engine.submit(request(name, long, max_tokens=2))
        with pytest.raises(QueueFull) as caught:
            await engine.submit(request("one too many", long))
        assert caught.value.unit is QueueUnit.TOKENS
        assert caught.value.limit == MAX_WAITING_TOKENS
        assert MAX_WAITING_TOKENS - each < caught.value.waiting <= MAX_WAITING_TOKENS
        assert caught.value.retry_after_s >= 1
    await started.listener.end_of("running", *names)
    await engine.submit(request("again", long, max_tokens=2))
    await started.listener.end_of("again")


async def test_a_request_that_can_never_fit_is_told_so_also_when_the_queue_is_full_of_tokens(started: Started) -> None:
    """vllm-project/vllm#39734. Told to come back later, it would come back for ever."""
    engine = await started.ready()
    with Held(started):
        for number in range(6):
            await engine.submit(request(f"r{number}", "x" * 490, max_tokens=1))
        with pytest.raises(PromptTooLong):
            await engine.submit(request("never", "x" * CONTEXT_TOKENS))
    await started.listener.end_of(*(f"r{number}" for number in range(6)))


async def test_a_burst_of_ten_thousand_leaves_nothing_behind_but_what_was_taken(started: Started) -> None:
    """vllm-project/vllm#18826, vllm-project/vllm#13395: the queue grew until the process died."""
    engine = await started.ready()
    with Held(started):
        text = "x" * 200

        async def submit(number: int) -> int | None:
            try:
                await engine.submit(request(f"r{number}", text, max_tokens=3))
            except QueueFull as refused:
                return refused.limit
            return None

        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            results = await asyncio.gather(*(submit(number) for number in range(BURST)))
            await asyncio.sleep(0)  # the loop lets go of the callers
            gc.collect()
            after, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        names = [f"r{number}" for number, limit in enumerate(results) if limit is None]
        assert set(results) <= {None, MAX_WAITING, MAX_WAITING_TOKENS}
        assert 0 < len(names) <= MAX_RUNNING + MAX_WAITING
        # What was taken: a request with its turns, its ids, and what the thread keeps of it, far below 100 kB each.
        assert after - before < len(names) * 100_000
        # While the burst lasts, a caller's own coroutine, request and refusal: about 1 kB.
        assert peak - before < BURST * 2_000
    ends = await started.listener.end_of(*names)
    assert {end.reason for end in ends} <= {FinishReason.LENGTH, FinishReason.STOP}
    await engine.submit(request("after", max_tokens=1))
    await started.listener.end_of("after")


async def test_counting_prompts_is_bounded_too(started: Started) -> None:
    """A server counts each prompt before it stores anything, so a burst arrives here first."""
    engine = await started.ready()
    results = await asyncio.gather(
        *(engine.check(request(f"r{number}", "x" * 200)) for number in range(BURST)), return_exceptions=True
    )
    counted = [tokens for tokens in results if isinstance(tokens, int)]
    refused = [refusal for refusal in results if isinstance(refusal, QueueFull)]
    assert len(counted) == MAX_RUNNING + MAX_WAITING
    assert len(refused) == BURST - len(counted)
    assert refused[0].retry_after_s >= 1
    assert await engine.check(request("after", "x" * 200)) == counted[0]


async def test_sessions_of_the_same_name_in_two_namespaces_have_nothing_in_common(started: Started) -> None:
    engine = await started.ready()
    anna, bob = (
        replace(request(name, f"the words of {name}", max_tokens=2), namespace=Namespace.user(name), session="s")
        for name in ("anna", "bob")
    )
    for one in (anna, bob, anna, bob):
        assert await engine.check(one) == len(started.tokenizer.encode_turns(one.turns))
    await engine.submit(anna)
    await engine.submit(bob)
    await started.listener.end_of("anna", "bob")


def remembered(engine: LocalEngine) -> int:
    assert engine._prompts is not None
    return len(engine._prompts._chats)


async def test_who_drops_a_session_drops_what_is_remembered_of_its_words(started: Started) -> None:
    engine = await started.ready()
    names = ("a", "b", "c")
    for name in names:
        one: GenerationRequest = replace(request(name, max_tokens=1), namespace=Namespace.user("u"), session=name)
        await engine.submit(one)
        key = one.session_key
    await started.listener.end_of(*names)
    assert remembered(engine) == 3
    assert key is not None
    await engine.drop_session(key)
    assert remembered(engine) == 2
    await engine.drop_namespace(Namespace.user("u"))
    assert remembered(engine) == 0


async def test_a_turn_that_is_still_encoded_when_its_session_is_dropped_ends_and_leaves_nothing(
    started: Started,
) -> None:
    """Otherwise it would reach the engine after the session was forgotten, and put its words there again."""
    engine = await started.ready()
    may_encode = threading.Event()
    encode = started.tokenizer.encode_turns

    def slow(turns: object) -> list[int]:
        assert may_encode.wait(timeout=60)
        return encode(turns)  # type: ignore[arg-type]

    started.tokenizer.encode_turns = slow  # type: ignore[method-assign]
    one = replace(request("a", max_tokens=None, ignore_eos=True), namespace=Namespace.user("u"), session="conversation")
    key = one.session_key
    assert key is not None
    submission = asyncio.create_task(engine.submit(one))
    await asyncio.sleep(0)
    dropping = asyncio.create_task(engine.drop_session(key))
    await asyncio.sleep(0)
    may_encode.set()
    await submission
    await dropping
    (end,) = await started.listener.end_of("a")
    assert end.reason is FinishReason.CANCELLED
    assert remembered(engine) == 0
    assert (await engine.snapshot()).sessions == ()


async def test_what_was_counted_is_not_encoded_again(started: Started) -> None:
    engine = await started.ready()
    one = replace(request("a", max_tokens=2), turns=long_chat(3))
    tokens = await engine.check(one)
    encoded: list[object] = []
    encode = started.tokenizer.encode_chat
    started.tokenizer.encode_chat = lambda *given, **more: encoded.append(given) or encode(*given, **more)  # type: ignore[method-assign, func-returns-value]
    await engine.submit(one)
    (end,) = await started.listener.end_of("a")
    assert (end.usage.input_tokens, encoded) == (tokens, [])
    await engine.submit(replace(one, request_id=RequestId("b")))
    await started.listener.end_of("b")
    assert len(encoded) == 1
