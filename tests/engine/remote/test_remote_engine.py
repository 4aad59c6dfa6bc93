"""The remote engine in front of a server that speaks like vLLM, on a good day and on all others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import EngineNotReady, TemplateRefused
from engine.remote.client import RemoteEngine
from engine.remote.config import RemoteConfig
from engine.remote.dialect import Dialect
from engine.types import (
    ContextPolicy,
    EngineState,
    FailureCode,
    Finished,
    FinishReason,
    GenerationRequest,
    Namespace,
    PromptProgress,
    Role,
    SessionKey,
    Turn,
)
from tests.support.engine_listener import Listener
from tests.support.fake_cluster import FakeCluster, Fault
from tests.support.live_server import eventually
from tests.support.scripts import ENDLESS, text_script
from tests.support.tiny_model import request

ANN = Namespace.user("the-id-of-ann")
TEXT = "Ein Wörterbuch: naïve 😀👩‍👩‍👧 日本語 Ελληνικά \N{ZERO WIDTH JOINER} end."


@pytest.fixture
def listener() -> Listener:
    return Listener()


@asynccontextmanager
async def engine_for(cluster: FakeCluster, listener: Listener, **changes: Any) -> AsyncIterator[RemoteEngine]:
    """Started, ready, and stopped again. Between two tries it does not wait."""
    config = RemoteConfig(**{"url": cluster.url, "probe_every_s": 0.02, "away_wait_s": 0.05, **changes})
    engine = RemoteEngine(config, sleep=lambda seconds: asyncio.sleep(0))
    await engine.start(listener)
    try:
        await engine.wait_ready()
        yield engine
    finally:
        await engine.stop()


async def ended(engine: RemoteEngine, listener: Listener, one: GenerationRequest) -> Finished:
    await engine.submit(one)
    (end,) = await listener.end_of(one.request_id)
    return end


def turn(name: str, text: str = "hello", session: str | None = "c1") -> GenerationRequest:
    return replace(request(name, text), namespace=ANN, session=session)


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 1000])
async def test_text_of_many_bytes_arrives_whole_however_the_stream_is_cut(listener: Listener, piece_bytes: int) -> None:
    async with FakeCluster(piece_bytes=piece_bytes) as cluster, engine_for(cluster, listener) as engine:
        cluster.engine.queue_script(text_script(TEXT, piece_chars=1))
        end = await ended(engine, listener, request("a", max_tokens=200))
        assert listener.text("a") == TEXT
        assert (end.reason, end.usage.output_tokens) == (FinishReason.STOP, len(TEXT))


async def test_the_second_turn_says_how_much_was_cached(listener: Listener) -> None:
    async with FakeCluster() as cluster, engine_for(cluster, listener) as engine:
        first = await ended(engine, listener, turn("a", "one two three four five"))
        assert (first.usage.cached_tokens, first.usage.cached_from.total) == (0, 0)
        turns = (
            *turn("a", "one two three four five").turns,
            Turn(Role.ASSISTANT, listener.text("a")),
            Turn(Role.USER, "go"),
        )
        second = await ended(engine, listener, replace(turn("b"), turns=turns))
        assert second.usage.cached_tokens >= first.usage.input_tokens
        assert second.usage.cached_from.device == second.usage.cached_tokens
        stats = engine.stats()
        assert stats.prefix_tokens_hit.total == second.usage.cached_tokens
        assert stats.prefix_tokens_queried_total == first.usage.input_tokens + second.usage.input_tokens
        assert stats.decoded_tokens_total == first.usage.output_tokens + second.usage.output_tokens
        assert (stats.pages, stats.tier_bytes, stats.steps_total) == ((), (), 0)


async def test_a_server_is_told_whose_and_which_only_as_salts(listener: Listener) -> None:
    async with FakeCluster() as cluster, engine_for(cluster, listener, session_header="x-route") as engine:
        first, second = turn("a", session="the-conversation"), turn("b", session="the-conversation")
        other = replace(first, request_id=request("c").request_id, namespace=Namespace.user("somebody-else"))
        for one in (first, second, other, request("nobody"), request("nobody else")):
            await ended(engine, listener, one)
        salts = [asked.body["cache_salt"] for asked in cluster.asked]
        assert salts[0] == salts[1]
        assert len(set(salts)) == 4
        routes = [asked.headers.get("x-route") for asked in cluster.asked]
        assert routes[0] == routes[1] not in (None, routes[2], salts[0])
        assert routes[3:] == [None, None]
        told = str(cluster.asked)
        assert not any(name in told for name in (ANN.name, "somebody-else", "the-conversation"))


async def test_another_kvasir_gets_user_and_session(listener: Listener) -> None:
    kvasir = FakeCluster(owned_by="kvasir", counts=False, early_usage=False)
    async with kvasir as cluster, engine_for(cluster, listener) as engine:
        end = await ended(engine, listener, turn("a", "one two"))
        (asked,) = cluster.asked
        assert "cache_salt" not in asked.body
        assert asked.body["user"]
        assert asked.headers["x-kvasir-session"] == asked.headers["x-session-id"]
        assert end.usage.output_tokens == len(listener.events("a")) - 2
        assert cluster.counted == 0


async def test_a_cancel_closes_the_connection_and_keeps_what_was_shown(listener: Listener) -> None:
    async with FakeCluster() as cluster, engine_for(cluster, listener) as engine:
        cluster.engine.queue_script(ENDLESS)
        await engine.submit(request("a", max_tokens=None, ignore_eos=True))
        await listener.until(lambda: bool(listener.text("a")))
        engine.cancel(request("a").request_id)
        (end,) = await listener.end_of("a")
        assert end.reason is FinishReason.CANCELLED
        assert end.usage.output_tokens >= 1
        assert end.usage.input_tokens > 0
        async with asyncio.timeout(30):
            await cluster.asked[0].left.wait()
        assert engine.stats().running_requests == 0


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Fault(after=0), FailureCode.REMOTE_BROKE_OFF),
        (Fault(after=0, error="EngineCore died"), FailureCode.REMOTE_BROKE_OFF),
        (Fault(status=503, body='{"error": {"message": "full"}}'), FailureCode.REMOTE_OVERLOADED),
        (Fault(status=429, headers=(("Retry-After", "1"),)), FailureCode.REMOTE_OVERLOADED),
        (Fault(status=500, body="Internal Server Error"), FailureCode.REMOTE_BROKE_OFF),
        (Fault(status=502, body="<html>"), FailureCode.REMOTE_UNREACHABLE),
    ],
)
async def test_what_fails_before_a_word_was_shown_is_asked_again_so_often_and_no_more(
    listener: Listener, fault: Fault, code: FailureCode
) -> None:
    async with FakeCluster() as cluster, engine_for(cluster, listener, retries=2) as engine:
        cluster.misbehave(fault, fault)
        good = await ended(engine, listener, request("a"))
        assert (good.reason, len(cluster.asked)) == (FinishReason.STOP, 3)
        assert listener.text("a") == "You said: hi."
        cluster.misbehave(fault, fault, fault)
        bad = await ended(engine, listener, request("b"))
        assert bad.failure is not None
        assert (bad.reason, bad.failure.code, len(cluster.asked)) == (FinishReason.FAILED, code, 6)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(after=2),
        Fault(after=2, error="EngineCore died"),
        Fault(after=2, raw=b"data: {\n\n"),
        Fault(after=2, raw=b"data: [DONE]\n\n"),
        Fault(after=2, raw=b'data: {"choices": [{"delta": {}, "finish_reason": "abort"}]}\n\n'),
    ],
)
async def test_what_fails_in_its_middle_keeps_what_was_shown_and_is_not_asked_again(
    listener: Listener, fault: Fault
) -> None:
    """vllm-project/vllm-ascend#5445: a stream that broke looked like an answer that ended."""
    async with FakeCluster() as cluster, engine_for(cluster, listener) as engine:
        cluster.misbehave(fault)
        end = await ended(engine, listener, request("a", "one two three"))
        assert end.failure is not None
        assert (end.reason, end.failure.code) == (FinishReason.FAILED, FailureCode.REMOTE_BROKE_OFF)
        assert listener.text("a") == "You said"
        assert (end.usage.output_tokens, len(cluster.asked)) == (2, 1)
        assert (await ended(engine, listener, request("b"))).reason is FinishReason.STOP


