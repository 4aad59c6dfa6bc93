"""A reader that is slow gets the same text in fewer pieces, and one that takes nothing is let go."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from app.openai.calls import Calls
from app.openai.completion import ChatChunks
from app.openai.reader import Reading, StreamReader
from app.realtime.hub import Hub
from engine.types import Finished, FinishReason, TextDelta, Usage
from tests.app.openai.surface import ID, call_that_said, events, text_of


class Cancelled:
    """All that a reader asks of `Calls`."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def cancel(self, call: object) -> None:
        self.calls.append(call)


class Client:
    """One whose connection takes a piece only when the test says so."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.may_take = asyncio.Semaphore(0)
        self.waits = asyncio.Semaphore(0)

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.body":
            self.waits.release()
            await self.may_take.acquire()
            self.pieces.append(message["body"])

    async def receive(self) -> Any:
        await asyncio.Event().wait()


async def holds() -> bool:
    return True


def reading(calls: Cancelled) -> Reading:
    given: Calls = calls  # type: ignore[assignment]
    return Reading(calls=given, hub=Hub(), still_holds=holds, expires_in_s=None, heartbeat_s=60, send_timeout_s=60)


async def test_what_comes_while_a_reader_is_busy_is_one_piece() -> None:
    call, client, calls = call_that_said(), Client(), Cancelled()
    reader = StreamReader(call, reading(calls), ChatChunks(call, include_usage=False))
    running = asyncio.create_task(reader({}, client.receive, client.send))  # type: ignore[arg-type]
    await client.waits.acquire()
    for number in range(100):
        call.add(TextDelta(ID, f" {number}", number + 1))
    client.may_take.release()
    await client.waits.acquire()
    call.add(TextDelta(ID, " the end", 101))
    call.end(Finished(ID, FinishReason.STOP, Usage()))
    client.may_take.release()
    client.may_take.release()
    await running
    assert len(client.pieces) == 3
    assert text_of(events(b"".join(client.pieces).decode())) == "".join(f" {n}" for n in range(100)) + " the end"
    assert reader.reading.hub.sizes()["event_streams"] == 0


async def test_a_reader_that_takes_nothing_is_let_go() -> None:
    call, client, calls = call_that_said(), Client(), Cancelled()
    given = replace(reading(calls), send_timeout_s=0.01)
    reader = StreamReader(call, given, ChatChunks(call, include_usage=False))
    await reader({}, client.receive, client.send)  # type: ignore[arg-type]
    assert calls.calls == [call]
    assert client.pieces == []
