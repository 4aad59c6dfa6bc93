"""What every `EngineClient` keeps to about what is used again: whose it is, how much, and that it can be forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from engine.client import EngineClient
from engine.errors import EngineNotReady, PromptTooLong, QueueFull
from engine.snapshot import PrefixState, PrefixStatus, SessionState, SessionStatus
from engine.types import (
    CachedFrom,
    ContextPolicy,
    Finished,
    FinishReason,
    GenerationRequest,
    Namespace,
    RequestId,
    Role,
    SessionKey,
    Turn,
)
from tests.contracts.conftest import CONTEXT_TOKENS, MAX_RUNNING, MAX_WAITING_TOKENS
from tests.support.engine_listener import Listener
from tests.support.tiny_model import request

ANN = Namespace.user("ann")
BOB = Namespace.user("bob")
TEXT = "a text that is longer than any one page of memory is, so that whole pages of it can be found again"
PERSONA = (Turn(Role.SYSTEM, "You are somebody who says little, and never anything that was not asked for, whatever."),)


def turn(
    name: str, text: str = TEXT, namespace: Namespace | None = ANN, session: str | None = "c1"
) -> GenerationRequest:
    return replace(request(name, text, max_tokens=8, ignore_eos=True), namespace=namespace, session=session)


def following(name: str, before: GenerationRequest, answer: str, end: Finished, text: str = "and") -> GenerationRequest:
    """The next turn of the same conversation."""
    said = Turn(Role.ASSISTANT, answer, end.token_ids)
    return replace(before, request_id=RequestId(name), turns=(*before.turns, said, Turn(Role.USER, text)))


async def ended(engine: EngineClient, listener: Listener, one: GenerationRequest) -> Finished:
    await engine.submit(one)
    (end,) = await listener.end_of(one.request_id)
    return end


async def sessions(engine: EngineClient) -> dict[SessionKey, SessionStatus]:
    return {status.key: status for status in (await engine.snapshot()).sessions}


async def prefix(engine: EngineClient, name: str) -> PrefixStatus:
    """The prefix, once it is computed."""
    while True:
        (status,) = [status for status in (await engine.snapshot()).prefixes if status.name == name]
        if status.state is PrefixState.READY:
            return status
        await asyncio.sleep(0.001)


async def test_nothing_is_kept_or_forgotten_before_the_engine_is_ready(fresh: EngineClient) -> None:
    key = SessionKey(ANN, "c1")
    for call in (
        fresh.snapshot(),
        fresh.evict_session(key),
        fresh.hold_session(key),
        fresh.release_session(key),
        fresh.drop_session(key),
        fresh.drop_namespace(ANN),
        fresh.set_prefix("p", PERSONA),
        fresh.drop_prefix("p"),
    ):
        with pytest.raises(EngineNotReady):
            await call


async def test_the_next_turn_computes_only_what_is_new(engine: EngineClient, listener: Listener) -> None:
    """ggml-org/llama.cpp#15082: every turn was read from its beginning, and nobody was told."""
    one = turn("a")
    for name in "bcdef":
        end = await ended(engine, listener, one)
        assert end.token_ids is not None
        history = end.usage.input_tokens + len(end.token_ids)
        one = following(name, one, listener.text(one.request_id), end)
        next_end = await ended(engine, listener, replace(one, request_id=RequestId(f"{name} itself")))
        # What was sampled last has not been read yet.
        assert next_end.usage.cached_tokens >= history - 1
        assert next_end.usage.cached_from == CachedFrom(device=next_end.usage.cached_tokens)


async def test_the_last_token_of_a_prompt_is_always_computed(engine: EngineClient, listener: Listener) -> None:
    """vllm-project/vllm#7845: the same prompt again gave another answer."""
    ends = [await ended(engine, listener, turn(name)) for name in "abcd"]
    assert ends[0].usage.cached_tokens == 0
    for end in ends[1:]:
        assert end.usage.cached_tokens == end.usage.input_tokens - 1
    assert {end.token_ids for end in ends} == {ends[0].token_ids}
    assert {listener.text(name) for name in "abcd"} == {listener.text("a")}