@pytest.mark.parametrize("after", [0, 2])
async def test_a_server_that_falls_silent_is_given_up_and_left(listener: Listener, after: int) -> None:
    times = {"first_token_timeout_s": 0.1 if after == 0 else 30.0, "silence_timeout_s": 0.1}
    async with FakeCluster() as cluster, engine_for(cluster, listener, **times) as engine:
        cluster.misbehave(Fault(after=after, stalls=True))
        end = await ended(engine, listener, request("a", "one two three"))
        assert end.failure is not None
        assert end.failure.code == FailureCode.REMOTE_TIMED_OUT
        assert "0.1 s" in end.failure.message
        async with asyncio.timeout(30):
            await cluster.asked[0].left.wait()
        assert len(cluster.asked) == 1


async def test_what_a_server_cannot_do_fails_by_its_name_and_is_never_sent(listener: Listener) -> None:
    async with FakeCluster() as cluster, engine_for(cluster, listener, dialect=Dialect.OPENAI) as engine:
        end = await ended(engine, listener, request("a", min_p=0.2))
        assert end.failure is not None
        assert end.failure.code == FailureCode.REMOTE_REFUSED
        assert "min_p" in end.failure.message
        assert cluster.asked == []


async def test_a_refusal_says_what_the_server_said(listener: Listener) -> None:
    async with FakeCluster() as cluster, engine_for(cluster, listener) as engine:
        cluster.misbehave(Fault(status=400, body='{"error": {"message": "no such adapter"}}'))
        end = await ended(engine, listener, request("a"))
        assert end.failure is not None
        assert "no such adapter" in end.failure.message
        assert len(cluster.asked) == 1


