"""One Kvasir in front of another: what is said, what is cached, and a cancel, over its API for OpenAI's clients."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.remote.client import RemoteEngine
from engine.remote.config import RemoteConfig
from engine.types import FinishReason, Namespace, Role, Turn
from tests.support.engine_listener import Listener
from tests.support.fake_engine import FakeEngine
from tests.support.live_server import eventually, live_server
from tests.support.scripts import ENDLESS, text_script
from tests.support.tiny_model import request

TEXT = "naïve 😀👩‍👩‍👧 日本語"


async def test_text_reuse_and_a_cancel_pass_through_both(tmp_path: Path) -> None:
    theirs, listener = FakeEngine(delay_s=0.001, context_tokens=2048), Listener()
    theirs.queue_script(text_script(TEXT, piece_chars=1))
    async with live_server(tmp_path, engine=theirs) as server, server.person("ann") as ann:
        engine = RemoteEngine(RemoteConfig(url=f"{server.url}/v1", api_key=ann.token))
        await engine.start(listener)
        await engine.wait_ready()
        assert engine.model is not None
        assert engine.model.context_tokens == 2048

        first = replace(request("first", "one two three", max_tokens=100), namespace=Namespace.user("u"), session="c")
        await engine.submit(first)
        (end,) = await listener.end_of("first")
        assert (listener.text("first"), end.reason, end.usage.cached_tokens) == (TEXT, FinishReason.STOP, 0)
        assert end.usage.output_tokens == len(TEXT)

        turns = (*first.turns, Turn(Role.ASSISTANT, TEXT), Turn(Role.USER, "and"))
        await engine.submit(replace(first, request_id=request("second").request_id, turns=turns))
        (again,) = await listener.end_of("second")
        assert again.usage.cached_tokens >= end.usage.input_tokens

        theirs.queue_script(ENDLESS)
        await engine.submit(request("third", max_tokens=2000))
        await listener.until(lambda: bool(listener.text("third")))
        engine.cancel(request("third").request_id)
        (cancelled,) = await listener.end_of("third")
        assert cancelled.reason is FinishReason.CANCELLED
        await eventually(lambda: theirs.stats().running_requests == 0)
        await engine.stop()