async def test_a_request_finds_the_same_with_a_session_and_without(engine: EngineClient, listener: Listener) -> None:
    """ggml-org/llama.cpp#24746: naming a session made reuse worse."""
    await ended(engine, listener, turn("a"))
    found = [
        (await ended(engine, listener, turn(f"with {session}", session=session))).usage.cached_tokens
        for session in ("c1", None, "c2")
    ]
    assert len(set(found)) == 1
    assert found[0] > 0


async def test_nobody_finds_what_is_somebody_elses(engine: EngineClient, listener: Listener) -> None:
    """vllm-project/vllm#17045, itigges22/ATLAS#87"""
    mine = await ended(engine, listener, turn("a"))
    for name, other in (
        ("b", BOB),
        ("part", Namespace.user("ann", "c1")),
        ("nobody", None),
    ):
        end = await ended(engine, listener, turn(name, namespace=other))
        assert end.usage.cached_tokens == 0, name
        assert end.token_ids == mine.token_ids


async def test_a_long_beginning_is_found_again_by_its_owner_alone(engine: EngineClient, listener: Listener) -> None:
    long = " ".join(map(str, range(125)))
    assert (await ended(engine, listener, turn("a", long))).usage.cached_tokens == 0
    again = await ended(engine, listener, turn("b", long))
    assert 0 < again.usage.cached_tokens < again.usage.input_tokens
    assert (await ended(engine, listener, turn("c", long, namespace=BOB))).usage.cached_tokens == 0


async def test_a_request_without_a_namespace_leaves_nothing_behind(engine: EngineClient, listener: Listener) -> None:
    for name in "ab":
        end = await ended(engine, listener, turn(name, namespace=None))
        assert end.usage.cached_tokens == 0
    assert await sessions(engine) == {}


async def test_a_session_is_active_while_its_turn_runs_and_then_idle(engine: EngineClient, listener: Listener) -> None:
    key = SessionKey(ANN, "c1")
    one = replace(turn("a"), sampling=replace(turn("a").sampling, max_tokens=None))
    await engine.submit(one)
    await listener.until(lambda: bool(listener.text("a")))
    assert (await sessions(engine))[key].state is SessionState.ACTIVE
    assert await engine.evict_session(key) is False
    engine.cancel(one.request_id)
    (end,) = await listener.end_of("a")
    status = (await sessions(engine))[key]
    assert status.state is SessionState.DEVICE
    assert status.turns == 1
    assert end.usage.input_tokens <= status.tokens <= end.usage.input_tokens + end.usage.output_tokens
    assert status.pages.device > 0


async def test_a_cancelled_turn_keeps_what_was_before_it(engine: EngineClient, listener: Listener) -> None:
    """ggml-org/llama.cpp#29163: whoever stopped an answer paid for the whole history again."""
    first = turn("a")
    end = await ended(engine, listener, first)
    second = following("b", first, listener.text("a"), end)
    await engine.submit(replace(second, sampling=replace(second.sampling, max_tokens=None)))
    await listener.until(lambda: bool(listener.text("b")))
    engine.cancel(second.request_id)
    (stopped,) = await listener.end_of("b")
    third = following("c", second, listener.text("b"), stopped)
    assert (await ended(engine, listener, third)).usage.cached_tokens >= stopped.usage.input_tokens


async def test_an_evicted_session_moves_on_until_it_is_gone_and_still_answers_alike(
    engine: EngineClient, listener: Listener
) -> None:
    key = SessionKey(ANN, "c1")
    assert await engine.evict_session(key) is False
    first = await ended(engine, listener, turn("a"))
    moves = 0
    while await engine.evict_session(key):
        moves += 1
    assert 1 <= moves <= 3
    assert key not in await sessions(engine)
    assert (await ended(engine, listener, turn("b"))).token_ids == first.token_ids


async def test_a_held_session_has_no_timer_until_it_is_released(engine: EngineClient, listener: Listener) -> None:
    key = SessionKey(ANN, "c1")
    assert await engine.hold_session(key) is False
    assert await engine.release_session(key) is False
    await ended(engine, listener, turn("a"))
    for _ in range(2):
        assert await engine.hold_session(key) is True
        assert (await sessions(engine))[key].seconds_to_timeout is None
    assert await engine.release_session(key) is True
    assert (await sessions(engine))[key].seconds_to_timeout is not None