async def test_a_conversation_that_only_the_server_can_measure_fails_or_is_shortened(listener: Listener) -> None:
    said = tuple(Turn(role, "word " * 10) for _ in range(30) for role in (Role.USER, Role.ASSISTANT))
    long = replace(request("a"), turns=(Turn(Role.SYSTEM, "Be brief."), *said, Turn(Role.USER, "And now?")))
    async with FakeCluster(context_tokens=300, counts=False) as cluster, engine_for(cluster, listener) as engine:
        end = await ended(engine, listener, long)
        assert end.failure is not None
        assert end.failure.code == FailureCode.CONTEXT_LENGTH_EXCEEDED
        dropping = replace(long, request_id=request("b").request_id, context_policy=ContextPolicy.DROP_OLDEST_TURNS)
        end = await ended(engine, listener, dropping)
        assert end.reason is FinishReason.STOP
        assert 0 < end.usage.dropped_turns < len(said)
        assert cluster.asked[-1].body["messages"][0]["content"] == "Be brief."


async def test_progress_is_told_when_the_prompt_was_read(listener: Listener) -> None:
    async with FakeCluster() as cluster, engine_for(cluster, listener) as engine:
        end = await ended(engine, listener, request("a", "some words"))
        (progress,) = [event for event in listener.events("a") if isinstance(event, PromptProgress)]
        assert progress.done_tokens == progress.total_tokens == end.usage.input_tokens


# --- the state of the cluster ---------------------------------------------------------------------------------------------


async def test_it_waits_for_a_cluster_that_starts_later(listener: Listener) -> None:
    async with FakeCluster() as cluster:
        await cluster.close()
        engine = RemoteEngine(RemoteConfig(url=cluster.url, probe_every_s=0.02))
        await engine.start(listener)
        await eventually(lambda: engine.failure is not None)
        assert engine.state is EngineState.LOADING
        assert cluster.url in str(engine.failure)
        with pytest.raises(EngineNotReady):
            await engine.submit(request("a"))
        await cluster.open()
        await engine.wait_ready()
        assert engine.failure is None
        assert (await ended(engine, listener, request("b"))).reason is FinishReason.STOP
        await engine.stop()


@pytest.mark.parametrize(
    ("options", "changes", "says"),
    [
        ({"key": "right"}, {"api_key": "wrong"}, "401"),
        ({}, {"model": "another"}, "another"),
        ({"owned_by": "somebody"}, {}, "KVASIR_ENGINE_DIALECT"),
    ],
)
async def test_a_setup_that_is_wrong_is_a_failure_with_a_sentence(
    listener: Listener, options: dict[str, Any], changes: dict[str, Any], says: str
) -> None:
    async with FakeCluster(**options) as cluster:
        engine = RemoteEngine(RemoteConfig(url=cluster.url, **changes))
        await engine.start(listener)
        with pytest.raises(EngineNotReady, match=says):
            await engine.wait_ready()
        assert engine.state is EngineState.FAILED
        assert "wrong" not in str(engine.failure)
        await engine.stop()


