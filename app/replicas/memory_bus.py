"""The bus within one process. A server without Redis is alone on it, so what it publishes reaches nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from app.replicas.bus import Listener, News, Topic


class MemoryBroker:
    """Owns who is on the bus."""

    def __init__(self) -> None:
        self._members: list[MemoryBus] = []

    def join(self, member: MemoryBus) -> None:
        self._members.append(member)

    def leave(self, member: MemoryBus) -> None:
        """Idempotent."""
        if member in self._members:
            self._members.remove(member)

    def others(self, member: MemoryBus) -> list[MemoryBus]:
        """Everybody who is on it but this one; nobody for one that has left."""
        return [other for other in self._members if other is not member] if member in self._members else []


class MemoryBus:
    """One server's end."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._listeners: dict[Topic, list[Listener]] = {}

    async def open(self) -> None:
        """See `Bus`."""
        self._broker.join(self)

    def publish(self, topic: Topic, **news: Any) -> None:
        """See `Bus`."""
        for other in self._broker.others(self):
            asyncio.get_running_loop().call_soon(other._hear, topic, news)

    def on(self, topic: Topic, listener: Listener) -> None:
        """See `Bus`."""
        self._listeners.setdefault(topic, []).append(listener)

    async def num_others(self) -> int:
        """See `Bus`."""
        return len(self._broker.others(self))

    def on_reconnected(self, listener: Callable[[], None]) -> None:
        """Memory is never away."""

    async def close(self) -> None:
        """See `Bus`."""
        self._broker.leave(self)
        self._listeners.clear()

    def _hear(self, topic: Topic, news: News) -> None:
        for listener in self._listeners.get(topic, ()):
            listener(news)
