"""Clients of several servers at once: they follow an answer to its end, whichever server goes away meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

from app.realtime.protocol import TERMINAL_TYPES
from tests.support.live_server import require_whole_log, text_of

PATIENCE_S = 120
"""Generous: fifty streams and two servers share a machine with everything else that is tested."""

LOST = (ConnectionClosed, InvalidHandshake, InvalidMessage, OSError, TimeoutError)


@dataclass
class Watcher:
    """Follows one answer at the first of these servers, and at the next one when that goes away. Every frame is kept."""

    urls: Sequence[str]
    headers: dict[str, str]
    response_id: str
    frames: dict[int, dict[str, Any]] = field(default_factory=dict)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self) -> list[dict[str, Any]]:
        """All frames of the answer, from the first to its end."""
        attempt = 0
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    await self._read(self.urls[attempt % len(self.urls)])
                    return [self.frames[seq] for seq in sorted(self.frames)]
                except LOST:
                    attempt += 1
                    await asyncio.sleep(0.05)

    async def _read(self, url: str) -> None:
        address = url.replace("http", "ws", 1) + "/ws"
        async with connect(address, additional_headers=self.headers, proxy=None, compression=None) as socket:
            resume = [{"response_id": self.response_id, "last_seq": len(self.frames)}]
            await socket.send(json.dumps({"type": "session.hello", "data": {"resume": resume}}))
            async for text in socket:
                frame = json.loads(text)
                assert frame["type"] != "resync_required", frame
                if frame.get("response_id") != self.response_id or "seq" not in frame:
                    continue
                assert frame["seq"] == len(self.frames) + 1
                self.frames[frame["seq"]] = frame
                if "text" in frame["data"]:
                    self.arrived.set()
                if frame["type"] in TERMINAL_TYPES:
                    return
        raise ConnectionResetError("the socket ended before the answer")


async def begin(client: httpx.AsyncClient, content: str = "hello") -> tuple[str, str]:
    """A new conversation with one turn: its id, and that of the response."""
    conversation = (await asked(client, "POST", "/api/v1/conversations", {}))["id"]
    body = await asked(client, "POST", f"/api/v1/conversations/{conversation}/messages", {"content": content})
    return conversation, body["response"]["id"]


async def asked(client: httpx.AsyncClient, method: str, path: str, body: Any = None) -> Any:
    """The answer's body; asked again while the server cannot say."""
    async with asyncio.timeout(PATIENCE_S):
        while (answer := await client.request(method, path, json=body)).status_code == 503:  # noqa: ASYNC110
            # Nobody announces that it can say again.
            await asyncio.sleep(0.2)
    assert answer.is_success, answer.text
    return answer.json()


async def require_same(
    client: httpx.AsyncClient, conversation: str, frames: list[dict[str, Any]], *others: list[dict[str, Any]]
) -> None:
    """Everybody saw the same frames, and they add up to what is stored."""
    require_whole_log(frames)
    for other in others:
        assert other == frames
    messages = await asked(client, "GET", f"/api/v1/conversations/{conversation}/messages")
    assert messages["items"][0]["content"] == text_of(frames)
    assert messages["items"][0]["last_seq"] == len(frames)