async def test_a_dropped_session_is_forgotten_and_no_other(engine: EngineClient, listener: Listener) -> None:
    for session in ("c1", "c2"):
        await ended(engine, listener, turn(f"{session} first", f"{session} {TEXT}", session=session))
    assert await engine.drop_session(SessionKey(BOB, "c1")) is False
    assert await engine.drop_session(SessionKey(ANN, "c1")) is True
    assert await engine.drop_session(SessionKey(ANN, "c1")) is False
    assert set(await sessions(engine)) == {SessionKey(ANN, "c2")}
    for session, is_found in (("c1", False), ("c2", True)):
        end = await ended(engine, listener, turn(f"{session} again", f"{session} {TEXT}", session=session))
        # Before its own text, both begin alike.
        assert (end.usage.cached_tokens > end.usage.input_tokens // 2) is is_found


async def test_dropping_a_session_ends_its_turn_and_keeps_nothing_of_it(
    engine: EngineClient, listener: Listener
) -> None:
    one = replace(turn("a"), sampling=replace(turn("a").sampling, max_tokens=None))
    await engine.submit(one)
    await listener.until(lambda: bool(listener.text("a")))
    assert await engine.drop_session(SessionKey(ANN, "c1")) is True
    (end,) = await listener.end_of("a")
    assert end.reason is FinishReason.CANCELLED
    assert await sessions(engine) == {}
    assert (await ended(engine, listener, turn("b"))).usage.cached_tokens == 0


async def test_dropping_a_namespace_forgets_its_parts_and_nobody_else(engine: EngineClient, listener: Listener) -> None:
    part = Namespace.user("ann", "customer 7")
    for number, namespace in enumerate((ANN, ANN, part, BOB)):
        await ended(engine, listener, turn(f"r{number}", namespace=namespace, session=f"c{number}"))
    assert await engine.drop_namespace(ANN) == 3
    assert await engine.drop_namespace(ANN) == 0
    assert set(await sessions(engine)) == {SessionKey(BOB, "c3")}
    for name, namespace, is_found in (("a", ANN, False), ("p", part, False), ("b", BOB, True)):
        end = await ended(engine, listener, turn(name, namespace=namespace, session=None))
        assert (end.usage.cached_tokens > 0) is is_found


async def test_dropping_a_part_leaves_the_rest_of_its_namespace(engine: EngineClient, listener: Listener) -> None:
    part = Namespace.user("ann", "customer 7")
    await ended(engine, listener, turn("a"))
    await ended(engine, listener, turn("b", namespace=part))
    assert await engine.drop_namespace(part) == 1
    assert set(await sessions(engine)) == {SessionKey(ANN, "c1")}


def with_persona(
    name: str, persona: str | None, turns: Sequence[Turn], namespace: Namespace = ANN
) -> GenerationRequest:
    one = turn(name, "hello", namespace, session=None)
    return replace(one, turns=(*turns, *one.turns), persona=persona)


async def test_a_personas_prefix_is_there_for_everybody_who_names_it(engine: EngineClient, listener: Listener) -> None:
    await engine.set_prefix("terse", PERSONA)
    status = await prefix(engine, "terse")
    assert status.source == "computed"
    assert status.tokens > 0
    plain = await ended(engine, listener, with_persona("plain", None, PERSONA))
    assert plain.usage.cached_tokens == 0
    for name, namespace in (("a", ANN), ("b", BOB)):
        end = await ended(engine, listener, with_persona(name, "terse", PERSONA, namespace))
        assert status.tokens // 2 < end.usage.cached_from.prefix <= status.tokens
        assert end.usage.cached_tokens == end.usage.cached_from.total
        assert end.token_ids == plain.token_ids


async def test_naming_a_persona_does_not_open_its_text_to_guesses(engine: EngineClient, listener: Listener) -> None:
    """Only the persona's own text, from its beginning, is looked up in what everybody shares."""
    await engine.set_prefix("terse", PERSONA)
    await prefix(engine, "terse")
    other = (Turn(Role.SYSTEM, "Another prompt altogether."),)
    await engine.set_prefix("other", other)
    await prefix(engine, "other")
    for number, (persona, turns) in enumerate((("other", PERSONA), ("unknown", PERSONA), (None, PERSONA))):
        end = await ended(engine, listener, with_persona(f"r{number}", persona, turns, Namespace.user(f"u{number}")))
        # Both begin with the same few tokens of the template.
        assert end.usage.cached_tokens <= 3


async def test_a_persona_that_is_replaced_or_dropped_is_not_found_any_more(
    engine: EngineClient, listener: Listener
) -> None:
    await engine.set_prefix("terse", PERSONA)
    await prefix(engine, "terse")
    changed = (Turn(Role.SYSTEM, "Quite something else is wanted from now on, and this text says what it is."),)
    await engine.set_prefix("terse", changed)
    await prefix(engine, "terse")
    assert (await ended(engine, listener, with_persona("new", "terse", changed))).usage.cached_from.prefix > 10
    assert (await ended(engine, listener, with_persona("old", "terse", PERSONA))).usage.cached_tokens <= 3
    await engine.drop_prefix("terse")
    await engine.drop_prefix("terse")
    assert "terse" not in [status.name for status in (await engine.snapshot()).prefixes]
    assert (await ended(engine, listener, with_persona("gone", "terse", changed, BOB))).usage.cached_tokens == 0


async def test_a_queue_that_is_full_of_tokens_refuses_and_serves_the_others(
    engine: EngineClient, listener: Listener
) -> None:
    """vllm-project/vllm#32193: few requests, but long ones."""
    names = [f"r{number}" for number in range(MAX_RUNNING)]
    for name in names:
        await engine.submit(request(name, max_tokens=None, ignore_eos=True))
    await listener.until(lambda: all(listener.text(name) for name in names))
    long = "x " * (CONTEXT_TOKENS * 15 // 32)
    each = await engine.check(request("counted", long))
    fitting = MAX_WAITING_TOKENS // each
    for number in range(fitting):
        await engine.submit(request(f"long {number}", long, max_tokens=1))
    with pytest.raises(QueueFull) as caught:
        await engine.submit(request("too much", long, max_tokens=1))
    assert caught.value.retry_after_s >= 1
    assert engine.stats().waiting_tokens <= MAX_WAITING_TOKENS
    await engine.submit(request("short", "hi", max_tokens=1))
    await listener.end_of(*names, "short")


async def test_old_turns_are_left_out_where_the_policy_says_so_and_the_answer_tells(
    engine: EngineClient, listener: Listener
) -> None:
    """ggml-org/llama.cpp#17284: one message too many, and every further one was refused."""
    said = [Turn(role, "word " * 12) for _ in range(60) for role in (Role.USER, Role.ASSISTANT)]
    turns = (Turn(Role.SYSTEM, "Be brief."), *said, Turn(Role.USER, "And now?"))
    strict = replace(request("strict"), turns=turns)
    with pytest.raises(PromptTooLong):
        await engine.submit(strict)
    lenient = replace(strict, request_id=RequestId("lenient"), context_policy=ContextPolicy.DROP_OLDEST_TURNS)
    counted = await engine.check(lenient)
    end = await ended(engine, listener, lenient)
    assert end.usage.input_tokens == counted < CONTEXT_TOKENS
    assert 0 < end.usage.dropped_turns < len(said)
    fits = await ended(engine, listener, replace(request("fits"), context_policy=ContextPolicy.DROP_OLDEST_TURNS))
    assert fits.usage.dropped_turns == 0


async def test_what_is_too_long_by_itself_is_refused_under_every_policy(engine: EngineClient) -> None:
    for policy in ContextPolicy:
        with pytest.raises(PromptTooLong) as caught:
            await engine.check(replace(request("a", "word " * CONTEXT_TOKENS), context_policy=policy))
        assert caught.value.prompt_tokens > caught.value.available_tokens