async def test_the_right_key_opens(listener: Listener) -> None:
    async with FakeCluster(key="right") as cluster, engine_for(cluster, listener, api_key="right") as engine:
        assert (await ended(engine, listener, request("a"))).reason is FinishReason.STOP


async def test_a_cluster_that_goes_away_is_noticed_waited_for_and_found_again(listener: Listener) -> None:
    async with FakeCluster() as cluster, engine_for(cluster, listener, max_running=1) as engine:
        cluster.engine.queue_script(ENDLESS)
        await engine.submit(request("running", max_tokens=None, ignore_eos=True))
        await engine.submit(request("waiting"))
        await listener.until(lambda: bool(listener.text("running")))
        await cluster.close()
        (running, waiting) = await listener.end_of("running", "waiting")
        assert running.failure is not None
        assert running.failure.code == FailureCode.REMOTE_BROKE_OFF
        assert waiting.failure is not None
        assert waiting.failure.code == FailureCode.REMOTE_UNREACHABLE
        await eventually(lambda: engine.state is EngineState.LOADING)
        assert engine.model is not None
        with pytest.raises(EngineNotReady, match="cannot be reached"):
            await engine.wait_ready()
        with pytest.raises(EngineNotReady):
            await engine.submit(request("late"))
        await cluster.open()
        await eventually(lambda: engine.state is EngineState.READY)
        assert (await ended(engine, listener, request("again"))).reason is FinishReason.STOP


async def test_one_look_that_fails_is_no_news(listener: Listener) -> None:
    async with FakeCluster() as cluster, engine_for(cluster, listener) as engine:
        looks = cluster.looks
        cluster.is_up = False
        await eventually(lambda: cluster.looks == looks + 1 or engine.state is not EngineState.READY)
        cluster.is_up = True
        await eventually(lambda: cluster.looks > looks + 3)
        assert engine.state is EngineState.READY


# --- what is forgotten ----------------------------------------------------------------------------------------------------


async def test_a_dropped_session_is_not_found_again_even_after_a_restart(listener: Listener, tmp_path: Path) -> None:
    async with FakeCluster() as cluster:
        async with engine_for(cluster, listener, folder=tmp_path) as engine:
            await ended(engine, listener, turn("a", "one two three"))
            assert (await ended(engine, listener, turn("b", "one two three"))).usage.cached_tokens > 0
            assert await engine.drop_session(SessionKey(ANN, "c1")) is True
            assert (await ended(engine, listener, turn("c", "one two three"))).usage.cached_tokens == 0
        async with engine_for(cluster, listener, folder=tmp_path) as engine:
            assert (await ended(engine, listener, turn("d", "one two three"))).usage.cached_tokens > 0
            # Nobody here remembers the session of before the restart, and it is forgotten all the same.
            assert await engine.drop_session(SessionKey(ANN, "c0")) is False
            assert (await ended(engine, listener, turn("e", "one two three"))).usage.cached_tokens == 0


async def test_personas_are_listed_as_cold(listener: Listener) -> None:
    async with FakeCluster() as cluster, engine_for(cluster, listener) as engine:
        await engine.set_prefix("terse", [Turn(Role.SYSTEM, "Be brief.")])
        (status,) = (await engine.snapshot()).prefixes
        assert (status.name, status.state, status.pages, status.source) == ("terse", "cold", 0, None)
        await engine.drop_prefix("terse")
        await engine.drop_prefix("terse")
        assert (await engine.snapshot()).prefixes == ()


async def test_a_template_that_refuses_says_so(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeCluster() as cluster, engine_for(cluster, listener) as engine:

        async def refusing(messages: object) -> int:
            raise ValueError

        async def answer(writer: asyncio.StreamWriter, status: int, body: object, headers: object = ()) -> None:
            content = b'{"error": {"message": "roles must alternate"}}'
            writer.write(b"HTTP/1.1 400 X\r\ncontent-length: %d\r\n\r\n%b" % (len(content), content))

        monkeypatch.setattr(cluster, "_tokens", lambda messages: asyncio.sleep(0, 0))
        monkeypatch.setattr(cluster, "_say", answer)
        with pytest.raises(TemplateRefused, match="roles must alternate"):
            await engine.check(request("a"))
