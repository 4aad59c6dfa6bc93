"""Joins the hubs of all servers: what is announced here is delivered there, and what begins there is followed here.

Called by the hub and the bus, on the event loop. When news may have been lost, whoever follows a conversation here is told how it
is now, and led to the answers that are being made in it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import structlog

from app.conversations.schemas import ConversationBody
from app.database import Database, DatabaseAway
from app.realtime.event_log import EventLog
from app.realtime.hub import Hub
from app.realtime.protocol import ServerFrame
from app.replicas.bus import Bus, News, Topic
from app.replicas.ending import ended
from app.responses import queries
from app.responses.copies import Copies

logger = structlog.stdlib.get_logger(__name__)

_encoder = msgspec.json.Encoder()


class Relay:
    """Owns the task that looks after lost news."""

    def __init__(self, hub: Hub, bus: Bus, copies: Copies, database: Database) -> None:
        self._hub = hub
        self._bus = bus
        self._copies = copies
        self._database = database
        self._looking: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """From now on."""
        self._hub.on_announced(self._announced)
        self._hub.on_began(self._began)
        self._bus.on(Topic.ANNOUNCED, self._deliver)
        self._bus.on(Topic.BEGAN, self._lead)
        self._bus.on_reconnected(self._look_again)

    async def close(self) -> None:
        """End what is under way."""
        await ended(self._looking)

    def _announced(self, conversation_id: str, frame: bytes) -> None:
        self._bus.publish(Topic.ANNOUNCED, conversation_id=conversation_id, frame=frame.decode())

    def _began(self, log: EventLog) -> None:
        self._bus.publish(Topic.BEGAN, conversation_id=log.conversation_id, response_id=log.response_id)

    def _deliver(self, news: News) -> None:
        self._hub.deliver(news["conversation_id"], news["frame"].encode())

    def _lead(self, news: News) -> None:
        conversation_id: Any = news["conversation_id"]
        if self._hub.has_subscribers(conversation_id):
            self._hub.lead_subscribers(self._copies.open(conversation_id, news["response_id"]))

    def _look_again(self) -> None:
        task = asyncio.create_task(self._catch_up())
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _catch_up(self) -> None:
        for conversation_id in self._hub.subscribed():
            try:
                async with self._database.read() as session:
                    conversation = await queries.conversation(session, conversation_id)
                    unfinished = await queries.unfinished_in(session, conversation_id)
            except DatabaseAway:
                logger.warning("watchers_not_caught_up", conversations=len(self._hub.subscribed()))
                return
            data: dict[str, Any] = (
                {"deleted": True, "reason": "deleted"}
                if conversation is None
                else {"conversation": ConversationBody.of(conversation)}
            )
            frame = ServerFrame(type="conversation.updated", conversation_id=conversation_id, data=data)
            self._hub.deliver(conversation_id, _encoder.encode(frame))
            for response, _ in unfinished:
                if self._hub.has_subscribers(conversation_id):
                    self._hub.lead_subscribers(self._copies.open(conversation_id, response.id))
