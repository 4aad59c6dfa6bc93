"""What agents are told while they look at their inbox: that something has changed, and never what somebody said.

Whoever reads a message does it by a route, where the reading is written down. Filled by `announcing`, on the event loop; read by
`inbox_stream`. An event that finds a reader too slow is dropped, and the reader is told to look again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import msgspec

from app.replicas.bus import Bus, News, Topic

EVENTS_MAX = 256
"""Events that may wait for one reader: it looks at the inbox anew when there are more."""

RESYNC = b"event: resync_required\ndata: {}\n\n"

_encoder = msgspec.json.Encoder()


class InboxReader:
    """One who listens. Closed by whoever opened it."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._arrived = asyncio.Event()

    def put(self, event: bytes) -> None:
        """Have it sent."""
        if len(self._waiting) >= EVENTS_MAX:
            self._waiting.clear()
            event = RESYNC
        self._waiting.append(event)
        self._arrived.set()

    def wake(self) -> None:
        """Have `arrived` return, whether there is something or not."""
        self._arrived.set()

    async def arrived(self) -> bytes:
        """Everything that waits; waits for the first of it."""
        await self._arrived.wait()
        self._arrived.clear()
        events = b"".join(self._waiting)
        self._waiting.clear()
        return events


class InboxFeed:
    """Owns who listens here, and passes what happens on to the other servers."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._readers: set[InboxReader] = set()
        bus.on(Topic.DESK, self._heard)
        bus.on_reconnected(self._look_again)

    def __len__(self) -> int:
        return len(self._readers)

    def open(self) -> InboxReader:
        """Listen from now on."""
        reader = InboxReader()
        self._readers.add(reader)
        return reader

    def close(self, reader: InboxReader) -> None:
        """Idempotent."""
        self._readers.discard(reader)

    def publish(self, event: str, data: dict[str, Any]) -> None:
        """Tell every reader, of all servers."""
        plain = msgspec.to_builtins(data)
        self._show(event, plain)
        self._bus.publish(Topic.DESK, event=event, data=plain)

    def _heard(self, news: News) -> None:
        self._show(news["event"], news["data"])

    def _show(self, event: str, data: Any) -> None:
        if self._readers:
            encoded = b"event: %s\ndata: %s\n\n" % (event.encode(), _encoder.encode(data))
            for reader in self._readers:
                reader.put(encoded)

    def _look_again(self) -> None:
        for reader in self._readers:
            reader.put(RESYNC)
