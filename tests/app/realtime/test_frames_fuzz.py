"""Whatever comes in: the server lives, the socket ends only where the contract says so, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

from app.realtime.incoming import BadFrame, read_frame
from app.realtime.protocol import AnyClientFrame
from tests.support.live_server import LiveServer, Person, live_server

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=15,
)
ID = "00000000-0000-4000-8000-000000000000"
VALID: list[dict[str, Any]] = [
    {"type": "session.hello", "id": "h", "data": {"protocol": 1, "resume": [{"response_id": ID, "last_seq": 3}]}},
    {
        "type": "message.create",
        "id": 1,
        "data": {
            "conversation_id": ID,
            "content": "hello",
            "parent_id": None,
            "client_message_id": "m",
            "params": {"max_tokens": 5, "stop": ["x"], "seed": 1, "temperature": 0.5},
        },
    },
    {"type": "response.regenerate", "id": "r", "data": {"parent_id": ID, "params": {}}},
    {"type": "response.cancel", "id": "c", "data": {"response_id": ID}},
    {"type": "conversation.subscribe", "id": "s", "data": {"conversation_id": ID}},
    {"type": "conversation.unsubscribe", "id": "u", "data": {"conversation_id": ID}},
    {"type": "ping", "id": "p", "data": {}},
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


@st.composite
def mutated_frames(draw: st.DrawFn) -> str:
    """A valid frame with one place replaced by anything."""
    frame = json.loads(json.dumps(draw(st.sampled_from(VALID))))
    path = draw(st.sampled_from([path for path in places(frame) if path]))
    target = frame
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = draw(json_values)
    return json.dumps(frame)


@st.composite
def damaged_texts(draw: st.DrawFn) -> str:
    """A valid frame cut or with some characters replaced."""
    text = json.dumps(draw(st.sampled_from(VALID)))
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 10)))
    return text[:start] + draw(st.text(max_size=5)) + text[end:]


texts = st.one_of(
    st.text(max_size=200),
    json_values.map(json.dumps),
    mutated_frames(),
    damaged_texts(),
    st.sampled_from(VALID).map(json.dumps),
)


@given(texts)
@settings(max_examples=1500, deadline=None)
def test_reading_any_text_gives_a_frame_or_an_error_that_can_be_sent(text: str) -> None:
    problem = None
    try:
        frame = read_frame(text)
    except BadFrame as bad:
        problem = bad
    if problem is not None:
        assert problem.code in ("malformed_json", "invalid_frame", "unknown_type")
        msgspec.json.encode({"message": problem.message, "reply_to": problem.reply_to or 0})
    else:
        assert isinstance(frame, AnyClientFrame)
        msgspec.json.encode({"reply_to": frame.id})


@given(st.binary(max_size=300))
def test_reading_any_bytes_as_text_does_not_raise_anything_else(data: bytes) -> None:
    try:
        read_frame(data.decode(errors="surrogateescape"))
    except BadFrame:
        return


async def bombard(live: LiveServer, ann: Person, frames: list[str]) -> None:
    """Send all of it over one socket; afterwards it must still answer, unless a frame asked for another protocol."""
    async with ann.socket() as socket:
        asked_to_close = False
        try:
            for frame in frames:
                await socket.connection.send(frame)
                try:
                    sent = json.loads(frame)
                    asked_to_close |= sent["type"] == "session.hello" and sent["data"]["protocol"] != 1
                except (ValueError, TypeError, KeyError):
                    pass
            assert (await socket.ask("ping"))["type"] == "pong"
        except ConnectionClosed:
            assert asked_to_close, socket.frames[-3:]
            assert socket.connection.close_code == 1002
        codes = {frame["data"]["code"] for frame in socket.frames if frame["type"] == "error"}
        assert "internal_error" not in codes, socket.frames
    async with ann.socket() as socket:
        await socket.ask("ping")


@pytest.fixture
def loop_of_its_own() -> Iterator[asyncio.Runner]:
    """Hypothesis calls a plain function many times; all of them share one loop and one server."""
    with asyncio.Runner() as runner:
        yield runner


def test_no_frame_kills_the_server_or_a_socket_that_did_not_ask_for_it(
    loop_of_its_own: asyncio.Runner, tmp_path: Path, sqlite_url: str
) -> None:
    run = loop_of_its_own.run
    server = live_server(tmp_path, sqlite_url, frames_per_second=1_000_000)
    live = run(server.__aenter__())
    someone = live.person("ann")
    ann = run(someone.__aenter__())

    @given(st.lists(texts, min_size=1, max_size=30))
    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    def attack(frames: list[str]) -> None:
        run(bombard(live, ann, frames))

    try:
        attack()
        assert set(live.context.responses.sizes().values()) == {0}
    finally:
        run(someone.__aexit__(None, None, None))
        run(server.__aexit__(None, None, None))
