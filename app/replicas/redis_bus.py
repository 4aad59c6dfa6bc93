"""The bus over Redis' publish and subscribe: one channel, one connection that listens, one task that speaks.

One channel for all conversations, because news is small and rare (a few per turn, none per piece of text), and because a server
that subscribes to a conversation's own channel would miss what is said before Redis knows of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
import structlog
from redis.asyncio.client import PubSub

from app.replicas.bus import Listener, News, Topic
from app.replicas.ending import ended
from app.replicas.redis_link import AWAY, BLOCK_S, FIRST_PAUSE_S, PREFIX, RedisLink, longer

logger = structlog.stdlib.get_logger(__name__)

CHANNEL = f"{PREFIX}news"
WAITING_MAX = 10_000
"""News that may wait for Redis. Beyond that it is lost, as it is while Redis is away."""


class _Message(msgspec.Struct):
    sender: str
    topic: str
    news: News


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Message)


class RedisBus:
    """One server's end. `owner` is its name, by which it knows its own news again."""

    def __init__(self, link: RedisLink, owner: str) -> None:
        self._link = link
        self._owner = owner
        self._listeners: dict[str, list[Listener]] = {}
        self._reconnected: list[Callable[[], None]] = []
        self._waiting: list[bytes] = []
        self._has_news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """See `Bus`."""
        self._tasks = [asyncio.create_task(self._speak()), asyncio.create_task(self._listen())]

    def publish(self, topic: Topic, **news: Any) -> None:
        """See `Bus`."""
        if len(self._waiting) < WAITING_MAX:
            self._waiting.append(_encoder.encode(_Message(self._owner, topic, news)))
            self._has_news.set()

    def on(self, topic: Topic, listener: Listener) -> None:
        """See `Bus`."""
        self._listeners.setdefault(topic, []).append(listener)

    async def num_others(self) -> int:
        """See `Bus`."""
        try:
            ((_, count),) = await self._link.commands.pubsub_numsub(CHANNEL)
        except AWAY as problem:
            self._link.failed(problem)
            return 0
        return max(0, int(count) - 1)

    def on_reconnected(self, listener: Callable[[], None]) -> None:
        """See `Bus`."""
        self._reconnected.append(listener)

    async def close(self) -> None:
        """See `Bus`."""
        tasks, self._tasks = self._tasks, []
        await ended(tasks)

    async def _speak(self) -> None:
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            waiting, self._waiting = self._waiting, []
            try:
                async with self._link.commands.pipeline(transaction=False) as pipeline:
                    for message in waiting:
                        pipeline.publish(CHANNEL, message)
                    await pipeline.execute()
            except AWAY as problem:
                # Who listens reads SQL when it is back.
                self._link.failed(problem)
                logger.info("news_lost", count=len(waiting))

    async def _listen(self) -> None:
        pause_s, is_first = FIRST_PAUSE_S, True
        while True:
            async with contextlib.aclosing(self._link.blocking.pubsub()) as subscription:
                try:
                    await subscription.subscribe(CHANNEL)
                    await self._hear(subscription, is_first)
                except AWAY as problem:
                    self._link.failed(problem)
            is_first = False
            await asyncio.sleep(pause_s)
            pause_s = longer(pause_s) if self._link.problem else FIRST_PAUSE_S

    async def _hear(self, subscription: PubSub, is_first: bool) -> None:
        while True:
            message = await subscription.get_message(timeout=BLOCK_S)
            if message is None:
                continue
            if message["type"] == "subscribe":
                self._link.answered()
                if not is_first:
                    for tell in self._reconnected:
                        tell()
            elif message["type"] == "message":
                self._take(message["data"])

    def _take(self, data: bytes) -> None:
        try:
            message = _decoder.decode(data)
        except msgspec.MsgspecError as problem:
            logger.warning("news_unreadable", error=str(problem))
            return
        if message.sender == self._owner:
            return
        for listener in self._listeners.get(message.topic, ()):
            try:
                listener(message.news)
            except Exception:
                # What another version says may lack what this one expects; the next news may be fine.
                logger.exception("news_not_taken", topic=message.topic)
